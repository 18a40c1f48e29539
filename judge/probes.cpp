#include "judge/probes.hpp"

#include "cases/random.hpp"

namespace sinktrap::probes {
namespace {

void fill(Tensor& t, double value) {
  for (std::int64_t i = 0; i < t.size(); ++i) t.set(i, value);
}

// x has its first coordinate alone, w13 a first column of ones.
void one_coordinate(ForwardInputs& in) {
  zero(in.x);
  zero(in.w13);
  for (std::int64_t row = 0; row < in.w13.size(); row += in.d.H) in.w13.set(row, 1);
  in.independent = false;
}

}  // namespace

void zero(Tensor& t) { t = Tensor(t.type(), t.shape()); }

void all_slots(ForwardInputs& in, std::int32_t slot) { fill(in.token_slot, slot); }

void base_only(ForwardInputs& in) {
  all_slots(in, -1);
  for (Tensor& t : in.pool) zero(t);
}

void equal_gammas(ForwardInputs& in, double value) {
  fill(in.gammas, value);
  in.independent = false;
}

void first_gamma(ForwardInputs& in, double value) {
  zero(in.gammas);
  for (std::int64_t t = 0; t < in.T(); ++t) in.gammas.set(t * in.d.n, value);
  in.independent = false;
}

void half_gammas(ForwardInputs& in) {
  if (in.d.n == 1) return equal_gammas(in, 1);
  zero(in.gammas);
  for (std::int64_t t = 0; t < in.T(); ++t)
    for (const std::int64_t e : {std::int64_t{0}, in.d.n - 1}) in.gammas.set(t * in.d.n + e, 0.5);
  in.independent = false;
}

void even_activations(ForwardInputs& in, double value) {
  one_coordinate(in);
  for (std::int64_t t = 0; t < in.T(); ++t) in.x.set(t * in.d.H, value);
}

void only_expert(ForwardInputs& in, std::int64_t e) {
  const std::int64_t rows = 2 * in.d.F * in.d.H;
  for (std::int64_t i = 0; i < in.w13.size(); ++i)
    if (i / rows != e) in.w13.set(i, 0);
}

void swept_activations(ForwardInputs& in, int round) {
  one_coordinate(in);
  // Steps of 5 in a ring of 97 quarters: neighbouring tokens and rounds lie far apart.
  for (std::int64_t t = 0; t < in.T(); ++t)
    in.x.set(t * in.d.H, static_cast<double>((t * kSweepRounds + round) * 5 % 97) / 4 - 12);
}

void first_feature_out(ForwardInputs& in, Weight weight, Experts experts) {
  zero(in.w2);
  for (std::int64_t e = 0; e < (experts == Experts::all ? in.d.n : 1); ++e)
    for (std::int64_t h = 0; h < in.d.H; ++h)
      in.w2.set((e * in.d.H + h) * in.d.F,
                weight == Weight::one ? 1 : 1.125 + static_cast<double>(h % 7) / 8);
  in.independent = false;
}

void many_bits_in_w2(ForwardInputs& in) {
  Random random(1, 0);
  for (std::int64_t i = 0; i < in.w2.size(); ++i) in.w2.set(i, 0x1p-6 * random.normal());
  in.independent = false;
}

}  // namespace sinktrap::probes
