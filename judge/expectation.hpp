// What the reference expects of a forward case: exact values, whether they are certified, how far a legal
// implementation may be off, and whether the case could see a fault at all.
#pragma once
#include <string>

#include "cases/inputs.hpp"
#include "judge/status.hpp"
#include "reference/bound.hpp"
#include "reference/certificate.hpp"
#include "reference/forward.hpp"

namespace sinktrap {

// Everything that a judgement of one forward pass needs to know.
struct Expectation {
  reference::Stages stages;
  reference::Certificate certificate;
  std::string vacuous;  // why no fault could be seen, or empty
};
Expectation expect(const ForwardInputs& in);

// Judges one output: exactly where the case is certified, else within the bound for the declaration. A case
// that could not have seen a fault is VACUOUS.
Judgement judge_output(const ForwardInputs& in, const Expectation& expected, const Tensor& found,
                       const sinktrap_declaration& declaration);

// Views of the tensors; they must outlive the problem.
reference::Problem problem_of(const ForwardInputs& in);

// The output of the ordered arithmetic with these seams, as a tensor.
Tensor ordered_output(const ForwardInputs& in, std::uint32_t seams);

// The f64 output rounded once to the storage type.
Tensor rounded_output(const ForwardInputs& in, const std::vector<double>& out);

// Why a forward case could not have seen a fault, or empty: the expected outputs are all alike, or tokens use
// adapters and taking the adapters away changes nothing.
std::string vacuous_because(const ForwardInputs& in, const std::vector<double>& out);

}  // namespace sinktrap
