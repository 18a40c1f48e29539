// The layer as a state machine (CONTRACT.md section 3): what is bound, what is derived, and what each
// operation answers.
#pragma once
#include <array>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "reference/slots.hpp"

namespace sinktrap::reference {

// How forward computes.
struct Arithmetic {
  enum class Kind : std::uint8_t {
    f64,     // section 5 in f64, rounded once to storage
    ordered  // section 7
  } kind = Kind::f64;
  std::uint32_t seams = 0;  // ordered only: mask of SINKTRAP_SEAM(...)
};

// Every operation returns its verdict, and has changed nothing when that is not ok. Tensors are host memory;
// pointers to descriptors may be null and descriptors may hold anything.
class Layer {
 public:
  // `argument` (null, struct_size, w13_layout, dtype), `layer`, `argument` (w13, w2). Leaves `layer` alone
  // unless ok.
  static Verdict create(const sinktrap_layer* description, const Arithmetic& arithmetic,
                        std::unique_ptr<Layer>& layer);

  // Strict validation; `dtype` where the storage type is not the layer's; `device` where it is not host
  // memory; `pool_shape_changed`.
  Verdict bind(const DLTensor* buffers);
  // `unbound`, `argument` (a set without ids), `slot_range`. Null: all slots.
  Verdict update(const sinktrap_slot_set* slots);
  Verdict load(std::int64_t slot, const sinktrap_adapter* adapter);
  Verdict unload(std::int64_t slot);
  // `unsupported` (a name, or a layout, without operand), `unbound`, `argument` (no view).
  Verdict derived(const char* name, DLTensor* view);
  Verdict forward(const sinktrap_forward_args* args) const;

  const Arithmetic& arithmetic() const { return arithmetic_; }

 private:
  // A derived operand: extents and memory that stay where they are once the first bind has made them.
  struct Operand {
    std::array<std::int64_t, 3> shape{};
    std::vector<char> bytes;
    void allocate(Element type, std::array<std::int64_t, 3> extents);
  };
  struct Bound {
    Pool pool;
    std::array<std::array<std::int64_t, 4>, SINKTRAP_BUFFER_COUNT> shapes{};
    Operand w1_delta, a_cat, b_cat;
    void derive(std::int64_t slot);
  };

  Layer() = default;
  bool has_a_cat() const { return bound_->pool.outer == 1; }
  Verdict check_pool(const DLTensor* buffers) const;
  Verdict check_ids(const std::int32_t* ids, std::int64_t count) const;

  Arithmetic arithmetic_;
  std::int64_t n_ = 1, H_ = 1, F_ = 1;
  std::int32_t w13_layout_ = SINKTRAP_W13_INTERLEAVED;
  Element type_ = Element::bf16;
  const char *w13_ = nullptr, *w2_ = nullptr;
  std::unique_ptr<Bound> bound_;  // null before the first successful bind
};

}  // namespace sinktrap::reference
