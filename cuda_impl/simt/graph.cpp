#include "cuda_impl/simt/graph.hpp"

#include <cstring>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "cuda_impl/simt/executor.hpp"

namespace sinktrap::simt {
namespace {

struct Launch {
  Config config;
  void (*call)(void*);
  std::shared_ptr<void> closure;
};
struct Copy {
  void* to;
  const void* from;
  std::uint64_t bytes;
};
struct Fill {
  void* device;
  int byte;
  std::uint64_t bytes;
};

}  // namespace

inline namespace cpu {
struct Graph {
  std::vector<std::variant<Launch, Copy, Fill>> nodes;
};
}  // namespace cpu

namespace {

struct Capture {
  std::unique_ptr<Graph> graph;  // null: this OS thread is not capturing
  std::string spoilt;            // what happened first that must not be captured
};
Capture& capture() {
  static thread_local Capture c;
  return c;
}

// A node of a capture that is spoilt already is an error of its own, as in CUDA
// (cudaErrorStreamCaptureInvalidated).
template <class Node>
bool add(Node node) {
  Capture& c = capture();
  if (!c.spoilt.empty()) {
    set_error("the capture is spoilt: " + c.spoilt);
    return false;
  }
  c.graph->nodes.emplace_back(std::move(node));
  return true;
}

}  // namespace

bool refused_in_capture(const char* operation) {
  Capture& c = capture();
  if (!c.graph) return false;
  const std::string text = std::string(operation) + ": not allowed while a graph is captured";
  if (c.spoilt.empty()) c.spoilt = text;
  set_error(text);
  return true;
}

bool record_copy(void* to, const void* from, std::uint64_t bytes) {
  return detail::capturing() && add(Copy{to, from, bytes});
}
bool record_fill(void* device, int byte, std::uint64_t bytes) {
  return detail::capturing() && add(Fill{device, byte, bytes});
}

inline namespace cpu {
namespace detail {
bool capturing() { return capture().graph != nullptr; }
bool record(const Config& config, void (*call)(void*), std::shared_ptr<void> closure) {
  // A grid that no launch would take is refused when it is captured, as CUDA does.
  if (std::string text = Executor::of_this_thread().refusal(config); !text.empty()) {
    text = "launch: " + text;
    if (capture().spoilt.empty()) capture().spoilt = text;
    set_error(text);
    return false;
  }
  return add(Launch{config, call, std::move(closure)});
}
}  // namespace detail

bool begin_capture() {
  Capture& c = capture();
  if (c.graph) {
    set_error("begin_capture: this thread is capturing already");
    return false;
  }
  c.graph = std::make_unique<Graph>();
  c.spoilt.clear();
  return true;
}

Graph* end_capture() {
  Capture& c = capture();
  if (!c.graph) {
    set_error("end_capture: this thread is not capturing");
    return nullptr;
  }
  const auto graph = std::move(c.graph);
  if (c.spoilt.empty()) return new Graph(std::move(*graph));
  set_error("end_capture: " + c.spoilt);
  return nullptr;
}

bool replay(Graph* graph) {
  if (refused_in_capture("replay")) return false;
  for (const auto& node : graph->nodes) {
    if (const auto* launch = std::get_if<Launch>(&node)) {
      if (!detail::run(launch->config, launch->call, launch->closure.get())) return false;
    } else if (const auto* moved = std::get_if<Copy>(&node)) {
      copy(moved->to, moved->from, moved->bytes);
    } else {
      const Fill& filled = std::get<Fill>(node);
      fill(filled.device, filled.byte, filled.bytes);
    }
  }
  return true;
}

bool release_graph(Graph* graph) {
  delete graph;
  return true;
}
}  // namespace cpu

}  // namespace sinktrap::simt
