// Instance::forward: arguments, slot ids, scratch, and the chunks of tokens that it is sized for.
#include <algorithm>

#include "cuda_impl/host/instance.hpp"

namespace sinktrap::cuda_impl::SINKTRAP_TARGET {
namespace {

// Scratch for one chunk of tokens. Large enough that a chunk fills a GPU at the sizes of CONTRACT.md
// section 1.
constexpr std::uint64_t kScratchBytes = std::uint64_t{64} << 20;
constexpr std::int64_t kMaxGroups = 65535;  // the group is the grid's z axis

constexpr DLDataType kF32 = {kDLFloat, 32, 1}, kI32 = {kDLInt, 32, 1};

// The first id that is out of range goes before the first that needs a pool.
Verdict id_problem(const std::vector<std::int32_t>& ids, bool bound, std::int64_t S) {
  for (std::int32_t id : ids)
    if (id < -1 || (bound && id >= S))
      return verdict_of(SINKTRAP_SLOT_RANGE, SINKTRAP_NONE, SINKTRAP_NONE, id, bound ? S : 0);
  const bool base_only = std::all_of(ids.begin(), ids.end(), [](std::int32_t id) { return id == -1; });
  return verdict_of(bound || base_only ? SINKTRAP_OK : SINKTRAP_UNBOUND);
}

}  // namespace

void Instance::reserve_scratch(std::int64_t groups, ForwardView& v) {
  const std::int64_t rows[] = {H_, v.outer * 2 * v.R, n_ * F_, v.outer * v.R};
  float** const parts[] = {&v.packed_x, &v.bridge, &v.act, &v.down_bridge};
  std::uint64_t values = 0;
  for (std::int64_t r : rows) values += static_cast<std::uint64_t>(groups * r * kLanes);
  auto* at = static_cast<float*>(scratch_.reserve(values * sizeof(float)));
  // NaN: reading a place that no kernel wrote must show.
  require_device(device_fill(at, 0xff, values * sizeof(float)));
  for (int i = 0; i < 4; ++i) {
    *parts[i] = at;
    at += groups * rows[i] * kLanes;
  }
}

Verdict Instance::forward(const sinktrap_forward_args* args) {
  if (args == nullptr || args->struct_size < sizeof(sinktrap_forward_args))
    return refuse_argument("forward: arguments missing, or of an older interface");
  if (args->x == nullptr || args->x->ndim != 2 || args->x->shape == nullptr)
    return refuse_argument("x: needs 2 axes");
  if (args->gammas == nullptr) return refuse_argument("gammas: missing");
  const std::int64_t T = args->x->shape[0];
  const bool gammas_f32 = same_type(args->gammas->dtype, kF32);
  std::string problem = tensor_problem("x", args->x, {T, H_}, dtype_);
  if (problem.empty()) problem = tensor_problem("gammas", args->gammas, {T, n_}, gammas_f32 ? kF32 : dtype_);
  if (problem.empty()) problem = tensor_problem("token_slot", args->token_slot, {T}, kI32);
  if (problem.empty()) problem = tensor_problem("out", args->out, {T, H_}, dtype_);
  if (!problem.empty()) return refuse_argument(std::move(problem));
  if (T == 0) return verdict_of(SINKTRAP_OK);

  std::vector<std::int32_t> ids(static_cast<std::size_t>(T));
  require_device(device_read(ids.data(), elements(*args->token_slot), ids.size() * sizeof(std::int32_t)));
  if (const Verdict v = id_problem(ids, pool_.bound, pool_.S); v.code != SINKTRAP_OK) return v;

  ForwardView v{};
  v.n = n_;
  v.H = H_;
  v.F = F_;
  v.R = pool_.R;
  v.outer = pool_.outer;
  v.type = type_;
  v.contiguous_w13 = w13_layout_ == SINKTRAP_W13_CONTIGUOUS;
  v.gammas_f32 = gammas_f32;
  v.seams = seams_;
  v.w13 = w13_;
  v.w2 = w2_;
  v.pool = view(pool_);

  const std::int64_t groups = (T - 1) / kLanes + 1;
  const auto group_bytes =
      static_cast<std::uint64_t>((H_ + 3 * v.outer * v.R + n_ * F_) * kLanes) * sizeof(float);
  const auto fitting = static_cast<std::int64_t>(std::max<std::uint64_t>(1, kScratchBytes / group_bytes));
  const std::int64_t chunk = std::min({groups, fitting, kMaxGroups});
  reserve_scratch(chunk, v);
  const std::int64_t size = element_bytes(type_), gamma_size = gammas_f32 ? 4 : size;
  for (std::int64_t first = 0; first < T; first += chunk * kLanes) {
    v.T = std::min(T - first, chunk * kLanes);
    v.x = static_cast<const char*>(elements(*args->x)) + first * H_ * size;
    v.gammas = static_cast<const char*>(elements(*args->gammas)) + first * n_ * gamma_size;
    v.token_slot = static_cast<const std::int32_t*>(elements(*args->token_slot)) + first;
    v.out = static_cast<char*>(elements(*args->out)) + first * H_ * size;
    require_device(run_forward(v));
  }
  return verdict_of(SINKTRAP_OK);
}

}  // namespace sinktrap::cuda_impl::SINKTRAP_TARGET
