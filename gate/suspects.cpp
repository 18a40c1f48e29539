#include "gate/suspects.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "cases/fill.hpp"
#include "judge/expectation.hpp"
#include "reference/forward_steps.hpp"

namespace sinktrap {
namespace {

using reference::Stages;
using Extents = std::vector<std::int64_t>;

// Elements in their logical order; `stride` leads to where they are.
struct View {
  Extents extents, strides;
};
View row_major(Extents extents) {
  View v{extents, Extents(extents.size(), 1)};
  for (std::size_t i = extents.size() - 1; i > 0; --i) v.strides[i - 1] = v.strides[i] * extents[i];
  return v;
}

// The entry of an axis (or of two neighbouring axes taken as one) that is read in place of entry i of N, -1
// for none, and its factor.
struct Read {
  std::int64_t from;
  double factor = 1;
};
struct AxisFault {
  const char* what;  // {}: the axis
  Read (*read)(std::int64_t i, std::int64_t N);
};
template <int k>
Read without_tail(std::int64_t i, std::int64_t N) {
  return {N > k && i >= N - N % k ? -1 : i};
}
template <int k>
Read first_ones(std::int64_t i, std::int64_t) {
  return {i < k ? i : -1};
}
constexpr AxisFault kAxisFaults[] = {
    {"{}s in reverse order", [](std::int64_t i, std::int64_t N) { return Read{N - 1 - i}; }},
    {"the next {} in place of each, cyclically",
     [](std::int64_t i, std::int64_t N) { return Read{(i + 1) % N}; }},
    {"the {} before in place of each, cyclically",
     [](std::int64_t i, std::int64_t N) { return Read{(i + N - 1) % N}; }},
    {"the next {}, none for the last",
     [](std::int64_t i, std::int64_t N) { return Read{i + 1 < N ? i + 1 : -1}; }},
    {"the {} before, none for the first", [](std::int64_t i, std::int64_t) { return Read{i - 1}; }},
    {"the first {} for all", [](std::int64_t, std::int64_t) { return Read{0}; }},
    {"the last {} for all", [](std::int64_t, std::int64_t N) { return Read{N - 1}; }},
    {"the last {} is missing", [](std::int64_t i, std::int64_t N) { return Read{i + 1 < N ? i : -1}; }},
    {"the first {} is missing", [](std::int64_t i, std::int64_t) { return Read{i > 0 ? i : -1}; }},
    {"the last {} counts twice",
     [](std::int64_t i, std::int64_t N) {
       return Read{i, i + 1 < N ? 1.0 : 2.0};
     }},
    {"the first {} counts twice",
     [](std::int64_t i, std::int64_t) {
       return Read{i, i > 0 ? 1.0 : 2.0};
     }},
    {"every {} behind the last whole 4 is missing", without_tail<4>},
    {"every {} behind the last whole 8 is missing", without_tail<8>},
    {"every {} behind the last whole 16 is missing", without_tail<16>},
    {"every {} behind the last whole 32 is missing", without_tail<32>},
    {"every {} beyond the second is missing", first_ones<2>},
    {"every {} beyond the eighth is missing", first_ones<8>},
    {"every {} beyond the sixteenth is missing", first_ones<16>},
};
struct ScaleFault {
  const char* what;
  double factor;
};
constexpr ScaleFault kScales[] = {{"missing", 0},       {"doubled", 2},       {"halved", 0.5},
                                  {"times 1.25", 1.25}, {"times 1.05", 1.05}, {"with the other sign", -1}};

// values[logical index] = factor * old[where the function says].
template <class From>
void reread(std::vector<double>& values, const View& v, From&& from) {
  const std::vector<double> old = values;
  Extents index(v.extents.size(), 0);
  for (std::size_t k = 0; k < old.size(); ++k) {
    std::int64_t to = 0, source = 0;
    for (std::size_t a = 0; a < index.size(); ++a) to += index[a] * v.strides[a];
    Extents other = index;
    const double factor = from(other);
    for (std::size_t a = 0; a < index.size(); ++a) source += other[a] * v.strides[a];
    values[static_cast<std::size_t>(to)] = factor == 0 ? 0 : factor * old[static_cast<std::size_t>(source)];
    for (std::size_t a = index.size(); a-- > 0 && ++index[a] == v.extents[a];) index[a] = 0;
  }
}

// A change of the values behind a view: what every place can suffer.
struct Change {
  std::string what;
  std::function<void(std::vector<double>&, const View&)> apply;
};

std::vector<Change> changes(const std::vector<const char*>& axes) {
  std::vector<Change> list;
  for (std::size_t a = 0; a < axes.size(); ++a)
    for (const AxisFault& f : kAxisFaults)
      list.push_back(
          {fmt::format(fmt::runtime(f.what), axes[a]), [a, read = f.read](auto& values, const View& v) {
             reread(values, v, [&](Extents& index) {
               const Read r = read(index[a], v.extents[a]);
               index[a] = std::max<std::int64_t>(r.from, 0);
               return r.from < 0 ? 0.0 : r.factor;
             });
           }});
  for (std::size_t a = 0; a + 1 < axes.size(); ++a) {
    list.push_back({fmt::format("({0}, {1}) is read as ({1}, {0})", axes[a], axes[a + 1]),
                    [a](auto& values, const View& v) {
                      reread(values, v, [&](Extents& index) {
                        const std::int64_t flat = index[a + 1] * v.extents[a] + index[a];
                        index[a] = flat / v.extents[a + 1];
                        index[a + 1] = flat % v.extents[a + 1];
                        return 1.0;
                      });
                    }});
    for (const int more : {1, -1})
      list.push_back({fmt::format("the stride of {} is one too {}", axes[a], more > 0 ? "long" : "short"),
                      [a, more](auto& values, const View& v) {
                        reread(values, v, [&](Extents& index) {
                          const std::int64_t size = v.extents[a] * v.extents[a + 1];
                          const std::int64_t flat =
                              (index[a] * (v.extents[a + 1] + more) + index[a + 1]) % size;
                          index[a] = flat / v.extents[a + 1];
                          index[a + 1] = flat % v.extents[a + 1];
                          return 1.0;
                        });
                      }});
  }
  for (const ScaleFault& s : kScales)
    list.push_back({s.what, [factor = s.factor](auto& values, const View&) {
                      for (double& x : values) x *= factor;
                    }});
  return list;
}

View view_of(const ForwardInputs& in, Role role) {
  const auto [n, H, F, R, S] = in.d;
  switch (role) {
    case Role::gate_up_lora_a:
      return row_major({S, in.outer(), 2, R, H});
    case Role::gate_up_lora_b:
      return row_major({S, n, 2, F, R});
    case Role::down_lora_a:
      return row_major({S, n, R, F});
    case Role::down_lora_b:
      return row_major({S, in.outer(), H, R});
    case Role::w13:
      if (in.w13_layout == SINKTRAP_W13_INTERLEAVED) return {{n, 2, F, H}, {2 * F * H, H, 2 * H, 1}};
      return row_major({n, 2, F, H});
    case Role::w2:
      return row_major({n, H, F});
    case Role::x:
      return row_major({in.T(), H});
    case Role::gammas:
      return row_major({in.T(), n});
  }
  return {};
}

void add_inputs(std::vector<Primitive>& list) {
  static const std::array<std::vector<const char*>, kRoles> axes = {{
      {"slot", "outer expert", "half", "rank row", "hidden column"},
      {"slot", "expert", "half", "feature row", "rank column"},
      {"slot", "expert", "rank row", "feature column"},
      {"slot", "outer expert", "hidden row", "rank column"},
      {"expert", "half", "feature row", "hidden column"},
      {"expert", "hidden row", "feature column"},
      {"token", "hidden column"},
      {"token", "expert"},
  }};
  for (int r = 0; r < kRoles; ++r) {
    const Role role = static_cast<Role>(r);
    for (const Change& c : changes(axes[static_cast<std::size_t>(r)]))
      list.push_back({fmt::format("{}: {}", kRoleNames[r], c.what),
                      Place::inputs,
                      [role, apply = c.apply](ForwardInputs& in) {
                        Tensor& t = tensor_of(in, role);
                        std::vector<double> values = t.values();
                        apply(values, view_of(in, role));
                        for (std::size_t i = 0; i < values.size(); ++i)
                          t.set(static_cast<std::int64_t>(i), values[i]);
                      },
                      {}});
  }
}

void add_stages(std::vector<Primitive>& list) {
  struct Row {
    const char* name;
    Place place;
    std::vector<double> Stages::*values;
    std::vector<const char*> axes;
    Extents (*extents)(const ForwardInputs&);
  };
  static const std::vector<Row> rows = {
      {"base_y",
       Place::base_and_bridge,
       &Stages::base_y,
       {"token", "expert", "half", "feature"},
       [](const ForwardInputs& in) {
         return Extents{in.T(), in.d.n, 2, in.d.F};
       }},
      {"gate_up_bridge",
       Place::base_and_bridge,
       &Stages::bridge,
       {"token", "outer expert", "half", "rank row"},
       [](const ForwardInputs& in) {
         return Extents{in.T(), in.outer(), 2, in.d.R};
       }},
      {"gate_up_delta",
       Place::delta,
       &Stages::delta,
       {"token", "expert", "half", "feature"},
       [](const ForwardInputs& in) {
         return Extents{in.T(), in.d.n, 2, in.d.F};
       }},
      {"act",
       Place::activation,
       &Stages::act,
       {"token", "expert", "feature"},
       [](const ForwardInputs& in) {
         return Extents{in.T(), in.d.n, in.d.F};
       }},
      {"act of the adapter",
       Place::expert_out,
       &Stages::act,
       {"token", "expert", "feature"},
       [](const ForwardInputs& in) {
         return Extents{in.T(), in.d.n, in.d.F};
       }},
      {"expert_out",
       Place::expert_out,
       &Stages::expert_out,
       {"token", "expert", "hidden column"},
       [](const ForwardInputs& in) {
         return Extents{in.T(), in.d.n, in.d.H};
       }},
      {"down_bridge",
       Place::down_bridge,
       &Stages::down_bridge,
       {"token", "outer expert", "rank row"},
       [](const ForwardInputs& in) {
         return Extents{in.T(), in.outer(), in.d.R};
       }},
      {"down_delta",
       Place::down_delta,
       &Stages::down_delta,
       {"token", "outer expert", "hidden column"},
       [](const ForwardInputs& in) {
         return Extents{in.T(), in.outer(), in.d.H};
       }},
      {"out",
       Place::out,
       &Stages::out,
       {"token", "hidden column"},
       [](const ForwardInputs& in) {
         return Extents{in.T(), in.d.H};
       }},
  };
  for (const Row& row : rows)
    for (const Change& c : changes(row.axes)) {
      const auto edit = [&row, apply = c.apply](const ForwardInputs& in, Stages& s) {
        apply(s.*row.values, row_major(row.extents(in)));
      };
      list.push_back({fmt::format("{}: {}", row.name, c.what), row.place, {}, edit});
      if (row.values == &Stages::delta)  // the sum of base_y and delta
        list.push_back({fmt::format("y: {}", c.what),
                        row.place,
                        {},
                        [edit, apply = c.apply, &row](const ForwardInputs& in, Stages& s) {
                          edit(in, s);
                          apply(s.base_y, row_major(row.extents(in)));
                        }});
    }
}

}  // namespace

const std::vector<Primitive>& primitives() {
  static const std::vector<Primitive> all = [] {
    std::vector<Primitive> list;
    add_inputs(list);
    add_routing_primitives(list);
    add_stages(list);
    add_activation_primitives(list);
    return list;
  }();
  return all;
}

Tensor output_with(const ForwardInputs& original, std::span<const int> chosen) {
  ForwardInputs in = original;
  for (const int k : chosen)
    if (const Primitive& p = primitives()[static_cast<std::size_t>(k)]; p.place == Place::inputs) p.edit(in);
  const reference::Problem problem = problem_of(in);
  const reference::ForwardSteps steps(problem);
  Stages s = steps.zero_stages();
  const auto interfere = [&](Place place) {
    for (const int k : chosen)
      if (const Primitive& p = primitives()[static_cast<std::size_t>(k)]; p.place == place)
        p.edit_stage(in, s);
  };
  steps.base_y(s);
  steps.bridge(s);
  interfere(Place::base_and_bridge);
  steps.delta(s);
  interfere(Place::delta);
  steps.activation(s);
  interfere(Place::activation);
  steps.expert_out(s);
  interfere(Place::expert_out);
  steps.down_bridge(s);
  interfere(Place::down_bridge);
  steps.down_delta(s);
  interfere(Place::down_delta);
  steps.out(s);
  interfere(Place::out);
  return rounded_output(in, s.out);
}

}  // namespace sinktrap
