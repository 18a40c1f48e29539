// Instance::forward: arguments, slot ids, and the chunks of tokens that scratch is sized for.
#include <algorithm>

#include "cuda_impl/host/instance.hpp"
#include "cuda_impl/host/scratch.hpp"

namespace sinktrap::cuda_impl::SINKTRAP_TARGET {
namespace {

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

bool Instance::run(const ForwardView& view) const {
  switch (kernel_) {
    case Kernel::ordered:
      return run_ordered(view);
    case Kernel::tiled:
      return run_tiled(view);
    case Kernel::mma:
      return run_mma(view);
    case Kernel::decode:
      return run_decode(view);
  }
  return false;
}

Verdict Instance::check_arguments(const sinktrap_forward_args* args) const {
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
  return verdict_of(SINKTRAP_OK);
}

ForwardView Instance::layer_view() const {
  ForwardView v{};
  v.n = n_;
  v.H = H_;
  v.F = F_;
  v.R = pool_.R;
  v.outer = pool_.outer;
  v.type = type_;
  v.contiguous_w13 = w13_layout_ == SINKTRAP_W13_CONTIGUOUS;
  v.seams = seams_;
  v.w13 = w13_;
  v.w2 = w2_;
  v.pool = view(pool_);
  return v;
}

ForwardView Instance::forward_view(const sinktrap_forward_args& args) const {
  ForwardView v = layer_view();
  v.gammas_f32 = same_type(args.gammas->dtype, kF32);
  v.T = args.x->shape[0];
  v.x = elements(*args.x);
  v.gammas = elements(*args.gammas);
  v.token_slot = static_cast<const std::int32_t*>(elements(*args.token_slot));
  v.out = elements(*args.out);
  return v;
}

bool Instance::run_chunks(const ForwardView& whole, const ScratchPlan& plan) const {
  const std::int64_t chunk = plan.groups(whole.T) * plan.group_tokens();
  const std::int64_t size = element_bytes(type_), gamma_size = whole.gammas_f32 ? 4 : size;
  ForwardView v = whole;
  for (std::int64_t first = 0; first < whole.T; first += chunk) {
    v.T = std::min(whole.T - first, chunk);
    v.x = static_cast<const char*>(whole.x) + first * H_ * size;
    v.gammas = static_cast<const char*>(whole.gammas) + first * n_ * gamma_size;
    v.token_slot = whole.token_slot + first;
    v.out = static_cast<char*>(whole.out) + first * H_ * size;
    if (!run(v)) return false;
  }
  return true;
}

Verdict Instance::forward(const sinktrap_forward_args* args) {
  if (const Verdict v = check_arguments(args); v.code != SINKTRAP_OK) return v;
  ForwardView v = forward_view(*args);
  if (v.T == 0) return verdict_of(SINKTRAP_OK);

  std::vector<std::int32_t> ids(static_cast<std::size_t>(v.T));
  require_device(device_read(ids.data(), v.token_slot, ids.size() * sizeof(std::int32_t)));
  if (const Verdict verdict = id_problem(ids, pool_.bound, pool_.S); verdict.code != SINKTRAP_OK)
    return verdict;

  const ScratchPlan plan(kernel_, v);
  plan.place(plan.groups(v.T), scratch_, v);
  require_device(plan.fill(plan.groups(v.T), scratch_) && run_chunks(v, plan) && device_synchronise());
  return verdict_of(SINKTRAP_OK);
}

}  // namespace sinktrap::cuda_impl::SINKTRAP_TARGET
