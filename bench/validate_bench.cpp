// Layouts judged a second on one core: by the reference, one after the other, and by the kernels' table on
// the CPU executor, in batches; with the ratio of the two measured in the same run.
//
// items_per_second counts layouts. Each benchmark first makes sure that both agree on every verdict that it
// times.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdint>
#include <random>
#include <vector>

#include "contract/verdict.hpp"
#include "cuda_impl/table.hpp"
#include "reference/validate.hpp"

namespace {

using namespace sinktrap;
using Clock = std::chrono::steady_clock;

enum class Mix { valid, invalid, both };

// Layouts with the shapes behind them. The seed is fixed, so that two runs time the same work.
class Layouts {
 public:
  Layouts(Mix mix, std::size_t count) : shapes_(count), layouts_(count) {
    std::mt19937_64 random(20);
    for (std::size_t i = 0; i < count; ++i) {
      fill(i, random);
      if (mix == Mix::invalid || (mix == Mix::both && random() % 2 == 0)) spoil(i, random);
    }
  }
  const std::vector<sinktrap_layout>& all() const { return layouts_; }

 private:
  struct Shapes {
    std::int64_t extent[SINKTRAP_BUFFER_COUNT][4];
  };

  static std::int64_t pick(std::mt19937_64& random, std::int64_t most) {
    return 1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most));
  }

  // A valid layout with extents of a real layer: up to Inkling's (CONTRACT.md section 1).
  void fill(std::size_t i, std::mt19937_64& random) {
    const std::int64_t n = pick(random, 4), S = pick(random, 8), R = pick(random, 64), H = pick(random, 6144);
    const std::int64_t F = pick(random, 3072), outer = random() % 2 == 0 ? 1 : n;
    shapes_[i] = {{{S, outer, 2 * R, H}, {S, n, 2 * F, R}, {S, n, R, F}, {S, outer, H, R}}};
    sinktrap_layout& l = layouts_[i];
    l = {};
    l.n_shared_experts = n;
    l.hidden_size = H;
    l.intermediate_size = F;
    l.flags = SINKTRAP_SHAPES_ONLY;
    for (int b = 0; b < SINKTRAP_BUFFER_COUNT; ++b) {
      l.buffers[b].ndim = 4;
      l.buffers[b].shape = shapes_[i].extent[b];
      l.buffers[b].dtype = dl_type(Element::bf16);
      l.buffers[b].device = {kDLCPU, 0};
    }
  }

  // One extent off by one. An outer extent that becomes n by it is not possible: all four buffers take part
  // in a check with another buffer or with the layer.
  void spoil(std::size_t i, std::mt19937_64& random) {
    ++shapes_[i].extent[random() % SINKTRAP_BUFFER_COUNT][random() % 4];
  }

  std::vector<Shapes> shapes_;
  std::vector<sinktrap_layout> layouts_;
};

double seconds_of(Clock::duration d) { return std::chrono::duration<double>(d).count(); }

void judge_by_reference(const std::vector<sinktrap_layout>& layouts, std::vector<Verdict>& verdicts) {
  for (std::size_t i = 0; i < layouts.size(); ++i)
    verdicts[i] = reference::validate(layouts[i], SINKTRAP_PROFILE_STRICT);
  benchmark::DoNotOptimize(verdicts.data());
  benchmark::ClobberMemory();
}

bool judge_by_kernels(const std::vector<sinktrap_layout>& layouts, std::vector<Verdict>& verdicts) {
  return cuda_impl::simt_ordered_table()->validate(layouts.data(), static_cast<std::int64_t>(layouts.size()),
                                                   SINKTRAP_PROFILE_STRICT, verdicts.data()) == SINKTRAP_OK;
}

// The share of layouts that are accepted, as a check on the name of the mix.
double accepted(const std::vector<Verdict>& verdicts) {
  double count = 0;
  for (const Verdict& v : verdicts) count += v.code == SINKTRAP_OK;
  return count / static_cast<double>(verdicts.size());
}

void reference_validate(benchmark::State& state, Mix mix) {
  const Layouts set(
      mix, 4096);  // with their shapes about 2 MiB: the working set of a long corpus, not of one line
  std::vector<Verdict> verdicts(set.all().size());
  for (auto _ : state) judge_by_reference(set.all(), verdicts);
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(verdicts.size()));
  state.counters["accepted"] = accepted(verdicts);
}

void simt_validate(benchmark::State& state, Mix mix) {
  const Layouts set(mix, static_cast<std::size_t>(state.range(0)));
  std::vector<Verdict> found(set.all().size()), expected(set.all().size());
  judge_by_reference(set.all(), expected);
  if (!judge_by_kernels(set.all(), found) || found != expected) {
    state.SkipWithError("the kernels and the reference disagree");
    return;
  }
  // The reference is timed beside every batch, so that both see the same state of the machine.
  double kernel_seconds = 0, reference_seconds = 0;
  for (auto _ : state) {
    const auto start = Clock::now();
    judge_by_kernels(set.all(), found);
    const auto middle = Clock::now();
    judge_by_reference(set.all(), expected);
    const auto end = Clock::now();
    kernel_seconds += seconds_of(middle - start);
    reference_seconds += seconds_of(end - middle);
    state.SetIterationTime(seconds_of(middle - start));
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
  state.counters["accepted"] = accepted(found);
  state.counters["times_reference"] = kernel_seconds / reference_seconds;
}

BENCHMARK_CAPTURE(reference_validate, valid, Mix::valid);
BENCHMARK_CAPTURE(reference_validate, invalid, Mix::invalid);
BENCHMARK_CAPTURE(reference_validate, mix, Mix::both);
// One layout, a block of threads, and a batch that fills any grid.
BENCHMARK_CAPTURE(simt_validate, mix, Mix::both)->Arg(1)->Arg(128)->Arg(4096)->UseManualTime();
BENCHMARK_CAPTURE(simt_validate, valid, Mix::valid)->Arg(4096)->UseManualTime();

}  // namespace

BENCHMARK_MAIN();
