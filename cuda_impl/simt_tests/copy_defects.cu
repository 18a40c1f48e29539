// cp.async pipelines of two stages: copies that are used too early, and a stage that is filled again too
// early.
#include "cuda_impl/simt/ptx.hpp"
#include "cuda_impl/simt_tests/defects.hpp"

namespace sinktrap::simt {
namespace {

constexpr unsigned kThreads = 288;
constexpr unsigned kSteps = 5;

enum class Fault { none, no_wait, wrong_count, no_barrier, refilled };

__global__ void pipeline(Fault fault, const int* in, int* out) {
  auto& stages = shared<int[2][kThreads], struct PipelineStages>();
  const unsigned t = threadIdx.x;
  cp_async<4>(&stages[0][t], in + t);
  cp_async_commit();
  int sum = 0;
  for (unsigned i = 0; i < kSteps; ++i) {
    if (i + 1 < kSteps)
      cp_async<4>(&stages[(i + 1) % 2][t], in + (i + 1) * kThreads + t);  // defect: refilled_stage
    cp_async_commit();
    if (fault == Fault::wrong_count)
      cp_async_wait<2>();
    else if (fault != Fault::no_wait)
      cp_async_wait<1>();
    if (fault != Fault::no_barrier) __syncthreads();
    sum += stages[i % 2][(t + 1) % kThreads];  // defect: early_use
    if (fault != Fault::refilled) __syncthreads();
  }
  out[t] = sum;
}

// The thread that copied may read after its wait, without a barrier; not before.
__global__ void own_copy(bool defect, const int* in, int* out) {
  auto& stage = shared<int[kThreads], struct OwnStage>();
  const unsigned t = threadIdx.x;
  cp_async<4>(&stage[t], in + t);
  cp_async_commit();
  if (!defect) cp_async_wait<0>();
  out[t] = stage[t];  // defect: own_copy
}

// The source of a copy may be read until the wait.
__global__ void changed_source(bool defect, int* in, int* out) {
  auto& stage = shared<int[kThreads], struct SourceStage>();
  const unsigned t = threadIdx.x;
  cp_async<4>(&stage[t], in + t);
  cp_async_commit();
  if (!defect) cp_async_wait<0>();
  __syncthreads();
  in[(t + 1) % kThreads] = 5;  // defect: changed_source
  if (defect) cp_async_wait<0>();
  out[t] = stage[t];
}

bool run_pipeline(Fault fault) {
  const Zeros<int> in(kSteps * kThreads), out(kThreads);
  return launch({1, kThreads}, pipeline, fault, in.get(), out.get());
}

}  // namespace

std::vector<Defect> copy_defects() {
  static const char* const file = "copy_defects.cu";
  static const char* const in_shared = "data race on shared memory";
  return {
      {"early_use", file, "copy in flight",
       [](bool defect) { return run_pipeline(defect ? Fault::no_wait : Fault::none); }},
      {"early_use", file, "copy in flight",
       [](bool defect) { return run_pipeline(defect ? Fault::wrong_count : Fault::none); }},
      {"early_use", file, in_shared,
       [](bool defect) { return run_pipeline(defect ? Fault::no_barrier : Fault::none); }},
      {"refilled_stage", file, in_shared,
       [](bool defect) { return run_pipeline(defect ? Fault::refilled : Fault::none); }},
      {"own_copy", file, "copy in flight",
       [](bool defect) {
         const Zeros<int> in(kThreads), out(kThreads);
         return launch({1, kThreads}, own_copy, defect, in.get(), out.get());
       }},
      {"changed_source", file, "data race on device allocation",
       [](bool defect) {
         const Zeros<int> in(kThreads), out(kThreads);
         return launch({1, kThreads}, changed_source, defect, in.get(), out.get());
       }},
  };
}

}  // namespace sinktrap::simt
