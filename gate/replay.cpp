// `replay`: the reference and an implementation against the expected values in files.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <stdexcept>

#include "gate/commands.hpp"
#include "gate/terminal.hpp"
#include "gate/vectors.hpp"
#include "judge/compare.hpp"
#include "judge/expectation.hpp"
#include "judge/worker.hpp"
#include "properties/model.hpp"

namespace sinktrap {
namespace {

// Two f64 evaluations of the same sums differ by their orders: 1e-12 of the magnitude sum leaves room for
// sums of some thousand terms (gamma_k = k 2^-53) through three stages.
constexpr double kF64Agreement = 1e-12;

// Sum of the magnitudes that `out` is made of: |w2||act| and |down B||down A||act|.
std::vector<double> magnitude_sums(const ForwardInputs& in, const reference::Stages& s) {
  const auto& d = in.d;
  const std::int64_t outer = in.outer();
  std::vector<double> sums(s.out.size(), 0.0);
  const Tensor& down_a = in.pool[SINKTRAP_BUFFER_DOWN_LORA_A];
  const Tensor& down_b = in.pool[SINKTRAP_BUFFER_DOWN_LORA_B];
  for (std::int64_t t = 0; t < in.T(); ++t) {
    const double* act = s.act.data() + t * d.n * d.F;
    const auto slot = static_cast<std::int64_t>(in.token_slot.at(t));
    std::vector<double> bridge(static_cast<std::size_t>(outer * d.R), 0.0);
    for (std::int64_t e = 0; slot >= 0 && e < d.n; ++e)
      for (std::int64_t q = 0; q < d.R; ++q)
        for (std::int64_t j = 0; j < d.F; ++j)
          bridge[static_cast<std::size_t>((outer == 1 ? 0 : e) * d.R + q)] +=
              std::fabs(down_a.at(((slot * d.n + e) * d.R + q) * d.F + j) * act[e * d.F + j]);
    for (std::int64_t h = 0; h < d.H; ++h) {
      double& sum = sums[static_cast<std::size_t>(t * d.H + h)];
      for (std::int64_t e = 0; e < d.n; ++e)
        for (std::int64_t j = 0; j < d.F; ++j)
          sum += std::fabs(in.w2.at((e * d.H + h) * d.F + j) * act[e * d.F + j]);
      for (std::int64_t o = 0; slot >= 0 && o < outer; ++o)
        for (std::int64_t q = 0; q < d.R; ++q)
          sum += std::fabs(down_b.at(((slot * outer + o) * d.H + h) * d.R + q)) *
                 bridge[static_cast<std::size_t>(o * d.R + q)];
    }
  }
  return sums;
}

// The reference itself against the file: exact on lattice files, else within 1e-12 of the magnitude sums.
Judgement judge_reference(const ForwardVector& v) {
  const Expectation e = expect(v.inputs);
  Tensor out(Element::f64, {v.inputs.T(), v.inputs.d.H});
  for (std::size_t i = 0; i < e.stages.out.size(); ++i)
    out.set(static_cast<std::int64_t>(i), e.stages.out[i]);
  if (v.lattice) {
    if (!e.certificate.exact) stop(Status::failed, "a lattice file is not certified: " + e.certificate.why);
    return compare_exact(v.expected_out, out, "out of the f64 reference");
  }
  std::vector<double> allowed = magnitude_sums(v.inputs, e.stages);
  for (double& a : allowed) a *= kF64Agreement;
  return compare_bounded(v.expected_out, allowed, out, "out of the f64 reference");
}

Judgement judge_forward(const ForwardVector& v, const Implementation& implementation) {
  Judgement j = judge_reference(v);
  if (j.status != Status::passed) return j;
  Session session(implementation, v.inputs);
  must_succeed(implementation, session.bind(v.inputs.pool), "bind");
  const auto output = session.forward(v.inputs.x, v.inputs.gammas, v.inputs.token_slot);
  must_succeed(implementation, output.verdict, "forward");
  if (v.lattice) return compare_exact(v.expected_out, output.out, "out");
  const sinktrap_declaration declared = session.declaration();
  const reference::Problem problem = problem_of(v.inputs);
  const auto bound = reference::worst_case_bound(
      problem, reference::forward_f64(problem), declared.seams_declared ? declared.seams : SINKTRAP_ALL_SEAMS,
      declared.silu_class);
  return compare_bounded(v.expected_out, bound.error, output.out, "out");
}

ForwardInputs layer_of(const PackVector& v, std::int64_t F) {
  ForwardInputs in;
  in.d = v.d;
  in.d.F = F;
  in.type = v.adapter.down_b.type();
  in.w13 = Tensor(in.type, {v.d.n, 2 * F, v.d.H});
  in.w2 = Tensor(in.type, {v.d.n, v.d.H, F});
  in.x = Tensor(in.type, {0, v.d.H});
  in.gammas = Tensor(in.type, {0, v.d.n});
  in.token_slot = Tensor(Element::i32, {0});
  return in;
}

void require_same(const Tensor& expected, const Tensor& found, const std::string& what, Judgement& total) {
  const Judgement j = compare_bits(expected, found, what);
  if (j.status != Status::passed) stop(j.status, j.reason, j.details);
  total.elements += j.elements;
}

Judgement judge_pack(const PackVector& v, const Implementation& implementation) {
  if (!implementation.can(SINKTRAP_CAN_LOAD))
    stop(Status::skipped, implementation.name() + " has no capability load");
  Judgement total;
  const auto load = [&](std::int64_t p, std::int64_t P, const Pool& expected, bool whole) {
    const ForwardInputs in = layer_of(v, v.d.F / P);
    Session session(implementation, in);
    Pool empty;
    for (std::size_t b = 0; b < empty.size(); ++b) empty[b] = Tensor(in.type, expected[b].shape());
    must_succeed(implementation, session.bind(empty), "bind");
    AdapterFactors adapter = v.adapter;
    adapter.tp_rank = p;
    adapter.tp_size = P;
    must_succeed(implementation, session.load(0, adapter), "load");
    const Pool found = session.read_pool();
    for (std::size_t b = 0; b < found.size(); ++b)
      require_same(expected[b], found[b],
                   fmt::format("{} of rank {} of {}", buffer_name(static_cast<int>(b)), p, P), total);
    if (!whole || !implementation.can(SINKTRAP_CAN_UPDATE | SINKTRAP_CAN_DERIVED)) return;
    must_succeed(implementation, session.update(std::nullopt), "update");
    for (const auto& [name, operand] : v.derived) {
      const auto d = session.derived(name.c_str(), operand.shape());
      if (d.verdict.code == SINKTRAP_UNSUPPORTED) continue;
      must_succeed(implementation, d.verdict, name);
      require_same(operand, d.operand, name, total);
    }
  };
  load(0, 1, v.pool, true);
  for (std::int64_t p = 0; p < v.tp; ++p) load(p, v.tp, v.shards[static_cast<std::size_t>(p)], false);
  if (!implementation.can(SINKTRAP_CAN_SHARD)) return total;
  for (std::int64_t p = 0; p < v.tp; ++p) {
    const auto cut = shard(implementation, v.pool, p, v.tp);
    must_succeed(implementation, cut.verdict, "shard");
    for (std::size_t b = 0; b < cut.shard.size(); ++b)
      require_same(v.shards[static_cast<std::size_t>(p)][b], cut.shard[b],
                   fmt::format("{} of shard {} of {}", buffer_name(static_cast<int>(b)), p, v.tp), total);
  }
  return total;
}

}  // namespace

int replay_command(const ReplayArguments& a) {
  if (a.files.empty()) return bad_input("replay: expected FILE.safetensors...");
  std::vector<AnyVector> vectors;
  for (const std::string& path : a.files) {
    auto file = read_safetensors(path);
    if (const auto* error = std::get_if<SafetensorsError>(&file)) return bad_input(*error);
    vectors.push_back(read_vector(std::get<SafetensorsFile>(file)));
    if (const auto* error = std::get_if<std::string>(&vectors.back())) return bad_input(path + ": " + *error);
  }
  std::vector<std::string> names = a.implementations;
  if (names.empty()) names = {"reference", default_implementation()};
  std::vector<std::shared_ptr<const Implementation>> implementations;
  for (const std::string& name : names) {
    auto opened = Implementation::open(name);
    if (const auto* error = std::get_if<std::string>(&opened)) return bad_input(*error);
    implementations.push_back(std::get<std::shared_ptr<const Implementation>>(opened));
  }
  const auto judge = [&](const Task& t) -> Judgement {
    const AnyVector& v = vectors[t.law];
    try {
      if (const auto* forward = std::get_if<ForwardVector>(&v))
        return judge_forward(*forward, *implementations[t.implementation]);
      return judge_pack(std::get<PackVector>(v), *implementations[t.implementation]);
    } catch (const Stop& s) {
      return s.judgement;
    }
  };
  try {
    Workers workers(judge, {1, 60, ""});
    bool bad = false;
    for (std::uint32_t f = 0; f < vectors.size(); ++f)
      for (std::uint32_t i = 0; i < implementations.size(); ++i) {
        const Judgement j = workers.run_one({i, f, a.files[f]});
        const std::string extra = j.reason.empty() ? fmt::format("{} elements", j.elements) : j.reason;
        const std::string use = j.bound_use > 0 ? fmt::format(", bound used {:.3f}", j.bound_use) : "";
        fmt::print("{} {} {}: {}{}\n", paint(j.status, std::string(status_name(j.status))),
                   std::filesystem::path(a.files[f]).filename().string(), names[i], extra, use);
        for (const std::string& d : j.details) fmt::print("    {}\n", d);
        bad = bad || is_bad(j.status);
      }
    return bad ? 1 : 0;
  } catch (const std::runtime_error& e) {
    return bad_input(e.what());
  }
}

}  // namespace sinktrap
