// The run that several laws judge. A fuzzer puts a case under every law that speaks about it, and those about
// a single batch all run the same one, with the same options: while a SharedRun lives they share its inputs
// and its output.
#pragma once
#include <optional>

#include "judge/session.hpp"
#include "properties/law.hpp"

namespace sinktrap {

// One batch of a forward case, with the case's schedule and seams, made when it is asked for. Laws use it in
// place of a session of their own; outside of a SharedRun each has its own.
class OneRun {
 public:
  OneRun(const Case& c, const Implementation& implementation);
  const ForwardInputs& in();
  // Bound, run and checked for what it wrote. Throws Stop as a session does.
  const Tensor& out();
  // Of the instance that ran it.
  const sinktrap_declaration& declaration();

  struct Made {
    std::optional<ForwardInputs> in;
    std::optional<Tensor> out;
    sinktrap_declaration declaration{};
  };

 private:
  const Case& case_;
  const Implementation& implementation_;
  Made own_;
  Made& made_;
};

// For the judgements of this case on this implementation, on this OS thread, while it lives. Not nested.
class SharedRun {
 public:
  SharedRun(const Case& c, const Implementation& implementation);
  SharedRun(const SharedRun&) = delete;
  SharedRun& operator=(const SharedRun&) = delete;
  ~SharedRun();

  // What they share, if it is of these two; else null.
  static OneRun::Made* of(const Case& c, const Implementation& implementation);

 private:
  const Case& case_;
  const Implementation& implementation_;
  OneRun::Made made_;
};

}  // namespace sinktrap
