#include "properties/shared_run.hpp"

#include "properties/batch.hpp"

namespace sinktrap {
namespace {

thread_local SharedRun* current = nullptr;

}  // namespace

SharedRun::SharedRun(const Case& c, const Implementation& implementation)
    : case_(c), implementation_(implementation) {
  current = this;
}

SharedRun::~SharedRun() { current = nullptr; }

OneRun::Made* SharedRun::of(const Case& c, const Implementation& implementation) {
  const bool its =
      current != nullptr && &current->case_ == &c && &current->implementation_ == &implementation;
  return its ? &current->made_ : nullptr;
}

OneRun::OneRun(const Case& c, const Implementation& implementation)
    : case_(c),
      implementation_(implementation),
      made_(SharedRun::of(c, implementation) != nullptr ? *SharedRun::of(c, implementation) : own_) {}

const ForwardInputs& OneRun::in() {
  if (!made_.in) made_.in = make_inputs(batch::forward(case_));
  return *made_.in;
}

const Tensor& OneRun::out() {
  if (!made_.out) {
    Session session(implementation_, in(), batch::options_of(batch::forward(case_), true));
    made_.declaration = session.declaration();
    made_.out = batch::run(session, in());
  }
  return *made_.out;
}

const sinktrap_declaration& OneRun::declaration() {
  out();
  return made_.declaration;
}

}  // namespace sinktrap
