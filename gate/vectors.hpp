// Files of expected values (safetensors, as in corpus/vectors): from named tensors to inputs, checked on the
// way.
#pragma once
#include <string>
#include <variant>

#include "cases/inputs.hpp"
#include "judge/safetensors.hpp"
#include "judge/session.hpp"

namespace sinktrap {

struct ForwardVector {
  ForwardInputs inputs;
  bool lattice = false;  // expected_out is exact; else it is the f64 value before the final rounding
  std::vector<double> expected_out;  // [T, H]
};
struct PackVector {
  Dimensions d;  // F of the whole layer
  std::int64_t rank = 0, tp = 1;
  AdapterFactors adapter;                 // whole factors, scaling 1
  Pool pool;                              // what load has to make of them
  std::map<std::string, Tensor> derived;  // w1_delta, a_cat, b_cat as the file has them
  std::vector<Pool> shards;               // one for each tensor-parallel rank
};

// The error is one line: which tensor or field, found and expected.
using AnyVector = std::variant<ForwardVector, PackVector, std::string>;
AnyVector read_vector(const SafetensorsFile& file);

}  // namespace sinktrap
