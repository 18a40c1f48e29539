// What the executor costs: a thread, a barrier, a shuffle, an atomic, a launch; what the second core gains;
// and whole judged cases a second.
//
// Each time stands beside the time of a plain C++ loop that does the same work, measured in turns within the
// same iteration ("times_loop"), so that a busy machine slows both. Times are processor time of the calling
// thread, except in many_blocks, which asks what several processors gain; ns_each and times_loop come from
// the fastest iteration of each, since other programs only ever slow it.
#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "cuda_impl/simt/simt.hpp"
#include "judge/implementation.hpp"
#include "properties/law.hpp"

namespace {

using namespace sinktrap;
constexpr int kRepeats = 100;  // meetings in one launch, so that the launch itself does not count

__global__ void nothing(float* out) { out[blockIdx.x * blockDim.x + threadIdx.x] += 1.0f; }
__global__ void barriers(float* out) {
  for (int i = 0; i < kRepeats; ++i) {
    out[threadIdx.x] += 1.0f;
    __syncthreads();
  }
}
__global__ void shuffles(float* out) {
  float v = out[threadIdx.x];
  for (int i = 0; i < kRepeats; ++i) v = __shfl_xor_sync(0xffffffffu, v, 1) + 1.0f;
  out[threadIdx.x] = v;
}
__global__ void atomics(float* out) {
  for (int i = 0; i < kRepeats; ++i) atomicAdd(&out[threadIdx.x], 1.0f);
}
// A chain that no compiler shortens: work for both cores.
constexpr int kWork = 2000;
float chain(float v) {
  for (int i = 0; i < kWork; ++i) v = v * 0.999f + 0.5f;
  return v;
}
__global__ void work(float* out) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = chain(out[i]);
}

double seconds_on(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// Times a launch against a loop over the same threads; items are threads times `repeats`.
template <class Loop>
void against_loop(benchmark::State& state, const simt::Config& config, void (*kernel)(float*), int repeats,
                  Loop loop, clockid_t clock = CLOCK_THREAD_CPUTIME_ID) {
  const std::int64_t threads = std::int64_t{config.grid.x} * config.block.x;
  auto* out = static_cast<float*>(simt::allocate(static_cast<std::uint64_t>(threads) * sizeof(float)));
  simt::fill(out, 0, static_cast<std::uint64_t>(threads) * sizeof(float));
  simt::schedule(0);
  double kernel_seconds = 1e9, loop_seconds = 1e9;
  for (auto _ : state) {
    const double start = seconds_on(clock);
    if (!simt::launch(config, kernel, out)) {
      state.SkipWithError(simt::error());
      break;
    }
    const double middle = seconds_on(clock);
    for (std::int64_t i = 0; i < threads; ++i) {
      loop(out + i);
      benchmark::ClobberMemory();
    }
    kernel_seconds = std::min(kernel_seconds, middle - start);
    loop_seconds = std::min(loop_seconds, seconds_on(clock) - middle);
    state.SetIterationTime(middle - start);
  }
  state.counters["ns_each"] = kernel_seconds * 1e9 / static_cast<double>(threads * repeats);
  state.counters["times_loop"] = kernel_seconds / loop_seconds;
  simt::release(out);
}

void thread_cost(benchmark::State& state) {
  against_loop(state, {64, static_cast<unsigned>(state.range(0))}, nothing, 1, [](float* v) { *v += 1.0f; });
}
void barrier_cost(benchmark::State& state) {
  against_loop(state, {1, static_cast<unsigned>(state.range(0))}, barriers, kRepeats, [](float* v) {
    for (int i = 0; i < kRepeats; ++i) {
      *v += 1.0f;
      benchmark::ClobberMemory();
    }
  });
}
void shuffle_cost(benchmark::State& state) {
  against_loop(state, {1, static_cast<unsigned>(state.range(0))}, shuffles, kRepeats, [](float* v) {
    for (int i = 0; i < kRepeats; ++i) {
      *v += 1.0f;
      benchmark::ClobberMemory();
    }
  });
}
void atomic_cost(benchmark::State& state) {
  against_loop(state, {1, 128}, atomics, kRepeats, [](float* v) {
    for (int i = 0; i < kRepeats; ++i) {
      *v += 1.0f;
      benchmark::ClobberMemory();
    }
  });
}
// times_loop below 1: how much the other core gains over one thread that does all of the work.
void many_blocks(benchmark::State& state) {
  against_loop(
      state, {256, 64}, work, 1, [](float* v) { *v = chain(*v); }, CLOCK_MONOTONIC);
}
// One thread, no work: what a launch costs by itself.
void launch_cost(benchmark::State& state) {
  against_loop(state, {1, 1}, nothing, 1, [](float* v) { *v += 1.0f; });
}

// Whole cases as the program judges them: parse, fill, run the layer, compare. items_per_second counts cases.
void judged_cases(benchmark::State& state, const char* id, const char* line) {
  const auto opened = Implementation::open("simt:ordered");
  const Law* law = find_law(id);
  if (opened.index() != 0 || law == nullptr) {
    state.SkipWithError("no such implementation or law");
    return;
  }
  for (auto _ : state) {
    const auto parsed = parse_case(line);
    const Judgement j = judge_case(*law, std::get<Case>(parsed), *std::get<0>(opened));
    if (j.status == Status::passed) continue;
    state.SkipWithError(j.reason.c_str());
    break;
  }
  state.SetItemsProcessed(state.iterations());
}

BENCHMARK(thread_cost)->Arg(32)->Arg(256)->UseManualTime();
BENCHMARK(barrier_cost)->Arg(32)->Arg(256)->Arg(1024)->UseManualTime();
BENCHMARK(shuffle_cost)->Arg(32)->Arg(256)->UseManualTime();
BENCHMARK(atomic_cost)->UseManualTime();
BENCHMARK(many_blocks)->UseManualTime();
BENCHMARK(launch_cost)->UseManualTime();
BENCHMARK_CAPTURE(judged_cases, tiny_lattice, "lattice-is-exact",
                  "forward T=3 n=2 H=8 F=5 R=3 S=2 ranks=3,1 slots=1,-1,0 fill=lattice seed=7");
BENCHMARK_CAPTURE(judged_cases, tiny_dense, "dense-is-bounded",
                  "forward T=3 n=2 H=8 F=5 R=3 S=2 ranks=3,1 slots=1,-1,0 fill=dense seed=7");

}  // namespace

BENCHMARK_MAIN();
