// A verdict at production size: T=16384 H=6144 F=3072 n=2 R=32 S=4, every output element. Prints the
// implementation's own time, the time of the judgement, peak memory, and whether three planted faults are
// caught: one wrong element, one weight with its highest mantissa bit flipped, one token routed to the
// neighbouring slot.
//
// Arguments: LIBRARY [T]. About five minutes on two cores, 7 GiB.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>

#include "cases/random.hpp"
#include "judge/expectation.hpp"
#include "judge/implementation.hpp"
#include "judge/session.hpp"

namespace {

using namespace sinktrap;
using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }
double peak_gib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / (1 << 20);
}

Tensor run(const Implementation& implementation, const ForwardInputs& in, double* seconds = nullptr) {
  Session session(implementation, in);
  must_succeed(implementation, session.bind(in.pool), "bind");
  const auto start = Clock::now();
  auto output = session.forward(in.x, in.gammas, in.token_slot);
  if (seconds != nullptr) *seconds = since(start);
  must_succeed(implementation, output.verdict, "forward");
  return std::move(output.out);
}

// The batch of the distinct rows alone, with the same weights.
ForwardInputs distinct_batch(const ForwardInputs& in, const Distinct& rows) {
  ForwardInputs few = in;
  few.x = rows.x;
  few.gammas = rows.gammas;
  few.token_slot = rows.token_slot;
  return few;
}

// Every position gets the output of its row: what an implementation that works row by row would have given.
Tensor spread(const Tensor& few, const std::vector<std::int32_t>& row_of) {
  Tensor out(few.type(), {static_cast<std::int64_t>(row_of.size()), few.extent(1)});
  const std::size_t bytes = few.bytes().size() / static_cast<std::size_t>(few.extent(0));
  for (std::size_t t = 0; t < row_of.size(); ++t)
    std::copy_n(
        few.bytes().begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(row_of[t]) * bytes), bytes,
        out.bytes().begin() + static_cast<std::ptrdiff_t>(t * bytes));
  return out;
}

void planted(const Implementation& implementation, const ForwardInputs& in, const Expectation& expected,
             const Tensor& right, const sinktrap_declaration& declared) {
  const auto verdict = [&](const char* what, const Tensor& found) {
    const Judgement j = judge_output(in, expected, found, declared);
    fmt::print("  {:<52} {} {}\n", what, status_name(j.status), j.reason);
  };
  Random random(7);
  const std::int64_t H = in.d.H;
  Tensor one = right;
  const std::int64_t i = random.between(0, static_cast<std::int32_t>(in.T() - 1)) * H + 1234;
  one.set(i, one.at(i) + (one.at(i) == 0 ? 1 : one.at(i) / 128));
  verdict("one element one ulp off", one);

  // Observable: a row of w2 meets a feature that is on for some token.
  ForwardInputs flipped = distinct_batch(in, expected.rows);
  for (;;) {
    const std::int64_t e = random.between(0, static_cast<std::int32_t>(in.d.n - 1));
    const std::int64_t h = random.between(0, static_cast<std::int32_t>(H - 1));
    const std::int64_t j = random.between(0, static_cast<std::int32_t>(in.d.F - 1));
    const std::int64_t w = (e * H + h) * in.d.F + j;
    bool on = false;
    for (std::int64_t t = 0; t < flipped.T(); ++t)
      on = on || expected.stages.act[static_cast<std::size_t>((t * in.d.n + e) * in.d.F + j)] != 0;
    if (in.w2.at(w) == 0 || !on) continue;
    flipped.w2.bytes()[static_cast<std::size_t>(2 * w)] ^= std::byte{0x40};  // the highest of 7 mantissa bits
    fmt::print("  w2[{},{},{}] is {} instead of {}\n", e, h, j, flipped.w2.at(w), in.w2.at(w));
    break;
  }
  verdict("one weight with its highest mantissa bit flipped",
          spread(run(implementation, flipped), expected.rows.row_of));

  ForwardInputs routed = distinct_batch(in, expected.rows);
  const std::int64_t t = in.T() - 1;
  std::int64_t victim = t;
  while (in.token_slot.at(victim) < 0) --victim;
  const std::int64_t row = expected.rows.row_of[static_cast<std::size_t>(victim)];
  routed.token_slot.set(
      row, static_cast<double>((static_cast<std::int64_t>(in.token_slot.at(victim)) + 1) % in.d.S));
  const Tensor rows = run(implementation, routed);
  Tensor moved = right;
  for (std::int64_t h = 0; h < H; ++h) moved.set(victim * H + h, rows.at(row * H + h));
  verdict("one token routed to the neighbouring slot", moved);
}

void judge(const Implementation& implementation, std::int64_t T) {
  ForwardCase c;
  c.layer.d = {.n = 2, .H = 6144, .F = 3072, .R = 32, .S = 4};
  c.layer.ranks = {32, 16, 32, 8};
  c.layer.fill = Fill::lattice;
  c.layer.seed = 1;
  Random random(1);
  for (std::int64_t t = 0; t < T; ++t) c.slots.push_back(random.between(-1, 3));
  auto start = Clock::now();
  const ForwardInputs in = make_inputs(c);
  const double made = since(start);
  double own = 0;
  const Tensor out = run(implementation, in, &own);
  start = Clock::now();
  const Expectation expected = expect(in);
  const double computed = since(start);
  const sinktrap_declaration declared = Session(implementation, in).declaration();
  start = Clock::now();
  const Judgement j = judge_output(in, expected, out, declared);
  const double compared = since(start);
  fmt::print("T={}: {} {} ({} elements, {} distinct rows, certified {})\n", T, status_name(j.status),
             j.reason, j.elements, expected.rows.whole ? T : expected.rows.x.extent(0),
             expected.certificate.exact);
  for (const std::string& d : j.details) fmt::print("  {}\n", d);
  fmt::print(
      "  forward {:.1f} s; inputs {:.1f} s; reference {:.1f} s, comparison and power {:.1f} s: {:.3f} of the "
      "forward; peak {:.1f} GiB\n",
      own, made, computed, compared, (computed + compared) / own, peak_gib());
  std::fflush(stdout);
  if (!expected.rows.whole) planted(implementation, in, expected, out, declared);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t T = argc > 2 ? std::atoll(argv[2]) : 16384;
  if (argc < 2 || argc > 3 || T < 1) {
    fmt::print(stderr, "judgement_production: expected LIBRARY [T]\n");
    return 2;
  }
  const auto opened = Implementation::open(argv[1]);
  if (const auto* error = std::get_if<std::string>(&opened)) {
    fmt::print(stderr, "judgement_production: {}\n", *error);
    return 2;
  }
  try {
    judge(*std::get<std::shared_ptr<const Implementation>>(opened), T);
  } catch (const Stop& s) {
    fmt::print("{} {}\n", status_name(s.judgement.status), s.judgement.reason);
    return 1;
  }
  return 0;
}
