// What the reference expects of a forward case: exact values, whether they are certified, how far a legal
// implementation may be off, and which kinds of fault the case could see.
#pragma once
#include <string>

#include "cases/inputs.hpp"
#include "judge/distinct.hpp"
#include "judge/status.hpp"
#include "reference/bound.hpp"
#include "reference/certificate.hpp"
#include "reference/forward.hpp"

namespace sinktrap {

// Everything that a judgement of one forward pass needs to know.
struct Expectation {
  Distinct rows;
  reference::Stages stages;  // of the distinct rows; of every token where rows.whole
  reference::Certificate certificate;
  std::string vacuous;  // why no fault could be seen, or empty
  // The exact value of element i of out [T, H].
  double exact(std::int64_t i, std::int64_t H) const {
    if (rows.whole) return stages.out[static_cast<std::size_t>(i)];
    return stages.out[static_cast<std::size_t>(rows.row_of[static_cast<std::size_t>(i / H)] * H + i % H)];
  }
};
Expectation expect(const ForwardInputs& in);

// Judges one output: exactly where the case is certified, as one of at most two values on a sweep, else
// within the bound for the declaration (the smaller of the worst case and, on independently drawn inputs, the
// probabilistic one). A case that could not have seen any fault is VACUOUS; the kinds that it could see stand
// in the judgement.
Judgement judge_output(const ForwardInputs& in, const Expectation& expected, const Tensor& found,
                       const sinktrap_declaration& declaration);

// The allowed error of each output of `problem` for the declaration. `independent`: the inputs were drawn
// independently. The probabilistic bound is left out where it would cost more than kIndependentWork.
std::vector<double> allowed_error(const reference::Problem& problem, const reference::Stages& stages,
                                  const sinktrap_declaration& declaration, bool independent);
// About a second on one core. What is left out beyond it are layers of production size, whose exact cases are
// the sharper judgement anyway.
constexpr double kIndependentWork = 2e9;

// Where most of the allowed error of one output comes from: a seam, `out` (the final rounding) or `sums` (f32
// arithmetic). Found by leaving out one rounding after the other.
std::string bound_stage(const reference::Problem& whole, std::int64_t t, std::int64_t h,
                        const sinktrap_declaration& declaration, bool independent);

// What a judgement says beyond whether the law held: which faults the case could see, where its bound comes
// from. That costs several times the comparison. Fuzzers look at failures alone and switch it off; of the
// whole process. Off, nothing is VACUOUS for what it could not see.
inline bool& judgement_details() {
  static bool on = true;
  return on;
}

// Notes what the case could see; a PASSED that could see nothing becomes VACUOUS. `error` as in power_of.
void note_power(const ForwardInputs& in, const Expectation& expected, const std::vector<double>* error,
                Judgement& j);

// Views of the tensors; they must outlive the problem.
reference::Problem problem_of(const ForwardInputs& in);
// The same for the distinct rows.
reference::Problem problem_of(const ForwardInputs& in, const Distinct& rows);

// The output of the ordered arithmetic with these seams, as a tensor.
Tensor ordered_output(const ForwardInputs& in, std::uint32_t seams);

// The f64 output rounded once to the storage type.
Tensor rounded_output(const ForwardInputs& in, const std::vector<double>& out);

// Why a forward case could not have seen a fault, or empty: the expected outputs are all alike, or tokens use
// adapters and taking the adapters away changes nothing.
std::string vacuous_because(const ForwardInputs& in, const std::vector<double>& out);

}  // namespace sinktrap
