// One instance of an implementation, with everything around it that a judgement needs: tensors in its memory
// between guards, poisoned outputs, and the check that it wrote nothing it must not write.
#pragma once
#include <array>
#include <functional>
#include <memory>
#include <optional>

#include "cases/inputs.hpp"
#include "contract/verdict.hpp"
#include "judge/buffer.hpp"
#include "judge/status.hpp"

namespace sinktrap {

using Pool = std::array<Tensor, SINKTRAP_BUFFER_COUNT>;

struct SessionOptions {
  std::uint64_t schedule = 0;          // passed on where the implementation can choose one
  std::optional<std::uint32_t> seams;  // likewise
};

class Session {
 public:
  // Creates the instance. Throws Stop: unsupported when the implementation says so, failed on any other
  // refusal.
  Session(const Implementation& implementation, const ForwardInputs& in, const SessionOptions& options = {});
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session();

  // Uploads the pool and binds it. A pool that was refused is dropped, the previous one stays.
  // `edit` may change the descriptors before the call.
  using Views = std::array<DLTensor, SINKTRAP_BUFFER_COUNT>;
  Verdict bind(const Pool& pool, const std::function<void(Views&)>& edit = {});
  // Binds the buffers that are bound once more.
  Verdict rebind();
  // Absent: all slots.
  Verdict update(const std::optional<std::vector<std::int64_t>>& slots);
  // The set as it is; null: all slots.
  Verdict update(const sinktrap_slot_set* slots);
  Verdict load(std::int64_t slot, const AdapterFactors& adapter);
  Verdict unload(std::int64_t slot);
  // Writes new contents into the bound pool's memory, as an engine does.
  void write_pool(const Pool& pool);
  // What the bound pool's memory holds.
  Pool read_pool() const;

  struct Output {
    Verdict verdict;
    Tensor out;  // poison where nothing was written
  };
  // What forward is called with; `x`..`out` are what the pointers in `args` point to.
  struct ForwardCall {
    DLTensor x{}, gammas{}, token_slot{}, out{};
    sinktrap_forward_args args{};
  };
  // Throws Stop when the call wrote anything but `out`, or over the edge of a tensor. `edit` may change the
  // call before it is made; the tensors behind it are then still those given here.
  Output forward(const Tensor& x, const Tensor& gammas, const Tensor& token_slot,
                 const std::function<void(ForwardCall&)>& edit = {});
  // The tensors of a forward, for several calls: an implementation may remember addresses.
  class Batch {
   public:
    Batch() = default;
    Batch(const Implementation& implementation, Element type, const Tensor& x, const Tensor& gammas,
          const Tensor& token_slot);
    // The next batch into the same memory, `out` poisoned again; false, and nothing is done, when a shape or
    // type differs.
    bool write(const Tensor& x, const Tensor& gammas, const Tensor& token_slot);

   private:
    friend class Session;
    std::optional<Buffer> x_, gammas_, token_slot_, out_;
  };
  Output forward(const Batch& batch, const std::function<void(ForwardCall&)>& edit = {});

  struct Derived {
    Verdict verdict;
    Tensor operand;
    const void* address = nullptr;
  };
  // Throws Stop when the operand has another shape or type than expected: it is then not read.
  Derived derived(const char* name, const std::vector<std::int64_t>& shape);

  // The instance's declaration: its own where it has one, else the table's.
  sinktrap_declaration declaration() const;
  const Implementation& implementation() const { return implementation_; }

 private:
  void check_untouched(const char* operation) const;
  Verdict bind_views(const Views& views);

  const Implementation& implementation_;
  Element type_;
  std::vector<std::unique_ptr<Buffer>> weights_;
  std::vector<std::unique_ptr<Buffer>> pool_;
  sinktrap_instance* instance_ = nullptr;
};

// Throws Stop unless the verdict is ok: failed, or unsupported. `operation` names the call.
void must_succeed(const Implementation& implementation, const Verdict& verdict, std::string_view operation);
// Throws Stop(failed) unless the verdict is the expected one, field by field.
void must_equal(const Verdict& found, const Verdict& expected, std::string_view operation);

// Stateless operations.
struct ShardResult {
  Verdict verdict;
  Pool shard;
};
// The reference's shapes decide how large the shard's buffers are; F not divisible by tp_size is passed on as
// it is, and so is a tp_size below 1.
ShardResult shard(const Implementation& implementation, const Pool& full, std::int64_t tp_rank,
                  std::int64_t tp_size);
struct FactorResult {
  Verdict verdict;
  Tensor factor;
};
FactorResult expand(const Implementation& implementation, const Tensor& shared, sinktrap_buffer buffer,
                    std::int64_t n);
FactorResult collapse(const Implementation& implementation, const Tensor& per_expert, sinktrap_buffer buffer);

}  // namespace sinktrap
