#include "cuda_impl/tile_mma.cuh"
#include "cuda_impl/tiles.cuh"

namespace sinktrap::cuda_impl::SINKTRAP_TARGET {

bool run_mma(const ForwardView& view) {
  switch (view.type) {
    case Type::bf16:
      return run_tiles<Bf16, MmaTile<Bf16>>(view);
    case Type::f16:
      return run_tiles<F16, MmaTile<F16>>(view);
    case Type::f32:
      return false;  // create refuses it
  }
  return false;
}

}  // namespace sinktrap::cuda_impl::SINKTRAP_TARGET
