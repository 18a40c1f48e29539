#include "judge/session.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "contract/tensor.hpp"
#include "judge/phase.hpp"
#include "judge/transcript.hpp"

namespace sinktrap {
namespace {

std::array<DLTensor, SINKTRAP_BUFFER_COUNT> views(const std::vector<std::unique_ptr<Buffer>>& buffers) {
  std::array<DLTensor, SINKTRAP_BUFFER_COUNT> v{};
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = buffers[i]->view();
  return v;
}

std::vector<std::unique_ptr<Buffer>> upload(const Implementation& implementation, const Pool& pool) {
  std::vector<std::unique_ptr<Buffer>> buffers;
  for (std::size_t i = 0; i < pool.size(); ++i)
    buffers.push_back(std::make_unique<Buffer>(
        implementation, std::string(buffer_name(static_cast<std::int32_t>(i))), pool[i]));
  return buffers;
}

// The verdict must carry the code that the call returned, and a code of the contract.
Verdict consistent(std::int32_t returned, const Verdict& verdict, const char* operation) {
  if (returned != verdict.code)
    stop(Status::failed, fmt::format("{} returned code {} but its verdict says {}", operation,
                                     code_name(returned), code_name(verdict.code)));
  if (returned < 0 || returned >= SINKTRAP_CODE_COUNT)
    stop(Status::failed,
         fmt::format("{} returned {}, which is no code of the contract", operation, returned));
  Transcript::record(operation, verdict);
  return verdict;
}

void require_guards(const Buffer& b, const char* operation) {
  if (const std::string where = b.broken_guard(); !where.empty()) {
    Transcript::note(kNoteWrote);
    stop(Status::failed, fmt::format("{} wrote {}", operation, where));
  }
}
void require_unchanged(const Buffer& b, const char* operation) {
  require_guards(b, operation);
  if (const std::string what = b.changed(); !what.empty()) {
    Transcript::note(std::string_view(operation).substr(0, 9) == "a refused" ? kNoteRefusedWrote
                                                                             : kNoteWrote);
    stop(Status::failed, fmt::format("{} wrote into its input: {}", operation, what));
  }
}

void require_type(const Implementation& implementation, const ForwardInputs& in) {
  const auto need = [&](std::uint64_t bit) {
    if (!implementation.can(bit))
      stop(Status::skipped,
           fmt::format("{} has no capability {}", implementation.name(), capability_names(bit)));
  };
  need(in.type == Element::bf16  ? SINKTRAP_CAN_BF16
       : in.type == Element::f16 ? SINKTRAP_CAN_F16
                                 : SINKTRAP_CAN_F32);
  need(in.w13_layout == SINKTRAP_W13_INTERLEAVED ? SINKTRAP_CAN_INTERLEAVED : SINKTRAP_CAN_CONTIGUOUS);
  need(in.layout == ExpertLayout::shared ? SINKTRAP_CAN_SHARED : SINKTRAP_CAN_PER_EXPERT);
  if (in.gammas.type() != in.type) need(SINKTRAP_CAN_GAMMAS_F32);
}

}  // namespace

Session::Session(const Implementation& implementation, const ForwardInputs& in, const SessionOptions& options)
    : implementation_(implementation), type_(in.type) {
  require_type(implementation, in);
  std::string text = implementation.options();
  // What the user chose goes before what the case says.
  const auto append = [&text](const std::string& option) {
    const std::string key = option.substr(0, option.find('=') + 1);
    if (("&" + text).find("&" + key) == std::string::npos) text += (text.empty() ? "" : "&") + option;
  };
  if (options.schedule != 0 && implementation.can(SINKTRAP_CAN_CHOOSE_SCHEDULE))
    append(fmt::format("schedule={}", options.schedule));
  if (options.seams && implementation.can(SINKTRAP_CAN_CHOOSE_SEAMS))
    append(fmt::format("seams={}", seams_to_text(*options.seams)));
  weights_.push_back(std::make_unique<Buffer>(implementation, "w13", in.w13));
  weights_.push_back(std::make_unique<Buffer>(implementation, "w2", in.w2));
  const DLTensor w13 = weights_[0]->view(), w2 = weights_[1]->view();
  sinktrap_layer layer{};
  layer.struct_size = sizeof layer;
  layer.w13_layout = in.w13_layout;
  layer.n_shared_experts = in.d.n;
  layer.hidden_size = in.d.H;
  layer.intermediate_size = in.d.F;
  layer.dtype = dl_type(in.type);
  layer.w13 = &w13;
  layer.w2 = &w2;
  Verdict v = verdict_of(SINKTRAP_OK);
  const Phase phase("create");
  const auto code = implementation.table().create(&layer, text.c_str(), &instance_, &v);
  must_succeed(implementation, consistent(code, v, "create"), "create");
  if (instance_ == nullptr) stop(Status::failed, "create succeeded without an instance");
}

Session::~Session() {
  const Phase phase("destroy");
  if (instance_ != nullptr) implementation_.table().destroy(instance_);
}

void Session::check_untouched(const char* operation) const {
  for (const auto& b : weights_) require_unchanged(*b, operation);
  for (const auto& b : pool_) require_unchanged(*b, operation);
}

Verdict Session::bind_views(const Views& views) {
  Verdict v = verdict_of(SINKTRAP_OK);
  const Phase phase("bind");
  return consistent(implementation_.table().bind(instance_, views.data(), &v), v, "bind");
}

Verdict Session::rebind() {
  const Verdict v = bind_views(views(pool_));
  check_untouched("bind");
  return v;
}

Verdict Session::bind(const Pool& pool, const std::function<void(Views&)>& edit) {
  auto buffers = upload(implementation_, pool);
  auto tensors = views(buffers);
  if (edit) edit(tensors);
  const Verdict v = bind_views(tensors);
  for (const auto& b : buffers) require_unchanged(*b, "bind");
  if (v.code == SINKTRAP_OK) pool_ = std::move(buffers);
  check_untouched("bind");
  return v;
}

Verdict Session::update(const std::optional<std::vector<std::int64_t>>& slots) {
  static const std::int64_t no_id = 0;
  const sinktrap_slot_set set = {slots && !slots->empty() ? slots->data() : &no_id,
                                 slots ? static_cast<std::int64_t>(slots->size()) : 0};
  return update(slots ? &set : nullptr);
}

Verdict Session::update(const sinktrap_slot_set* slots) {
  Verdict v = verdict_of(SINKTRAP_OK);
  {
    const Phase phase("update");
    v = consistent(implementation_.table().update(instance_, slots, &v), v, "update");
  }
  check_untouched("update");
  return v;
}

Verdict Session::load(std::int64_t slot, const AdapterFactors& a) {
  const Buffer gate(implementation_, "gate A", a.gate_a),
      up(implementation_, "up A", a.stacked ? a.gate_a : a.up_a);
  const Buffer gate_up_b(implementation_, "gate/up B", a.gate_up_b),
      down_a(implementation_, "down A", a.down_a);
  const Buffer down_b(implementation_, "down B", a.down_b);
  const DLTensor views[] = {gate.view(), up.view(), gate_up_b.view(), down_a.view(), down_b.view()};
  sinktrap_adapter adapter{};
  adapter.struct_size = sizeof adapter;
  adapter.per_expert = a.per_expert ? 1 : 0;
  adapter.rank = a.rank;
  adapter.scaling = a.scaling;
  adapter.tp_rank = a.tp_rank;
  adapter.tp_size = a.tp_size;
  adapter.gate_a = &views[0];
  adapter.up_a = a.stacked ? nullptr : &views[1];
  adapter.gate_up_b = &views[2];
  adapter.down_a = &views[3];
  adapter.down_b = &views[4];
  Verdict v = verdict_of(SINKTRAP_OK);
  {
    const Phase phase("load");
    v = consistent(implementation_.table().load(instance_, slot, &adapter, &v), v, "load");
  }
  for (const Buffer* b : {&gate, &up, &gate_up_b, &down_a, &down_b}) require_unchanged(*b, "load");
  for (const auto& b : weights_) require_unchanged(*b, "load");
  for (const auto& b : pool_) require_guards(*b, "load");
  if (v.code != SINKTRAP_OK) check_untouched("a refused load");
  if (v.code == SINKTRAP_OK) write_pool(read_pool());
  return v;
}

Verdict Session::unload(std::int64_t slot) {
  Verdict v = verdict_of(SINKTRAP_OK);
  {
    const Phase phase("unload");
    v = consistent(implementation_.table().unload(instance_, slot, &v), v, "unload");
  }
  for (const auto& b : pool_) require_guards(*b, "unload");
  if (v.code != SINKTRAP_OK) check_untouched("a refused unload");
  if (v.code == SINKTRAP_OK) write_pool(read_pool());
  return v;
}

void Session::write_pool(const Pool& pool) {
  for (std::size_t i = 0; i < pool_.size(); ++i) pool_[i]->write(pool[i]);
}

Pool Session::read_pool() const {
  Pool pool;
  for (std::size_t i = 0; i < pool_.size(); ++i) {
    pool[i] = pool_[i]->read();
    Transcript::record(kPoolEntry, pool[i]);
  }
  return pool;
}

Session::Output Session::forward(const Tensor& x, const Tensor& gammas, const Tensor& token_slot,
                                 const std::function<void(ForwardCall&)>& edit) {
  return forward(Batch(implementation_, type_, x, gammas, token_slot), edit);
}

Session::Batch::Batch(const Implementation& implementation, Element type, const Tensor& x,
                      const Tensor& gammas, const Tensor& token_slot) {
  x_.emplace(implementation, "x", x);
  gammas_.emplace(implementation, "gammas", gammas);
  token_slot_.emplace(implementation, "token_slot", token_slot);
  out_.emplace(Buffer::poisoned(implementation, "out", type, x.shape()));
}

bool Session::Batch::write(const Tensor& x, const Tensor& gammas, const Tensor& token_slot) {
  const auto fits = [](const std::optional<Buffer>& buffer, const Tensor& t) {
    return buffer && buffer->uploaded().type() == t.type() && buffer->uploaded().shape() == t.shape();
  };
  if (!fits(x_, x) || !fits(gammas_, gammas) || !fits(token_slot_, token_slot)) return false;
  x_->write(x);
  gammas_->write(gammas);
  token_slot_->write(token_slot);
  out_->write(out_->uploaded());  // nothing but poison was ever put there
  return true;
}

Session::Output Session::forward(const Batch& batch, const std::function<void(ForwardCall&)>& edit) {
  const Buffer &bx = *batch.x_, &bg = *batch.gammas_, &bs = *batch.token_slot_, &bo = *batch.out_;
  ForwardCall call;
  call.x = bx.view();
  call.gammas = bg.view();
  call.token_slot = bs.view();
  call.out = bo.view();
  call.args.struct_size = sizeof call.args;
  call.args.x = &call.x;
  call.args.gammas = &call.gammas;
  call.args.token_slot = &call.token_slot;
  call.args.out = &call.out;
  if (edit) edit(call);
  Verdict v = verdict_of(SINKTRAP_OK);
  {
    const Phase phase("forward");
    v = consistent(implementation_.table().forward(instance_, &call.args, &v), v, "forward");
  }
  for (const Buffer* b : {&bx, &bg, &bs}) require_unchanged(*b, "forward");
  // `internal` is no refusal but a failure on the way: what went wrong says more than what it left in out.
  if (v.code != SINKTRAP_OK && v.code != SINKTRAP_INTERNAL)
    require_unchanged(bo, "a refused forward");
  else
    require_guards(bo, "forward");
  check_untouched("forward");
  Output output{v, bo.read()};
  Transcript::record(kOutEntry, output.out);
  return output;
}

Session::Derived Session::derived(const char* name, const std::vector<std::int64_t>& shape) {
  Derived d{verdict_of(SINKTRAP_OK), {}, nullptr};
  DLTensor view{};
  {
    const Phase phase("derived");
    d.verdict =
        consistent(implementation_.table().derived(instance_, name, &view, &d.verdict), d.verdict, "derived");
  }
  if (d.verdict.code != SINKTRAP_OK) return d;
  const auto found = extents(view);
  // Extents first: whether a descriptor is contiguous can only be read where it has the axes that it names.
  if (element_from_dl(view.dtype) != type_ || view.data == nullptr ||
      !std::equal(found.begin(), found.end(), shape.begin(), shape.end()) || !is_contiguous(view))
    stop(Status::failed,
         fmt::format("derived operand {} has {} [{}], expected [{}] of the storage type, contiguous", name,
                     found.size() == shape.size() ? "shape" : fmt::format("{} axes", found.size()),
                     found.size() == shape.size() ? fmt::format("{}", fmt::join(found, ",")) : "...",
                     fmt::join(shape, ",")));
  d.operand = Tensor(type_, shape);
  d.address = first_byte(view);
  const auto bytes = d.operand.bytes();
  if (!implementation_.own_memory())
    std::memcpy(bytes.data(), d.address, bytes.size());
  else if (implementation_.table().memory.read(bytes.data(), d.address, bytes.size()) != SINKTRAP_OK)
    stop(Status::failed, fmt::format("memory.read of {} failed: {}", name, implementation_.last_error()));
  Transcript::record(name, d.operand);
  return d;
}

sinktrap_declaration Session::declaration() const {
  sinktrap_declaration d = implementation_.table().declaration;
  if (implementation_.table().declare != nullptr &&
      implementation_.table().declare(instance_, &d) != SINKTRAP_OK)
    stop(Status::failed, "declare failed");
  return d;
}

void must_succeed(const Implementation& implementation, const Verdict& verdict, std::string_view operation) {
  if (verdict.code == SINKTRAP_OK) return;
  Transcript::note(kNoteVerdict);
  const std::string error = implementation.last_error();
  const Status status = verdict.code == SINKTRAP_UNSUPPORTED ? Status::unsupported : Status::failed;
  stop(status, fmt::format("{} was refused: {}{}{}", operation, verdict_to_text(verdict),
                           error.empty() ? "" : "; ", error));
}

void must_equal(const Verdict& found, const Verdict& expected, std::string_view operation) {
  if (found == expected) return;
  Transcript::note(kNoteVerdict);
  stop(Status::failed, fmt::format("{} gave the verdict '{}', expected '{}'", operation,
                                   verdict_to_text(found), verdict_to_text(expected)));
}

ShardResult shard(const Implementation& implementation, const Pool& full, std::int64_t tp_rank,
                  std::int64_t tp_size) {
  const auto in = upload(implementation, full);
  const std::int64_t F = full[SINKTRAP_BUFFER_DOWN_LORA_A].extent(3),
                     part = tp_size < 1 ? F : std::max<std::int64_t>(F / tp_size, 1);
  std::vector<std::unique_ptr<Buffer>> out;
  for (std::size_t i = 0; i < full.size(); ++i) {
    auto shape = full[i].shape();
    if (i == SINKTRAP_BUFFER_GATE_UP_LORA_B) shape[2] = 2 * part;
    if (i == SINKTRAP_BUFFER_DOWN_LORA_A) shape[3] = part;
    out.push_back(std::make_unique<Buffer>(Buffer::poisoned(
        implementation, "the shard's " + std::string(buffer_name(static_cast<std::int32_t>(i))),
        full[i].type(), shape)));
  }
  const auto vi = views(in), vo = views(out);
  Verdict v = verdict_of(SINKTRAP_OK);
  {
    const Phase phase("shard");
    v = consistent(implementation.table().shard(vi.data(), tp_rank, tp_size, vo.data(), &v), v, "shard");
  }
  for (const auto& b : in) require_unchanged(*b, "shard");
  ShardResult r{v, {}};
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (v.code == SINKTRAP_OK)
      require_guards(*out[i], "shard");
    else
      require_unchanged(*out[i], "a refused shard");
    r.shard[i] = out[i]->read();
    Transcript::record("shard", r.shard[i]);
  }
  return r;
}

namespace {

using FactorCall = int32_t (*)(const DLTensor*, int32_t, const DLTensor*, sinktrap_verdict*);

FactorResult factor_call(const Implementation& implementation, FactorCall call, const char* operation,
                         const Tensor& from, sinktrap_buffer buffer, std::int64_t outer) {
  const Buffer in(implementation, "factor", from);
  auto shape = from.shape();
  shape[1] = outer;
  const Buffer out = Buffer::poisoned(implementation, "result", from.type(), shape);
  const DLTensor vi = in.view(), vo = out.view();
  Verdict v = verdict_of(SINKTRAP_OK);
  {
    const Phase phase(operation);
    v = consistent(call(&vi, buffer, &vo, &v), v, operation);
  }
  require_unchanged(in, operation);
  if (v.code == SINKTRAP_OK)
    require_guards(out, operation);
  else
    require_unchanged(out, operation);
  FactorResult result{v, out.read()};
  Transcript::record(operation, result.factor);
  return result;
}

}  // namespace

FactorResult expand(const Implementation& implementation, const Tensor& shared, sinktrap_buffer buffer,
                    std::int64_t n) {
  return factor_call(implementation, implementation.table().expand, "expand", shared, buffer, n);
}

FactorResult collapse(const Implementation& implementation, const Tensor& per_expert,
                      sinktrap_buffer buffer) {
  return factor_call(implementation, implementation.table().collapse, "collapse", per_expert, buffer, 1);
}

}  // namespace sinktrap
