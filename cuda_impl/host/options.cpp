#include <charconv>

#include "cuda_impl/host/instance.hpp"

namespace sinktrap::cuda_impl::SINKTRAP_TARGET {

Options parse_options(Kernel kernel, std::string_view text) {
  Options options{fixed_seams(kernel), 0, false, {}};
  bool seen_seams = false, seen_schedule = false, seen_graph = false;
  const auto refuse = [&options](std::string why) {
    options.problem = "options: " + std::move(why);
    return options;
  };
  if (text.empty()) return options;
  while (true) {
    const auto end = text.find('&');
    const std::string_view item = text.substr(0, end);
    const auto equals = item.find('=');
    const std::string key{item.substr(0, equals)};
    const std::string_view value =
        equals == std::string_view::npos ? std::string_view{} : item.substr(equals + 1);
    if (key == "seams" && is_ordered(kernel)) {
      const auto mask = seams_from_text(value);
      if (!mask || seen_seams) return refuse("seams: expected once NAME+NAME, none or all");
      options.seams = *mask;
      seen_seams = true;
    } else if (key == "schedule" && !SINKTRAP_ON_GPU) {
      const auto parsed = std::from_chars(value.data(), value.data() + value.size(), options.schedule);
      if (value.empty() || parsed.ec != std::errc{} || parsed.ptr != value.data() + value.size() ||
          seen_schedule)
        return refuse("schedule: expected once a number from 0 to 2^64 - 1");
      seen_schedule = true;
    } else if (key == "graph") {
      if ((value != "on" && value != "off") || seen_graph) return refuse("graph: expected once on or off");
      options.graphs = value == "on";
      seen_graph = true;
    } else {
      return refuse("unknown key \"" + key + "\"");
    }
    if (end == std::string_view::npos) return options;
    text.remove_prefix(end + 1);
  }
}

}  // namespace sinktrap::cuda_impl::SINKTRAP_TARGET
