// A reusable fiber: one stack, and one body that works and switches away in turn. Any fiber can switch to any
// other directly; the stack that an OS thread came with is a fiber too. Wraps boost::context::fiber and tells
// AddressSanitizer and MemorySanitizer about every change of stack (the annotations are weak symbols: one
// source for all builds).
//
// The body runs until it returns. Before a Fiber is destroyed, end() is called for it, when its body has
// switched away at a place where it looks at stopping() next. Nothing is unwound by force, so no switch goes
// unannotated.
#pragma once
#include <boost/context/fiber.hpp>
#include <cstddef>
#include <utility>

extern "C" {
__attribute__((weak)) void __sanitizer_start_switch_fiber(void** fake_stack, const void* bottom,
                                                          std::size_t size);
__attribute__((weak)) void __sanitizer_finish_switch_fiber(void* fake_stack, const void** bottom,
                                                           std::size_t* size);
__attribute__((weak)) void __msan_start_switch_fiber(const void* bottom, std::size_t size);
__attribute__((weak)) void __msan_finish_switch_fiber(const void** bottom, std::size_t* size);
__attribute__((weak)) void __msan_unpoison(const volatile void* address, std::size_t bytes);
}

namespace sinktrap::simt {

class Fiber {
 public:
  using Body = void (*)(void* owner, Fiber& self);
  // The stack that the calling OS thread runs on.
  Fiber() = default;
  // `index` tells the fibers of one owner apart; it shifts where the stack begins (see fiber.cpp).
  Fiber(Body body, void* owner, std::size_t index);
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Called on this fiber: `to` runs on from where it switched away, or begins. Returns when something
  // switches back.
  inline void switch_to(Fiber& to);
  // Called on this fiber: the body of `other` sees stopping() and returns.
  void end(Fiber& other);
  bool stopping() const { return stopping_; }
  const void* stack() const { return bottom_; }  // lowest address
  std::size_t stack_bytes() const { return size_; }

 private:
  Body body_ = nullptr;
  void* owner_ = nullptr;
  bool stopping_ = false;
  const void* bottom_ = nullptr;
  std::size_t size_ = 0;
  Fiber* from_ = nullptr;  // who switched here last
  boost::context::fiber context_;
};

// Inlined with all that lies between it and a kernel: Boost's switch jumps where a function would return, so
// every return behind it is predicted wrongly, at some 5 ns each.
__attribute__((always_inline)) inline void Fiber::switch_to(Fiber& to) {
  void* fake_stack = nullptr;
  to.from_ = this;
  if (__sanitizer_start_switch_fiber != nullptr)
    __sanitizer_start_switch_fiber(&fake_stack, to.bottom_, to.size_);
  if (__msan_start_switch_fiber != nullptr) __msan_start_switch_fiber(to.bottom_, to.size_);
  boost::context::fiber left = std::move(to.context_).resume();
  // What the assembler returned has the shadow of the last return before the switch.
  if (__msan_unpoison != nullptr) __msan_unpoison(&left, sizeof left);
  if (__msan_finish_switch_fiber != nullptr) __msan_finish_switch_fiber(nullptr, nullptr);
  if (__sanitizer_finish_switch_fiber != nullptr)
    __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
  if (left) from_->context_ = std::move(left);  // a body that has returned leaves nothing behind
}

}  // namespace sinktrap::simt
