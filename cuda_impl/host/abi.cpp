// The C table of one target. Nothing thrown crosses it: a failure of the device or the host becomes
// `internal`.
#include "cuda_impl/host/abi.hpp"

#include <exception>
#include <memory>

#include "cuda_impl/host/graph_route.hpp"
#include "cuda_impl/host/reshape.hpp"
#include "cuda_impl/host/validation.hpp"

namespace sinktrap::cuda_impl::SINKTRAP_TARGET {
namespace {

std::string& error_text() {
  static thread_local std::string text;
  return text;
}

template <class Operation>
std::int32_t guarded(Verdict* verdict, Operation operation) {
  // The interface promises a verdict pointer; without one the code alone has to do.
  Verdict unused{};
  if (verdict == nullptr) verdict = &unused;
  try {
    *verdict = operation();
  } catch (const std::exception& e) {
    set_last_error(e.what());
    *verdict = verdict_of(SINKTRAP_INTERNAL);
  } catch (...) {
    set_last_error("unknown exception");
    *verdict = verdict_of(SINKTRAP_INTERNAL);
  }
  return verdict->code;
}

// What a sinktrap_instance is.
struct Handle {
  Handle(Kernel kernel, const sinktrap_layer& layer, const Options& options)
      : instance(kernel, layer, options), replayed(instance), graphs(options.graphs) {}
  Instance instance;
  GraphRoute replayed;
  bool graphs;  // bind, update and forward are those of `replayed`
};
Handle* of(sinktrap_instance* instance) { return reinterpret_cast<Handle*>(instance); }

// An operation on an instance, under the instance's schedule.
template <class Operation>
std::int32_t on_instance(sinktrap_instance* instance, Verdict* verdict, Operation operation) {
  return guarded(verdict, [&] {
    if (instance == nullptr) return refuse_argument("no instance");
    of(instance)->instance.choose_schedule();
    return operation(of(instance)->instance);
  });
}

// One of those that can be replayed.
template <class Operation>
std::int32_t directly_or_replayed(sinktrap_instance* instance, Verdict* verdict, Operation operation) {
  return on_instance(instance, verdict, [&](Instance& i) {
    Handle& h = *of(instance);
    return h.graphs ? operation(h.replayed) : operation(i);
  });
}

// An operation without an instance runs in ascending order.
template <class Operation>
std::int32_t without_instance(Verdict* verdict, Operation operation) {
  return guarded(verdict, [&] {
    device_schedule(0);
    return operation();
  });
}

std::int32_t validate(const sinktrap_layout* layouts, std::int64_t count, std::int32_t profile,
                      sinktrap_verdict* verdicts) {
  Verdict verdict{};
  return without_instance(&verdict, [&] {
    if (count < 0 || (count > 0 && (layouts == nullptr || verdicts == nullptr)))
      return refuse_argument("validate: missing layouts or verdicts");
    if (profile != SINKTRAP_PROFILE_SGLANG && profile != SINKTRAP_PROFILE_STRICT)
      return refuse_argument("validate: unknown profile");
    validate_layouts(layouts, count, profile, verdicts);
    return verdict_of(SINKTRAP_OK);
  });
}

template <Kernel kKernel>
std::int32_t create(const sinktrap_layer* layer, const char* options, sinktrap_instance** instance,
                    sinktrap_verdict* verdict) {
  if (instance != nullptr) *instance = nullptr;
  return guarded(verdict, [&] {
    if (instance == nullptr || options == nullptr)
      return refuse_argument("create: missing instance or options");
    Options parsed = parse_options(kKernel, options);
    if (!parsed.problem.empty()) return refuse_argument(std::move(parsed.problem));
    if (const Verdict v = Instance::check_layer(kKernel, layer); v.code != SINKTRAP_OK) return v;
    require_device(device_present());
    *instance =
        reinterpret_cast<sinktrap_instance*>(std::make_unique<Handle>(kKernel, *layer, parsed).release());
    return verdict_of(SINKTRAP_OK);
  });
}

void destroy(sinktrap_instance* instance) { delete of(instance); }

std::int32_t bind(sinktrap_instance* instance, const DLTensor buffers[SINKTRAP_BUFFER_COUNT],
                  sinktrap_verdict* verdict) {
  return directly_or_replayed(instance, verdict, [&](auto& i) { return i.bind(buffers); });
}
std::int32_t forward(sinktrap_instance* instance, const sinktrap_forward_args* args,
                     sinktrap_verdict* verdict) {
  return directly_or_replayed(instance, verdict, [&](auto& i) { return i.forward(args); });
}
std::int32_t update(sinktrap_instance* instance, const sinktrap_slot_set* slots, sinktrap_verdict* verdict) {
  return directly_or_replayed(instance, verdict, [&](auto& i) { return i.update(slots); });
}
std::int32_t load(sinktrap_instance* instance, std::int64_t slot, const sinktrap_adapter* adapter,
                  sinktrap_verdict* verdict) {
  return on_instance(instance, verdict, [&](Instance& i) { return i.load(slot, adapter); });
}
std::int32_t unload(sinktrap_instance* instance, std::int64_t slot, sinktrap_verdict* verdict) {
  return on_instance(instance, verdict, [&](Instance& i) { return i.unload(slot); });
}
std::int32_t shard(const DLTensor full[SINKTRAP_BUFFER_COUNT], std::int64_t tp_rank, std::int64_t tp_size,
                   const DLTensor shards[SINKTRAP_BUFFER_COUNT], sinktrap_verdict* verdict) {
  return without_instance(verdict, [&] { return shard_pool(full, tp_rank, tp_size, shards); });
}
std::int32_t expand(const DLTensor* shared, std::int32_t buffer, const DLTensor* per_expert,
                    sinktrap_verdict* verdict) {
  return without_instance(verdict, [&] { return expand_factor(shared, buffer, per_expert); });
}
std::int32_t collapse(const DLTensor* per_expert, std::int32_t buffer, const DLTensor* shared,
                      sinktrap_verdict* verdict) {
  return without_instance(verdict, [&] { return collapse_factor(per_expert, buffer, shared); });
}
std::int32_t derived(sinktrap_instance* instance, const char* name, DLTensor* view,
                     sinktrap_verdict* verdict) {
  return on_instance(instance, verdict, [&](Instance& i) {
    return name == nullptr ? refuse_argument("derived: no name") : i.derived(name, view);
  });
}
std::int32_t declare(sinktrap_instance* instance, sinktrap_declaration* declaration) {
  if (instance == nullptr || declaration == nullptr) return SINKTRAP_ARGUMENT;
  *declaration = of(instance)->instance.declaration();
  return SINKTRAP_OK;
}

void* memory_allocate(std::uint64_t bytes) {
  void* pointer = device_allocate(bytes);
  if (pointer == nullptr) set_last_error(device_error());
  return pointer;
}
void memory_release(void* pointer) {
  if (!device_release(pointer)) set_last_error(device_error());
}
std::int32_t memory_result(bool ok) {
  if (!ok) set_last_error(device_error());
  return ok ? SINKTRAP_OK : SINKTRAP_INTERNAL;
}
std::int32_t memory_write(void* device, const void* host, std::uint64_t bytes) {
  return memory_result(device_write(device, host, bytes));
}
std::int32_t memory_read(void* host, const void* device, std::uint64_t bytes) {
  return memory_result(device_read(host, device, bytes));
}

constexpr std::uint64_t kCapabilities =
    SINKTRAP_CAN_UPDATE | SINKTRAP_CAN_LOAD | SINKTRAP_CAN_SHARD | SINKTRAP_CAN_EXPAND |
    SINKTRAP_CAN_DERIVED | SINKTRAP_CAN_BF16 | SINKTRAP_CAN_F16 | SINKTRAP_CAN_GAMMAS_F32 |
    SINKTRAP_CAN_INTERLEAVED | SINKTRAP_CAN_CONTIGUOUS | SINKTRAP_CAN_SHARED | SINKTRAP_CAN_PER_EXPERT |
    (SINKTRAP_ON_GPU ? 0 : SINKTRAP_CAN_CHOOSE_SCHEDULE);
constexpr std::uint64_t kOrderedCapabilities =
    kCapabilities | SINKTRAP_CAN_F32 | SINKTRAP_IS_ORDERED | SINKTRAP_CAN_CHOOSE_SEAMS;

constexpr const char* kNames[][2] = {{"simt:ordered", "cuda:ordered"},
                                     {"simt:tiled", "cuda:tiled"},
                                     {"simt:mma", "cuda:mma"},
                                     {"simt:decode", "cuda:decode"}};

template <Kernel kKernel>
constexpr sinktrap_implementation_table kTable = {
    SINKTRAP_ABI_VERSION,
    sizeof(sinktrap_implementation_table),
    kNames[static_cast<int>(kKernel)][SINKTRAP_ON_GPU],
    is_ordered(kKernel) ? kOrderedCapabilities : kCapabilities,
    {1, fixed_seams(kKernel), SINKTRAP_SILU_RELATIVE, 1},
    kDevice,
    {memory_allocate, memory_release, memory_write, memory_read},
    validate,
    create<kKernel>,
    destroy,
    bind,
    forward,
    update,
    load,
    unload,
    shard,
    expand,
    collapse,
    derived,
    declare,
    last_error,
};

}  // namespace

void set_last_error(std::string text) { error_text() = std::move(text); }
const char* last_error() { return error_text().c_str(); }

const sinktrap_implementation_table* table(Kernel kernel) {
  switch (kernel) {
    case Kernel::ordered:
      return &kTable<Kernel::ordered>;
    case Kernel::tiled:
      return &kTable<Kernel::tiled>;
    case Kernel::mma:
      return &kTable<Kernel::mma>;
    case Kernel::decode:
      return &kTable<Kernel::decode>;
  }
  return nullptr;
}

#if SINKTRAP_ON_GPU
bool present(const char** why) {
  const bool there = device_present();
  if (!there && why != nullptr) *why = device_error();
  return there;
}
#endif

}  // namespace sinktrap::cuda_impl::SINKTRAP_TARGET
