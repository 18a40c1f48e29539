#include "cuda_impl/simt/fiber.hpp"

#include <boost/context/protected_fixedsize_stack.hpp>

extern "C" {
__attribute__((weak)) void __sanitizer_start_switch_fiber(void** fake_stack, const void* bottom,
                                                          std::size_t size);
__attribute__((weak)) void __sanitizer_finish_switch_fiber(void* fake_stack, const void** bottom,
                                                           std::size_t* size);
}

namespace sinktrap::simt {
namespace {

// A kernel's frames are small (no recursion, large arrays live in shared memory); instrumented frames are
// several times larger. Pages that are never touched cost nothing, and a guard page ends the stack.
constexpr std::size_t kStackBytes = 256 * 1024;

// Stacks have equal sizes, so equal depths of all fibers would fall into the same sets of every cache. Fibers
// begin at different depths instead: steps of three 64-byte lines, 256 of them, at most a fifth of the stack.
constexpr std::size_t kColourStep = 3 * 64, kColours = 256;

void start_switch(void** fake_stack, const void* bottom, std::size_t size) {
  if (__sanitizer_start_switch_fiber) __sanitizer_start_switch_fiber(fake_stack, bottom, size);
}
void finish_switch(void* fake_stack, const void** bottom, std::size_t* size) {
  if (__sanitizer_finish_switch_fiber) __sanitizer_finish_switch_fiber(fake_stack, bottom, size);
}

}  // namespace

Fiber::Fiber(Body body, void* owner, std::size_t index) : body_(body), owner_(owner) {
  boost::context::protected_fixedsize_stack allocator(kStackBytes);
  const boost::context::stack_context stack = allocator.allocate();
  bottom_ = static_cast<const char*>(stack.sp) - stack.size;
  size_ = stack.size;
  const std::size_t colour = index % kColours * kColourStep;
  inner_ = boost::context::fiber(
      std::allocator_arg,
      boost::context::preallocated(static_cast<char*>(stack.sp) - colour, stack.size - colour, stack),
      allocator, [this](boost::context::fiber&& host) {
        host_ = std::move(host);
        finish_switch(nullptr, &host_bottom_, &host_size_);
        if (!stopping_) body_(owner_, *this);
        // A null fake stack says that this stack ends here.
        start_switch(nullptr, host_bottom_, host_size_);
        return std::move(host_);
      });
}

Fiber::~Fiber() {
  stopping_ = true;
  if (inner_) resume();
}

void Fiber::resume() {
  void* fake_stack = nullptr;
  start_switch(&fake_stack, bottom_, size_);
  inner_ = std::move(inner_).resume();
  finish_switch(fake_stack, nullptr, nullptr);
}

void Fiber::suspend() {
  void* fake_stack = nullptr;
  start_switch(&fake_stack, host_bottom_, host_size_);
  host_ = std::move(host_).resume();
  finish_switch(fake_stack, &host_bottom_, &host_size_);
}

}  // namespace sinktrap::simt
