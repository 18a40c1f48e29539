#include "reference/table.hpp"

#include <exception>
#include <string>
#include <string_view>

#include "reference/layer.hpp"
#include "reference/validate.hpp"

using sinktrap::Verdict;
using sinktrap::verdict_of;
using sinktrap::reference::Arithmetic;
using sinktrap::reference::Layer;

// The instance that the C table hands out.
struct sinktrap_instance {
  std::unique_ptr<Layer> layer;
};

namespace sinktrap::reference {
namespace {

thread_local std::string last_error_text;

// Runs an operation, writes its verdict, and lets no exception cross the table.
template <class Operation>
std::int32_t guarded(sinktrap_verdict* verdict, Operation operation) noexcept {
  Verdict v;
  try {
    v = operation();
  } catch (const std::exception& e) {
    v = verdict_of(SINKTRAP_INTERNAL);
    try {
      last_error_text = e.what();
    } catch (...) {
      last_error_text.clear();
    }
  } catch (...) {
    v = verdict_of(SINKTRAP_INTERNAL);
    last_error_text.clear();
  }
  if (verdict != nullptr) *verdict = v;
  return v.code;
}

// The same on a layer; no instance is an `argument`.
template <class Operation>
std::int32_t on_layer(sinktrap_instance* instance, sinktrap_verdict* verdict, Operation operation) noexcept {
  return guarded(verdict, [&]() -> Verdict {
    if (instance == nullptr) return verdict_of(SINKTRAP_ARGUMENT);
    return operation(*instance->layer);
  });
}

std::int32_t validate_all(const sinktrap_layout* layouts, std::int64_t count, std::int32_t profile,
                          sinktrap_verdict* verdicts) {
  const bool known = profile == SINKTRAP_PROFILE_SGLANG || profile == SINKTRAP_PROFILE_STRICT;
  if (!known || count < 0 || (count > 0 && (layouts == nullptr || verdicts == nullptr)))
    return SINKTRAP_ARGUMENT;
  for (std::int64_t i = 0; i < count; ++i) verdicts[i] = validate(layouts[i], profile);
  return SINKTRAP_OK;
}

// Reads "key=value&key=value" into the arithmetic; false, with a text, for what it does not know.
bool read_options(std::string_view options, Arithmetic& arithmetic) {
  while (!options.empty()) {
    const auto end = options.find('&');
    const std::string_view option = options.substr(0, end);
    options = end == std::string_view::npos ? std::string_view{} : options.substr(end + 1);
    const auto equals = option.find('=');
    if (equals == std::string_view::npos) {
      last_error_text = "option '" + std::string(option) + "' is not of the form key=value";
      return false;
    }
    const std::string_view key = option.substr(0, equals), value = option.substr(equals + 1);
    if (key != "seams" || arithmetic.kind != Arithmetic::Kind::ordered) {
      last_error_text = "unknown option '" + std::string(key) + "'";
      return false;
    }
    const auto mask = seams_from_text(value);
    if (!mask) {
      last_error_text = "option seams: '" + std::string(value) + "' does not name seams, none or all";
      return false;
    }
    arithmetic.seams = *mask;
  }
  return true;
}

template <Arithmetic::Kind kind>
std::int32_t create(const sinktrap_layer* layer, const char* options, sinktrap_instance** instance,
                    sinktrap_verdict* verdict) {
  return guarded(verdict, [&]() -> Verdict {
    Arithmetic arithmetic{kind, 0};
    if (instance == nullptr || options == nullptr || !read_options(options, arithmetic))
      return verdict_of(SINKTRAP_ARGUMENT);
    auto made = std::make_unique<sinktrap_instance>();
    const Verdict v = Layer::create(layer, arithmetic, made->layer);
    if (v.code == SINKTRAP_OK) *instance = made.release();
    return v;
  });
}

void destroy(sinktrap_instance* instance) { delete instance; }

std::int32_t bind(sinktrap_instance* instance, const DLTensor buffers[SINKTRAP_BUFFER_COUNT],
                  sinktrap_verdict* verdict) {
  return on_layer(instance, verdict, [&](Layer& layer) { return layer.bind(buffers); });
}

std::int32_t forward(sinktrap_instance* instance, const sinktrap_forward_args* args,
                     sinktrap_verdict* verdict) {
  return on_layer(instance, verdict, [&](Layer& layer) { return layer.forward(args); });
}

std::int32_t update(sinktrap_instance* instance, const sinktrap_slot_set* slots, sinktrap_verdict* verdict) {
  return on_layer(instance, verdict, [&](Layer& layer) { return layer.update(slots); });
}

std::int32_t load(sinktrap_instance* instance, std::int64_t slot, const sinktrap_adapter* adapter,
                  sinktrap_verdict* verdict) {
  return on_layer(instance, verdict, [&](Layer& layer) { return layer.load(slot, adapter); });
}

std::int32_t unload(sinktrap_instance* instance, std::int64_t slot, sinktrap_verdict* verdict) {
  return on_layer(instance, verdict, [&](Layer& layer) { return layer.unload(slot); });
}

std::int32_t shard(const DLTensor full[SINKTRAP_BUFFER_COUNT], std::int64_t tp_rank, std::int64_t tp_size,
                   const DLTensor part[SINKTRAP_BUFFER_COUNT], sinktrap_verdict* verdict) {
  return guarded(verdict, [&] { return shard_pool(full, tp_rank, tp_size, part); });
}

std::int32_t expand(const DLTensor* shared, std::int32_t buffer, const DLTensor* per_expert,
                    sinktrap_verdict* verdict) {
  return guarded(verdict, [&] { return expand_outer(shared, buffer, per_expert); });
}

std::int32_t collapse(const DLTensor* per_expert, std::int32_t buffer, const DLTensor* shared,
                      sinktrap_verdict* verdict) {
  return guarded(verdict, [&] { return collapse_outer(per_expert, buffer, shared); });
}

std::int32_t derived(sinktrap_instance* instance, const char* name, DLTensor* view,
                     sinktrap_verdict* verdict) {
  return on_layer(instance, verdict, [&](Layer& layer) {
    const Verdict v = layer.derived(name, view);
    if (v.code == SINKTRAP_UNSUPPORTED)
      last_error_text = "no operand '" + std::string(name) + "' in this layout";
    return v;
  });
}

sinktrap_declaration declaration_of(const Arithmetic& arithmetic) {
  return {1, arithmetic.seams, SINKTRAP_SILU_RELATIVE, 1};
}

std::int32_t declare(sinktrap_instance* instance, sinktrap_declaration* declaration) {
  if (instance == nullptr || declaration == nullptr) return SINKTRAP_ARGUMENT;
  *declaration = declaration_of(instance->layer->arithmetic());
  return SINKTRAP_OK;
}

const char* last_error() { return last_error_text.c_str(); }

constexpr std::uint64_t kCapabilities =
    SINKTRAP_CAN_UPDATE | SINKTRAP_CAN_LOAD | SINKTRAP_CAN_SHARD | SINKTRAP_CAN_EXPAND |
    SINKTRAP_CAN_DERIVED | SINKTRAP_CAN_BF16 | SINKTRAP_CAN_F16 | SINKTRAP_CAN_F32 | SINKTRAP_CAN_GAMMAS_F32 |
    SINKTRAP_CAN_INTERLEAVED | SINKTRAP_CAN_CONTIGUOUS | SINKTRAP_CAN_SHARED | SINKTRAP_CAN_PER_EXPERT;

template <Arithmetic::Kind kind>
sinktrap_implementation_table make_table(const char* name, std::uint64_t more_capabilities) {
  sinktrap_implementation_table t{};
  t.abi_version = SINKTRAP_ABI_VERSION;
  t.struct_size = sizeof t;
  t.name = name;
  t.capabilities = kCapabilities | more_capabilities;
  t.declaration = declaration_of({kind, 0});
  t.device = kHost;
  t.validate = validate_all;
  t.create = create<kind>;
  t.destroy = destroy;
  t.bind = bind;
  t.forward = forward;
  t.update = update;
  t.load = load;
  t.unload = unload;
  t.shard = shard;
  t.expand = expand;
  t.collapse = collapse;
  t.derived = derived;
  t.declare = declare;
  t.last_error = last_error;
  return t;
}

}  // namespace

const sinktrap_implementation_table* f64_table() {
  static const auto table = make_table<Arithmetic::Kind::f64>("reference", 0);
  return &table;
}

const sinktrap_implementation_table* ordered_table() {
  static const auto table = make_table<Arithmetic::Kind::ordered>(
      "reference:ordered", SINKTRAP_IS_ORDERED | SINKTRAP_CAN_CHOOSE_SEAMS);
  return &table;
}

}  // namespace sinktrap::reference
