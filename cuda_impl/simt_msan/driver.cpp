// The kernels under MemorySanitizer:
//
//   sinktrap_msan                   every case; exit code 0 and a count, or MemorySanitizer's report
//   sinktrap_msan defect NAME       a planted read of unwritten memory: has to end with a report
//   sinktrap_msan twin NAME         the same kernel without it
//
// Uses stdio alone: libraries that are not compiled with MemorySanitizer (libstdc++'s streams, fmt) write
// memory behind its back.
#include <cstdio>
#include <cstring>

#include "cuda_impl/simt_msan/cases.hpp"
#include "cuda_impl/simt_msan/defects.hpp"

namespace {

using namespace sinktrap::cuda_impl;
using namespace sinktrap::cuda_impl::on_simt;

// n, H, F, R, S: around vectors of 8, steps of 32 and tiles of 64; R 0 is a layer without a pool.
constexpr std::int64_t kShapes[][5] = {
    {1, 2, 1, 1, 2}, {3, 7, 5, 2, 3}, {2, 40, 33, 9, 4}, {2, 24, 70, 16, 3}, {2, 9, 6, 0, 2}};
constexpr std::int64_t kTokens[] = {1, 9, 35};

int run_all() {
  int cases = 0;
  for (Kernel kernel : {Kernel::ordered, Kernel::tiled, Kernel::mma, Kernel::decode})
    for (Type type : {Type::bf16, Type::f16, Type::f32})
      for (const auto& s : kShapes)
        for (std::int64_t T : kTokens)
          for (int variant = 0; variant < 4; ++variant) {
            if (type == Type::f32 && kernel != Kernel::ordered) continue;
            if (kernel == Kernel::decode && T > kDecodeTokens) continue;  // a launch of it has no more
            const bool per_expert = variant % 2 != 0, contiguous = variant / 2 != 0;
            const MsanCase c{
                kernel,       type, per_expert, contiguous,
                variant == 3, T,    s[0],       s[1],
                s[2],         s[3], s[4],       static_cast<std::uint64_t>(variant == 0 ? 0 : 16 + variant)};
            if (!run_forward_case(c)) {
              std::printf("kernel %d T %lld: %s\n", static_cast<int>(kernel), static_cast<long long>(T),
                          device_error());
              return 1;
            }
            ++cases;
          }
  if (!run_pool_kernels()) {
    std::printf("the kernels on pools: %s\n", device_error());
    return 1;
  }
  std::printf("%d forward cases and the kernels on pools read nothing that is uninitialised\n", cases);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 1) return run_all();
  const bool defect = std::strcmp(argv[1], "defect") == 0;
  if (argc == 3 && (defect || std::strcmp(argv[1], "twin") == 0)) {
    if (std::strcmp(argv[2], "unwritten_shared") == 0)
      return sinktrap::simt::unwritten_shared(defect) ? 0 : 1;
    if (std::strcmp(argv[2], "unwritten_device") == 0)
      return sinktrap::simt::unwritten_device(defect) ? 0 : 1;
  }
  std::fprintf(stderr,
               "sinktrap_msan: expected nothing, or defect|twin and unwritten_shared|unwritten_device\n");
  return 2;
}
