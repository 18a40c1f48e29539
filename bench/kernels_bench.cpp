// Forward passes a second of the kernels on the CPU executor, and each kernel against `ordered` in the same
// run.
//
// items_per_second counts forward passes; `vs_ordered` is the processor time of this kernel's pass over that
// of ordered, each the best of a few passes measured in turn.
#include <benchmark/benchmark.h>

#include <ctime>

#include "bench/layers.hpp"

namespace {

using namespace sinktrap;
using cuda_impl::Kernel;

constexpr Kernel kKernels[] = {Kernel::ordered, Kernel::tiled, Kernel::mma, Kernel::decode};

struct Work {
  Work(Kernel kernel, bench::Sizes sizes, std::int64_t T)
      : table(*cuda_impl::simt_table(kernel)), layer(table, sizes), batch(table, sizes, T, true) {}
  // Processor time of all threads of the process: other programs do not count.
  double seconds() {
    const std::clock_t start = std::clock();
    batch.forward(layer);
    return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  }
  const bench::Table& table;
  bench::Layer layer;
  bench::Batch batch;
};

void forward_pass(benchmark::State& state, bench::Sizes sizes, std::int64_t T) {
  const Kernel kernel = kKernels[state.range(0)];
  Work ordered(Kernel::ordered, sizes, T), mine(kernel, sizes, T);
  state.SetLabel(mine.table.name);
  double best_ordered = ordered.seconds(), best_mine = mine.seconds();
  for (int i = 0; i < 20; ++i) {  // microseconds: std::clock counts whole ones
    best_ordered = std::min(best_ordered, ordered.seconds());
    best_mine = std::min(best_mine, mine.seconds());
  }
  for (auto _ : state) mine.batch.forward(mine.layer);
  state.SetItemsProcessed(state.iterations());
  state.counters["vs_ordered"] = best_mine / best_ordered;
}

void tiny_forward(benchmark::State& state) { forward_pass(state, {8, 5}, 3); }
void small_forward(benchmark::State& state) { forward_pass(state, {256, 128}, 32); }
BENCHMARK(tiny_forward)->DenseRange(0, 3)->Unit(benchmark::kMicrosecond);
BENCHMARK(small_forward)->DenseRange(0, 3)->Unit(benchmark::kMillisecond);

}  // namespace
