#include "reference/parallel.hpp"

#include <algorithm>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

namespace sinktrap::reference {

void in_parallel(std::int64_t count, const std::function<void(std::int64_t, std::int64_t)>& part) {
  const auto processors = static_cast<std::int64_t>(std::max(1u, std::thread::hardware_concurrency()));
  const std::int64_t parts = std::clamp(count, std::int64_t{1}, processors);
  std::vector<std::exception_ptr> failed(static_cast<std::size_t>(parts));
  const auto run = [&](std::int64_t i) noexcept {
    try {
      part(count * i / parts, count * (i + 1) / parts);
    } catch (...) {
      failed[static_cast<std::size_t>(i)] = std::current_exception();
    }
  };
  std::vector<std::thread> threads;
  threads.reserve(static_cast<std::size_t>(parts));
  for (std::int64_t i = 1; i < parts; ++i) try {
      threads.emplace_back(run, i);
    } catch (const std::system_error&) {
      run(i);
    }
  run(0);
  for (std::thread& t : threads) t.join();
  for (const std::exception_ptr& e : failed)
    if (e) std::rethrow_exception(e);
}

}  // namespace sinktrap::reference
