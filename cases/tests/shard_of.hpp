// One tensor-parallel shard of the inputs of a case, cut a second time: by the contract's words, element by
// element.
#pragma once
#include "judge/expectation.hpp"

namespace sinktrap {

// Shard p of `tp`: features p*F/tp .. (p+1)*F/tp - 1, element by element from CONTRACT.md section 4.
inline ForwardInputs shard_of(const ForwardInputs& in, std::int64_t p, std::int64_t tp) {
  const auto [n, H, F, R, S] = in.d;
  const std::int64_t f = F / tp;
  ForwardInputs out = in;
  out.d.F = f;
  out.w13 = Tensor(in.type, {n, 2 * f, H});
  out.w2 = Tensor(in.type, {n, H, f});
  Tensor& b = out.pool[SINKTRAP_BUFFER_GATE_UP_LORA_B] = Tensor(in.type, {S, n, 2 * f, R});
  Tensor& a = out.pool[SINKTRAP_BUFFER_DOWN_LORA_A] = Tensor(in.type, {S, n, R, f});
  const bool interleaved = in.w13_layout == SINKTRAP_W13_INTERLEAVED;
  const auto row = [interleaved](int half, std::int64_t j, std::int64_t features) {
    return interleaved ? 2 * j + half : half * features + j;
  };
  for (std::int64_t j = 0; j < f; ++j) {
    const std::int64_t whole = p * f + j;
    for (std::int64_t e = 0; e < n; ++e) {
      for (int half = 0; half < 2; ++half)
        for (std::int64_t h = 0; h < H; ++h)
          out.w13.set((e * 2 * f + row(half, j, f)) * H + h,
                      in.w13.at((e * 2 * F + row(half, whole, F)) * H + h));
      for (std::int64_t h = 0; h < H; ++h) out.w2.set((e * H + h) * f + j, in.w2.at((e * H + h) * F + whole));
      for (std::int64_t s = 0; s < S; ++s)
        for (std::int64_t q = 0; q < R; ++q) {
          const std::int64_t se = s * n + e;
          for (std::int64_t half = 0; half < 2; ++half)
            b.set(((se * 2 + half) * f + j) * R + q,
                  in.pool[SINKTRAP_BUFFER_GATE_UP_LORA_B].at(((se * 2 + half) * F + whole) * R + q));
          a.set((se * R + q) * f + j, in.pool[SINKTRAP_BUFFER_DOWN_LORA_A].at((se * R + q) * F + whole));
        }
    }
  }
  return out;
}

}  // namespace sinktrap
