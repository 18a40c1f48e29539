// The state machine of CONTRACT.md section 3: a sequence of steps on the implementation and on the reference.
#include <fmt/format.h>

#include <algorithm>

#include "judge/compare.hpp"
#include "judge/expectation.hpp"
#include "properties/law.hpp"
#include "properties/model.hpp"
#include "properties/transform.hpp"

namespace sinktrap {
namespace {

bool is_state(const Case& c) { return std::holds_alternative<StateCase>(c); }

class Sequence {
 public:
  Sequence(const StateCase& c, const Implementation& implementation)
      : case_(c),
        implementation_(implementation),
        in_(inputs(c.layer, c.layer.seed, {})),
        found_(implementation, in_, {c.layer.schedule, std::nullopt}),
        model_(model_implementation(), in_),
        fresh_(static_cast<std::size_t>(c.layer.d.S), true) {}

  Judgement run() {
    for (std::size_t i = 0; i < case_.steps.size(); ++i) {
      const Step& step = case_.steps[i];
      after_ = fmt::format("step {}", i + 1);
      if (!take(step)) continue;
      if (bound_) {
        compare_pools(found_, model_, after_);
        compare_derived(found_, model_, in_, fresh_, addresses_, after_,
                        step.kind == Step::Kind::load || step.kind == Step::Kind::unload);
      }
    }
    if (total_.elements == 0) {
      total_.status = Status::vacuous;
      total_.reason = "no step of the sequence was judged by an output or a verdict";
    }
    return total_;
  }

 private:
  static ForwardInputs inputs(const LayerCase& layer, std::uint64_t seed,
                              const std::vector<std::int32_t>& slots) {
    ForwardCase f;
    f.layer = layer;
    f.layer.seed = seed;
    f.slots = slots;
    return make_inputs(f);
  }

  // A step that the implementation cannot do is left out on both sides. False: nothing to compare after it.
  bool take(const Step& step) {
    switch (step.kind) {
      case Step::Kind::bind:
        return bind(inputs(case_.layer, step.seed, {}).pool);
      case Step::Kind::rebind_other: {
        if (!bound_) return false;  // it would be the first bind, of a pool that the other steps do not know
        LayerCase other = case_.layer;
        ++other.d.R;
        return bind(inputs(other, step.seed, {}).pool);
      }
      case Step::Kind::rebind_invalid:
        return bind(broken_pool(step.seed));
      case Step::Kind::rebind_strided:
        return bind(inputs(case_.layer, step.seed, {}).pool,
                    static_cast<std::size_t>(step.seed % SINKTRAP_BUFFER_COUNT));
      case Step::Kind::rebind_same:
        return rebind_same(step);
      case Step::Kind::write:
        return write(step);
      case Step::Kind::load:
        return load(step);
      case Step::Kind::unload:
        return unload(step);
      case Step::Kind::update:
        return update(step);
      case Step::Kind::forward:
        return forward(step);
    }
    return false;
  }

  void agree(const Verdict& found, const Verdict& expected, std::string_view operation) {
    must_equal(found, expected, fmt::format("{} ({})", operation, after_));
    ++total_.elements;
  }

  // `strided`: the first buffer from there on whose rows can be further apart is a view of that kind.
  bool bind(const Pool& pool, std::optional<std::size_t> strided = std::nullopt) {
    BufferStrides strides{};
    const auto edit = [&](Session::Views& views) {
      if (strided) lengthen_some_rows(views, strides, *strided);
    };
    const Verdict expected = model_.bind(pool, edit);
    if (strided && expected.code != SINKTRAP_STRIDE)
      stop(Status::failed, "the reference took a strided buffer: " + verdict_to_text(expected));
    agree(found_.bind(pool, edit), expected, "bind");
    if (expected.code == SINKTRAP_OK) {
      bound_ = true;
      std::fill(fresh_.begin(), fresh_.end(), true);
    }
    return true;
  }

  // What a bind that remembers addresses would take for nothing new.
  bool rebind_same(const Step& step) {
    if (!bound_) return false;
    const Pool pool = inputs(case_.layer, step.seed, {}).pool;
    model_.write_pool(pool);
    found_.write_pool(pool);
    const Verdict expected = model_.rebind();
    agree(found_.rebind(), expected, "bind");
    if (expected.code == SINKTRAP_OK) std::fill(fresh_.begin(), fresh_.end(), true);
    return true;
  }

  // Refused whatever was bound before: one slot too many in down B.
  Pool broken_pool(std::uint64_t seed) const {
    Pool pool = inputs(case_.layer, seed, {}).pool;
    Tensor& b = pool[SINKTRAP_BUFFER_DOWN_LORA_B];
    auto shape = b.shape();
    ++shape[0];
    b = Tensor(b.type(), shape);
    return pool;
  }

  bool write(const Step& step) {
    if (!bound_) return false;
    LayerCase one = case_.layer;
    one.ranks[static_cast<std::size_t>(step.slot)] = step.r;
    const Pool fresh = inputs(one, step.seed, {}).pool;
    Pool pool = model_.read_pool();
    for (std::size_t i = 0; i < pool.size(); ++i) {
      const std::size_t bytes = pool[i].bytes().size() / static_cast<std::size_t>(case_.layer.d.S);
      const std::size_t at = static_cast<std::size_t>(step.slot) * bytes;
      std::copy_n(fresh[i].bytes().begin() + static_cast<std::ptrdiff_t>(at), bytes,
                  pool[i].bytes().begin() + static_cast<std::ptrdiff_t>(at));
    }
    model_.write_pool(pool);
    found_.write_pool(pool);
    fresh_[static_cast<std::size_t>(step.slot)] = false;
    return true;
  }

  bool load(const Step& step) {
    if (!implementation_.can(SINKTRAP_CAN_LOAD)) return false;
    PackCase p;
    p.layer = case_.layer;
    p.layer.seed = step.seed;
    p.r = step.r;
    p.scaling = step.seed % 2 == 0 ? 1.0 : 0.75;
    const AdapterFactors adapter = make_adapter(p);
    const Verdict expected = model_.load(step.slot, adapter);
    agree(found_.load(step.slot, adapter), expected, "load");
    if (expected.code == SINKTRAP_OK) fresh_[static_cast<std::size_t>(step.slot)] = false;
    return true;
  }

  bool unload(const Step& step) {
    if (!implementation_.can(SINKTRAP_CAN_LOAD)) return false;
    const Verdict expected = model_.unload(step.slot);
    agree(found_.unload(step.slot), expected, "unload");
    if (expected.code == SINKTRAP_OK) fresh_[static_cast<std::size_t>(step.slot)] = false;
    return true;
  }

  bool update(const Step& step) {
    if (!implementation_.can(SINKTRAP_CAN_UPDATE)) return false;
    for (const sinktrap_slot_set& broken : {sinktrap_slot_set{nullptr, 1}, sinktrap_slot_set{nullptr, -1}})
      agree(found_.update(&broken), model_.update(&broken), "update with a set that is none");
    const Verdict expected = model_.update(step.ids);
    agree(found_.update(step.ids), expected, "update");
    if (expected.code != SINKTRAP_OK) return true;
    if (!step.ids) std::fill(fresh_.begin(), fresh_.end(), true);
    for (const std::int64_t id : step.ids.value_or(std::vector<std::int64_t>{}))
      fresh_[static_cast<std::size_t>(id)] = true;
    return true;
  }

  bool forward(const Step& step) {
    // Contents are drawn for slot -1 throughout; the map is put in afterwards, since it may be out of range
    // here.
    ForwardInputs batch = inputs(case_.layer, step.seed, std::vector<std::int32_t>(step.slots.size(), -1));
    bool stale = false;
    for (std::size_t t = 0; t < step.slots.size(); ++t) {
      batch.token_slot.set(static_cast<std::int64_t>(t), step.slots[t]);
      if (step.slots[t] >= 0 && step.slots[t] < case_.layer.d.S)
        stale = stale || !fresh_[static_cast<std::size_t>(step.slots[t])];
    }
    const auto expected = model_.forward(batch.x, batch.gammas, batch.token_slot);
    // As engines do that keep their tensors, and as those that do not.
    const bool same_tensors = step.seed % 2 == 0 && batch_.write(batch.x, batch.gammas, batch.token_slot);
    if (!same_tensors)
      batch_ = Session::Batch(implementation_, in_.type, batch.x, batch.gammas, batch.token_slot);
    const auto got = found_.forward(batch_);
    agree(got.verdict, expected.verdict, "forward");
    if (expected.verdict.code != SINKTRAP_OK || stale)
      return true;  // section 3: not judged before the update
    batch.w13 = in_.w13;
    batch.w2 = in_.w2;
    if (bound_) batch.pool = model_.read_pool();
    batch.independent = false;  // a loaded adapter may have gate and up A alike
    const Expectation e = expect(batch);
    const Judgement j = judge_output(batch, e, got.out, found_.declaration());
    if (is_bad(j.status)) stop(j.status, fmt::format("after {} (forward): {}", after_, j.reason), j.details);
    total_.elements += j.elements;
    if (j.bound_use > total_.bound_use) {
      total_.bound_use = j.bound_use;
      total_.bound_stage = j.bound_stage;
    }
    return true;
  }

  const StateCase& case_;
  const Implementation& implementation_;
  ForwardInputs in_;
  Session found_, model_;
  Session::Batch batch_;     // of the last forward
  std::vector<bool> fresh_;  // the derived operands of the slot follow its contents
  bool bound_ = false;
  OperandAddresses addresses_;
  std::string after_;
  Judgement total_;
};

Judgement follows_the_model(const Case& c, const Implementation& implementation) {
  return Sequence(std::get<StateCase>(c), implementation).run();
}

}  // namespace

std::vector<Law> state_laws() {
  return {
      {"state-follows-the-model",
       "after every step verdicts, pools, derived operands and outputs are the reference's, and operands "
       "keep their place",
       Generator::state, 0, is_state, follows_the_model, 6},
  };
}

}  // namespace sinktrap
