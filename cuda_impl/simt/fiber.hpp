// A reusable fiber: one stack, one body that works and suspends in turn. Wraps boost::context::fiber and
// tells AddressSanitizer about every change of stack (the annotations are weak symbols: one source for all
// builds).
//
// The body runs until it returns; before a Fiber is destroyed its body must be suspended at a place where it
// looks at stopping() next and returns. Nothing is unwound by force, so no switch goes unannotated.
#pragma once
#include <boost/context/fiber.hpp>
#include <cstddef>

namespace sinktrap::simt {

class Fiber {
 public:
  using Body = void (*)(void* owner, Fiber& self);
  // `index` tells the fibers of one owner apart; it shifts where the stack begins (see fiber.cpp).
  Fiber(Body body, void* owner, std::size_t index);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  void resume();   // from the host's stack: runs the body until it suspends or returns
  void suspend();  // from the body: back to whoever called resume
  bool stopping() const { return stopping_; }

 private:
  Body body_;
  void* owner_;
  bool stopping_ = false;
  const void* bottom_ = nullptr;  // lowest address of the stack
  std::size_t size_ = 0;
  const void* host_bottom_ = nullptr;
  std::size_t host_size_ = 0;
  boost::context::fiber inner_, host_;
};

}  // namespace sinktrap::simt
