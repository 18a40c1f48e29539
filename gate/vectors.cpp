#include "gate/vectors.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cases/lists.hpp"
#include "contract/verdict.hpp"
#include "reference/validate.hpp"

namespace sinktrap {
namespace {

// Thrown inside this file only; the text is the error.
struct Refused {
  std::string what;
};

class Reader {
 public:
  explicit Reader(const SafetensorsFile& file) : file_(file) {}

  std::string field(const std::string& name) const {
    const auto it = file_.metadata.find(name);
    if (it == file_.metadata.end()) throw Refused{fmt::format("__metadata__ has no field {}", name)};
    return it->second;
  }
  std::int64_t number(const std::string& name, std::int64_t low) const {
    auto parsed = parse_integer(field(name), low, 1 << 20, "__metadata__." + name);
    if (const auto* error = std::get_if<CaseError>(&parsed)) throw Refused{error->what};
    return std::get<std::int64_t>(parsed);
  }
  const Tensor& tensor(const std::string& name) const {
    const auto it = file_.tensors.find(name);
    if (it == file_.tensors.end()) throw Refused{fmt::format("tensor {} is missing", name)};
    return it->second;
  }
  // -1 in `shape` fits any extent.
  const Tensor& tensor(const std::string& name, const std::vector<std::int64_t>& shape, Element type) const {
    const Tensor& t = tensor(name);
    bool fits = t.shape().size() == shape.size();
    for (std::size_t i = 0; fits && i < shape.size(); ++i) fits = shape[i] < 0 || t.shape()[i] == shape[i];
    if (!fits || t.type() != type)
      throw Refused{fmt::format("tensor {} is {} [{}], expected {} [{}]", name, element_name(t.type()),
                                fmt::join(t.shape(), ","), element_name(type), fmt::join(shape, ","))};
    return t;
  }
  bool has(const std::string& name) const { return file_.tensors.count(name) != 0; }

 private:
  const SafetensorsFile& file_;
};

Pool read_pool(const Reader& r, std::int64_t n, std::int64_t H, std::int64_t F, Element type,
               const std::string& prefix) {
  Pool pool;
  sinktrap_layout layout{};
  layout.n_shared_experts = n;
  layout.hidden_size = H;
  layout.intermediate_size = F;
  layout.flags = SINKTRAP_SHAPES_ONLY;
  for (int b = 0; b < SINKTRAP_BUFFER_COUNT; ++b) {
    auto& t = pool[static_cast<std::size_t>(b)];
    t = r.tensor(prefix + std::string(buffer_name(b)));
    if (t.type() != type)
      throw Refused{fmt::format("tensor {}{} has another type than w13", prefix, buffer_name(b))};
    layout.buffers[b] = t.view();
  }
  const Verdict v = reference::validate(layout, SINKTRAP_PROFILE_STRICT);
  if (v.code != SINKTRAP_OK)
    throw Refused{fmt::format("the four buffers are no valid layout: {}", verdict_to_text(v))};
  return pool;
}

ForwardVector read_forward(const Reader& r) {
  ForwardVector v;
  ForwardInputs& in = v.inputs;
  v.lattice = r.field("kind") == "lattice";
  in.d.n = r.number("n", 1);
  const std::string w13 = r.field("w13_layout");
  if (w13 != "interleaved" && w13 != "contiguous")
    throw Refused{fmt::format("__metadata__.w13_layout is {}, expected interleaved or contiguous", w13)};
  in.w13_layout = w13 == "interleaved" ? SINKTRAP_W13_INTERLEAVED : SINKTRAP_W13_CONTIGUOUS;
  in.w2 = r.tensor("w2");
  in.type = in.w2.type();
  if (in.w2.shape().size() != 3 || in.w2.extent(0) != in.d.n || !is_storage(in.type))
    throw Refused{"tensor w2 must be [n, H, F] in bf16, f16 or f32"};
  in.d.H = in.w2.extent(1);
  in.d.F = in.w2.extent(2);
  in.w13 = r.tensor("w13", {in.d.n, 2 * in.d.F, in.d.H}, in.type);
  in.pool = read_pool(r, in.d.n, in.d.H, in.d.F, in.type, "");
  in.d.S = in.pool[0].extent(0);
  in.d.R = in.pool[SINKTRAP_BUFFER_GATE_UP_LORA_B].extent(3);
  in.layout = in.pool[0].extent(1) == 1 ? ExpertLayout::shared : ExpertLayout::per_expert;
  in.x = r.tensor("x", {-1, in.d.H}, in.type);
  const std::int64_t T = in.T();
  const Element gamma_type = r.tensor("gammas").type() == Element::f32 ? Element::f32 : in.type;
  in.gammas = r.tensor("gammas", {T, in.d.n}, gamma_type);
  in.token_slot = r.tensor("token_slot", {T}, Element::i32);
  for (std::int64_t t = 0; t < T; ++t)
    if (in.token_slot.at(t) < -1 || in.token_slot.at(t) >= static_cast<double>(in.d.S))
      throw Refused{fmt::format("token_slot[{}] is {}, expected -1..{}", t, in.token_slot.at(t), in.d.S - 1)};
  v.expected_out = r.tensor("expected_out", {T, in.d.H}, Element::f64).values();
  return v;
}

PackVector read_pack(const Reader& r) {
  PackVector v;
  v.d.n = r.number("n", 1);
  v.rank = r.number("rank", 0);
  v.d.R = r.number("max_rank", 1);
  v.tp = r.number("tensor_parallel", 1);
  const Tensor& down_b = r.tensor("flat.down_proj.lora_B");
  const Element type = down_b.type();
  if (down_b.shape().size() != 2 || !is_storage(type))
    throw Refused{"tensor flat.down_proj.lora_B must be [H, r] in bf16, f16 or f32"};
  v.d.H = down_b.extent(0);
  const Tensor& down_a = r.tensor("flat.down_proj.lora_A", {v.rank, -1}, type);
  if (down_a.extent(1) % (v.d.n * v.tp) != 0 || down_a.extent(1) == 0)
    throw Refused{"the columns of flat.down_proj.lora_A do not divide by n and tensor_parallel"};
  v.d.F = down_a.extent(1) / v.d.n;
  v.adapter.rank = v.rank;
  v.adapter.stacked = r.has("flat.gate_up_proj.lora_A");
  v.adapter.gate_a = r.tensor(v.adapter.stacked ? "flat.gate_up_proj.lora_A" : "flat.gate_proj.lora_A",
                              {v.rank, v.d.H}, type);
  if (!v.adapter.stacked) v.adapter.up_a = r.tensor("flat.up_proj.lora_A", {v.rank, v.d.H}, type);
  v.adapter.gate_up_b = r.tensor("flat.gate_up_proj.lora_B", {v.d.n * 2 * v.d.F, v.rank}, type);
  v.adapter.down_a = down_a;
  v.adapter.down_b = r.tensor("flat.down_proj.lora_B", {v.d.H, v.rank}, type);
  v.pool = read_pool(r, v.d.n, v.d.H, v.d.F, type, "pool.");
  v.d.S = v.pool[0].extent(0);
  if (v.pool[SINKTRAP_BUFFER_GATE_UP_LORA_B].extent(3) != v.d.R)
    throw Refused{"the rank of pool.gate_up_lora_b is not max_rank"};
  const std::int64_t n = v.d.n, F = v.d.F, R = v.d.R;
  if (r.has("derived.w1_delta"))
    v.derived["w1_delta"] = r.tensor("derived.w1_delta", {v.d.S, n * 2 * F, 2 * R}, type);
  if (r.has("derived.a_cat")) v.derived["a_cat"] = r.tensor("derived.a_cat", {v.d.S, R, n * F}, type);
  if (r.has("derived.b_cat")) v.derived["b_cat"] = r.tensor("derived.b_cat", {v.d.S, v.d.H, n * R}, type);
  for (std::int64_t p = 0; p < v.tp; ++p) {
    Pool shard = v.pool;  // gate/up A and down B are whole on every rank
    const std::string prefix = fmt::format("tp{}.", p);
    shard[SINKTRAP_BUFFER_GATE_UP_LORA_B] =
        r.tensor(prefix + "gate_up_lora_b", {v.d.S, n, 2 * F / v.tp, R}, type);
    shard[SINKTRAP_BUFFER_DOWN_LORA_A] = r.tensor(prefix + "down_lora_a", {v.d.S, n, R, F / v.tp}, type);
    v.shards.push_back(std::move(shard));
  }
  return v;
}

}  // namespace

AnyVector read_vector(const SafetensorsFile& file) {
  try {
    const Reader r(file);
    const std::string kind = r.field("kind");
    if (kind == "lattice" || kind == "dense") return read_forward(r);
    if (kind == "pack") return read_pack(r);
    return fmt::format("__metadata__.kind is {}, expected lattice, dense or pack", kind);
  } catch (const Refused& refused) {
    return refused.what;
  }
}

}  // namespace sinktrap
