#include "cuda_impl/simt/grid.hpp"

#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>

#include "cuda_impl/simt/executor.hpp"

namespace sinktrap::simt {
namespace {

// The OS threads that help, made when a launch first wants them; they sleep between launches and live as long
// as the process. A forked child has none of them and makes its own.
class Pool {
 public:
  explicit Pool(pid_t process) : process_(process) {}
  pid_t process() const { return process_; }

  bool offer(Grid& grid) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock() || grid_ != nullptr || inside_ != 0) return false;
    while (made_ + 1 < std::thread::hardware_concurrency()) {
      try {
        std::thread([this] { serve(); }).detach();
      } catch (const std::system_error&) {
        break;  // no thread to be had: the launch goes on with those there are
      }
      ++made_;
    }
    if (made_ == 0) return false;
    grid_ = &grid;
    fault_.clear();
    ++round_;
    wake_.notify_all();
    return true;
  }

  std::string finish() {
    std::unique_lock lock(mutex_);
    grid_ = nullptr;  // who has not come in by now stays out
    left_.wait(lock, [this] { return inside_ == 0; });
    return std::move(fault_);
  }

 private:
  [[noreturn]] void serve() {
    std::uint64_t seen = 0;
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [&] { return grid_ != nullptr && round_ != seen; });
      seen = round_;
      Grid& grid = *grid_;
      ++inside_;
      lock.unlock();
      std::string fault = Executor::of_this_thread().help(grid);
      lock.lock();
      if (fault_.empty()) fault_ = std::move(fault);
      if (--inside_ == 0) left_.notify_all();
    }
  }

  const pid_t process_;
  std::mutex mutex_;
  std::condition_variable wake_, left_;
  Grid* grid_ = nullptr;
  std::uint64_t round_ = 0;
  unsigned made_ = 0, inside_ = 0;
  std::string fault_;
};

// Never destroyed: its threads wait on it until the process ends.
Pool& pool_of_this_process() {
  static std::mutex mutex;
  static Pool* pool = nullptr;
  const std::lock_guard lock(mutex);
  if (pool == nullptr || pool->process() != getpid()) pool = new Pool(getpid());
  return *pool;
}

}  // namespace

void Helpers::join(Grid& grid) { joined_ = pool_of_this_process().offer(grid); }

std::string Helpers::wait() {
  if (!joined_) return {};
  joined_ = false;
  return pool_of_this_process().finish();
}

}  // namespace sinktrap::simt
