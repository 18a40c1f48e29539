// One header for kernel sources that two compilers build: nvcc for a GPU, the host compiler for the executor
// of this folder, which runs a grid on the CPU with one fiber for each CUDA thread that has to wait.
//
// Spelling that means the same on both sides, all in namespace sinktrap::simt:
//   launch({grid, block, dynamic_shared_bytes}, kernel, arguments...)   true, or false with error()
//   auto& tile = shared<float[64], struct Tile>();      static shared memory; the tag tells variables apart
//   auto* values = dynamic_shared<float>();             dynamic shared memory
//   allocate, release, write, read, copy, fill, synchronise, present     device memory; sizes in bytes
//   begin_capture, end_capture, replay, release_graph                  CUDA graphs. Between the first two,
//   launches, fills and
//                                                       copies of this OS thread are recorded, with the grid
//                                                       and the arguments that they have then, and not run;
//                                                       anything that waits or allocates is refused and
//                                                       spoils the graph. end_capture: the graph, or null
//                                                       with error(). replay runs it in order and returns
//                                                       like a launch.
//   schedule(seed)                                      order of threads and blocks (no effect on a GPU)
//   error()                                             what went wrong in the last call that failed
// Device code uses CUDA's own names: __global__, threadIdx, __syncthreads, __shfl_sync, atomicAdd, ...
//
// The two sides live in different inline namespaces, because objects of both are linked into one program.
#pragma once

#if defined(__CUDACC__)
#include "cuda_impl/simt/on_gpu.hpp"
#else
#include "cuda_impl/simt/on_cpu.hpp"
#endif
