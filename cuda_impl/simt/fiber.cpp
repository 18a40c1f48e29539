#include "cuda_impl/simt/fiber.hpp"

#include <boost/context/protected_fixedsize_stack.hpp>

namespace sinktrap::simt {
namespace {

// A kernel's frames are small (no recursion, large arrays live in shared memory); instrumented frames are
// several times larger. Pages that are never touched cost nothing, and a guard page ends the stack.
constexpr std::size_t kStackBytes = std::size_t{256} * 1024;

// Stacks have equal sizes, so equal depths of all fibers would fall into the same sets of every cache. Fibers
// begin at different depths instead: steps of three 64-byte lines, 256 of them, at most a fifth of the stack.
constexpr std::size_t kColourStep = std::size_t{3} * 64, kColours = 256;

}  // namespace

Fiber::Fiber(Body body, void* owner, std::size_t index) : body_(body), owner_(owner) {
  boost::context::protected_fixedsize_stack allocator(kStackBytes);
  const boost::context::stack_context stack = allocator.allocate();
  bottom_ = static_cast<const char*>(stack.sp) - stack.size;
  size_ = stack.size;
  const std::size_t colour = index % kColours * kColourStep;
  context_ = boost::context::fiber(
      std::allocator_arg,
      boost::context::preallocated(static_cast<char*>(stack.sp) - colour, stack.size - colour, stack),
      allocator, [this](boost::context::fiber&& left) {
        if (__sanitizer_finish_switch_fiber != nullptr) {
          const void* bottom = nullptr;
          std::size_t size = 0;
          __sanitizer_finish_switch_fiber(nullptr, &bottom, &size);
          // Only here does anybody learn the bounds of an OS thread's own stack.
          if (from_->size_ == 0) from_->bottom_ = bottom, from_->size_ = size;
        }
        if (__msan_finish_switch_fiber != nullptr) {
          const void* bottom = nullptr;
          std::size_t size = 0;
          __msan_finish_switch_fiber(&bottom, &size);
          if (from_->size_ == 0) from_->bottom_ = bottom, from_->size_ = size;
        }
        from_->context_ = std::move(left);
        if (!stopping_) body_(owner_, *this);
        // A null fake stack says that this stack ends here.
        if (__sanitizer_start_switch_fiber != nullptr)
          __sanitizer_start_switch_fiber(nullptr, from_->bottom_, from_->size_);
        if (__msan_start_switch_fiber != nullptr) __msan_start_switch_fiber(from_->bottom_, from_->size_);
        return std::move(from_->context_);
      });
}

void Fiber::end(Fiber& other) {
  other.stopping_ = true;
  if (other.context_) switch_to(other);
}

}  // namespace sinktrap::simt
