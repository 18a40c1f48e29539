// Three instructions of PTX that kernels use by name, spelled once for a GPU and for the executor. Include it
// after simt.hpp. Source of shapes and fragment layouts: PTX ISA 8.5, "Data Movement and Conversion
// Instructions: cp.async", "Warp-level Matrix Instructions: ldmatrix, mma.sync.m16n8k16".
//
//   cp_async<BYTES>(shared, global)    4, 8 or 16 bytes, both addresses aligned to them; the bytes may be
//   read
//                                      only after the wait of the thread that copied them, and a barrier for
//                                      the others
//   cp_async_commit()                  closes a group of the copies issued so far by this thread
//   cp_async_wait<N>()                 waits until at most the N youngest groups are pending
//   ldmatrix_x2/x4[_trans](r, row)     2 or 4 matrices of 8x8 16-bit elements. Lane 8 i + k gives the address
//                                      (16 bytes aligned) of row k of matrix i; register i of lane l then
//                                      holds elements 2 (l % 4), 2 (l % 4) + 1 of row l / 4 (trans: column)
//   mma_bf16/mma_f16(d, a, b)          d += a b with a 16x16, b 16x8, d 16x8 in f32. With g = lane / 4 and
//                                      c = 2 (lane % 4):
//                                        a[0] (g, c)  a[1] (g+8, c)  a[2] (g, c+8)  a[3] (g+8, c+8), and c +
//                                        1 b[0] (c, g)  b[1] (c+8, g), and row + 1 d[0] (g, c)  d[1] (g, c+1)
//                                        d[2] (g+8, c)  d[3] (g+8, c+1)
//
// Collective over the whole warp: ldmatrix and mma. What the executor adds: the target of a cp_async holds
// 0xff bytes (NaN) until its wait, and the source is read then, not before; a misaligned address, or a warp
// that is not whole, fails the launch. Not modelled: the order in which tensor cores add and how they round
// (the executor adds in f32, k ascending).
#pragma once

#if defined(__CUDACC__)
#include "cuda_impl/simt/ptx_on_gpu.hpp"
#else
#include "cuda_impl/simt/ptx_on_cpu.hpp"
#endif
