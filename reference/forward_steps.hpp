// The forward pass of CONTRACT.md section 5 in f64 as a sequence of steps on Stages: forward_f64 runs them
// all, the power of a case (power.cpp) tampers with a stage in between.
#pragma once
#include <cstdint>
#include <vector>

#include "reference/forward.hpp"
#include "reference/rows.hpp"

namespace sinktrap::reference {

class ForwardSteps {
 public:
  // The problem must outlive it.
  explicit ForwardSteps(const Problem& problem);

  Stages zero_stages() const;
  // Each reads the stages before it. Those that add up expect zeros where they write.
  void base_y(Stages& s) const;
  void bridge(Stages& s) const;
  void delta(Stages& s) const;
  void activation(Stages& s) const;  // y, silu, product, act
  void expert_out(Stages& s) const;
  void down_bridge(Stages& s) const;
  void down_delta(Stages& s) const;
  void out(Stages& s) const;  // base_out, out

 private:
  const Problem& p_;
  const std::vector<Group> groups_;
  const Products<double> products_;
  std::vector<std::int64_t> every_token_;
  std::vector<double> x_, gammas_;
};

}  // namespace sinktrap::reference
