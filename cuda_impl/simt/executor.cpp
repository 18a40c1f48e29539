#include "cuda_impl/simt/executor.hpp"

#include <exception>
#include <numeric>

namespace sinktrap::simt {
inline namespace cpu {
constinit thread_local uint3 threadIdx{0, 0, 0};
constinit thread_local uint3 blockIdx{0, 0, 0};
constinit thread_local dim3 blockDim{};
constinit thread_local dim3 gridDim{};

void schedule(std::uint64_t seed) { Executor::of_this_thread().schedule = seed; }

namespace detail {
bool run(const Config& config, void (*call)(void*), void* closure) {
  return Executor::of_this_thread().run(config, call, closure);
}
void* shared_variable(const void* key, std::size_t bytes, std::size_t alignment) {
  return Executor::of_this_thread().shared_variable(key, bytes, alignment);
}
void* dynamic_shared_memory() {
  static const char key = 0;
  Executor& executor = Executor::of_this_thread();
  // The alignment that the GPU side declares.
  return executor.shared_variable(&key, executor.config().dynamic_shared, 1024);
}
void block_barrier(Site site) { Executor::of_this_thread().barrier(site); }
std::uint64_t warp_collective(WarpOperation operation, std::uint32_t mask, std::uint64_t value,
                              unsigned source, Site site) {
  return Executor::of_this_thread().collective(operation, mask, value, source, site);
}
unsigned lane() { return Executor::of_this_thread().lane(); }
void atomic_point() { Executor::of_this_thread().atomic_point(); }
}  // namespace detail
}  // namespace cpu

Executor& Executor::of_this_thread() {
  static thread_local Executor executor;
  return executor;
}

std::string Executor::refusal(const Config& c) const {
  if (current_ != nullptr) return "launch from inside a kernel";
  // Products of 64-bit values: three 32-bit extents can leave 64 bits, so they are looked at one by one
  // first.
  if (c.block.x > kMaxBlockThreads || c.block.y > kMaxBlockThreads || c.block.z > kMaxBlockThreads)
    return "invalid configuration: more than 1024 threads in a block";
  const unsigned threads = c.block.x * c.block.y * c.block.z;  // at most 2^30
  if (threads == 0 || threads > kMaxBlockThreads)
    return "invalid configuration: a block needs 1 to 1024 threads";
  // CUDA's limits for a grid (Programming Guide, "Compute Capabilities").
  if (c.grid.x == 0 || c.grid.y == 0 || c.grid.z == 0 || c.grid.x > 0x7fffffffu || c.grid.y > 65535 ||
      c.grid.z > 65535)
    return "invalid configuration: grid outside 1..2^31-1 x 1..65535 x 1..65535";
  if (c.dynamic_shared > kMaxSharedBytes) return "invalid configuration: too much dynamic shared memory";
  return {};
}

unsigned Executor::random(std::size_t below) {
  // xorshift64* (Vigna 2016); the high half scaled to the range.
  random_state_ ^= random_state_ >> 12;
  random_state_ ^= random_state_ << 25;
  random_state_ ^= random_state_ >> 27;
  const std::uint64_t high = (random_state_ * 0x2545f4914f6cdd1dull) >> 32;
  return static_cast<unsigned>(high * below >> 32);
}

void Executor::prepare(const Config& c) {
  config_ = &c;
  blockDim = c.block;
  gridDim = c.grid;
  block_threads_ = c.block.x * c.block.y * c.block.z;
  total_blocks_ = std::uint64_t{c.grid.x} * c.grid.y * c.grid.z;
  next_block_ = 0;
  fault_.clear();
  idle_atomics_ = 0;
  // The same seed gives the same order in every launch; odd, since xorshift must not start at 0.
  random_state_ = schedule * 0x9e3779b97f4a7c15ull | 1;
  block_step_ = 1;
  block_offset_ = 0;
  if (schedule != 0) {
    for (int i = 0; i < 8; ++i) random(2);  // small seeds differ in few bits at first
    // i -> (step * i + offset) mod total is a permutation when step and total have no common factor.
    const std::size_t range = total_blocks_ < 0xffffffffu ? total_blocks_ : 0xffffffffu;
    block_offset_ = random(range);
    do {
      block_step_ = 1 + random(range);
    } while (std::gcd(block_step_, total_blocks_) != 1);
  }
  const std::size_t wanted = schedule != 0 ? kResidentBlocks : 1;
  while (blocks_.size() < wanted) blocks_.push_back(std::make_unique<Block>());
  resident_.clear();
  free_.clear();
  resident_.reserve(wanted);
  free_.reserve(wanted);
  for (std::size_t b = 0; b < wanted; ++b) {
    Block& block = *blocks_[b];
    free_.push_back(&block);
    const auto same = [](const dim3& a, const dim3& b) { return a.x == b.x && a.y == b.y && a.z == b.z; };
    if (same(block.shape, c.block)) continue;
    // Nothing grows while a fiber runs: an exception must not leave one.
    block.ready.reserve(2 * std::size_t{block_threads_} + 1);
    block.unstarted.reserve(block_threads_);
    block.threads.assign(block_threads_, Thread{});
    for (unsigned i = 0; i < block_threads_; ++i) {
      Thread& t = block.threads[i];
      t.linear = i;
      t.index = {i % c.block.x, i / c.block.x % c.block.y, i / c.block.x / c.block.y};
      t.block = &block;
    }
    block.shape = c.block;
  }
}

void Executor::start_block() {
  Block& b = *free_.back();
  free_.pop_back();
  const std::uint64_t i = static_cast<std::uint64_t>(
      (static_cast<unsigned __int128>(block_step_) * next_block_ + block_offset_) % total_blocks_);
  ++next_block_;
  const dim3& grid = config_->grid;
  b.index = {static_cast<unsigned>(i % grid.x), static_cast<unsigned>(i / grid.x % grid.y),
             static_cast<unsigned>(i / grid.x / grid.y)};
  b.live = block_threads_;
  b.at_barrier = b.at_warp = b.started = 0;
  b.ready.clear();
  b.ready_head = 0;
  b.shared.reset();
  for (Thread& t : b.threads) t.state = State::runnable;
  if (schedule != 0) {
    b.unstarted.resize(block_threads_);
    std::iota(b.unstarted.begin(), b.unstarted.end(), 0u);
  }
  resident_.push_back(&b);
}

Thread* Executor::take(Block& b) {
  if (schedule == 0) {
    if (b.started < block_threads_) return &b.threads[b.started++];
    if (b.ready_head < b.ready.size()) {
      Thread* t = b.ready[b.ready_head++];
      if (b.ready_head >= block_threads_) {  // keeps the queue below the capacity that prepare reserved
        b.ready.erase(b.ready.begin(), b.ready.begin() + static_cast<std::ptrdiff_t>(b.ready_head));
        b.ready_head = 0;
      }
      return t;
    }
    return nullptr;
  }
  const std::size_t choices = b.unstarted.size() + b.ready.size();
  if (choices == 0) return nullptr;
  std::size_t i = random(choices);
  if (i < b.unstarted.size()) {
    Thread* t = &b.threads[b.unstarted[i]];
    b.unstarted[i] = b.unstarted.back();
    b.unstarted.pop_back();
    return t;
  }
  i -= b.unstarted.size();
  Thread* t = b.ready[i];
  b.ready[i] = b.ready.back();
  b.ready.pop_back();
  return t;
}

inline Thread* Executor::pick() {
  if (schedule == 0 && !resident_.empty() && resident_.front()->started < block_threads_) {
    Block& b = *resident_.front();  // what nearly every thread of a kernel without barriers comes to
    return &b.threads[b.started++];
  }
  return pick_any();
}

Thread* Executor::pick_any() {
  while (!free_.empty() && next_block_ < total_blocks_) start_block();
  if (resident_.empty()) return nullptr;
  const std::size_t first = resident_.size() > 1 ? random(resident_.size()) : 0;
  for (std::size_t i = 0; i < resident_.size(); ++i)
    if (Thread* t = take(*resident_[(first + i) % resident_.size()])) return t;
  return nullptr;
}

inline void Executor::enter(Thread& t) {
  current_ = &t;
  threadIdx = t.index;
  blockIdx = t.block->index;
}

void Executor::make_ready(Thread& t) {
  t.state = State::runnable;
  t.block->ready.push_back(&t);
}

void Executor::run_thread(Thread& t, Fiber& fiber) {
  t.fiber = &fiber;
  t.copies.clear();
  enter(t);
  try {
    call_(closure_);
  } catch (const Abandon&) {
  } catch (const std::exception& e) {
    note_fault(std::string("exception left the kernel: ") + e.what());
  } catch (...) {
    note_fault("exception left the kernel");
  }
  t.fiber = nullptr;
  Block& b = *t.block;
  if (b.at_barrier == 0 && b.at_warp == 0 &&
      b.live > 1) {  // nobody waits for this thread, and it is not the last
    t.state = State::returned;
    --b.live;
    idle_atomics_ = 0;
  } else if (fault_.empty()) {
    finish(t);
  }
}

void Executor::retire(Block& b) {
  if (!b.shared.intact()) {
    note_fault("write outside a shared variable");
    return;
  }
  for (std::size_t i = 0; i < resident_.size(); ++i) {
    if (resident_[i] != &b) continue;
    resident_[i] = resident_.back();
    resident_.pop_back();
    break;
  }
  free_.push_back(&b);
}

void Executor::work(Fiber& self) {
  while (!self.stopping()) {
    Thread* t = chosen_;
    chosen_ = nullptr;
    while (t != nullptr && t->fiber == nullptr) {
      run_thread(*t, self);
      t = fault_.empty() ? pick() : nullptr;
    }
    chosen_ = t;  // it waits on another fiber: the host goes there
    idle_.push_back(&self);
    self.suspend();
  }
}

Fiber& Executor::idle_fiber() {
  if (idle_.empty()) {
    idle_.reserve(fibers_.size() + 1);
    fibers_.push_back(std::make_unique<Fiber>(
        [](void* executor, Fiber& self) { static_cast<Executor*>(executor)->work(self); }, this,
        fibers_.size()));
    return *fibers_.back();
  }
  Fiber* fiber = idle_.back();
  idle_.pop_back();
  return *fiber;
}

void Executor::wait() {
  Thread& self = *current_;
  self.fiber->suspend();
  if (abandoning_) throw Abandon{};
  enter(self);
}

void Executor::abandon_all() {
  abandoning_ = true;
  for (Block* b : resident_)
    for (Thread& t : b->threads)
      if (t.fiber != nullptr) t.fiber->resume();
  abandoning_ = false;
  chosen_ = nullptr;
}

bool Executor::run(const Config& config, void (*call)(void*), void* closure) {
  if (std::string text = refusal(config); !text.empty()) {
    set_error("launch: " + text);
    return false;
  }
  try {
    prepare(config);
    call_ = call;
    closure_ = closure;
    for (Thread* next = pick(); next != nullptr;) {
      if (next->fiber != nullptr) {
        chosen_ = nullptr;
        next->fiber->resume();
      } else {
        Fiber& fiber = idle_fiber();
        chosen_ = next;
        fiber.resume();
      }
      if (!fault_.empty()) break;
      next = chosen_ != nullptr ? chosen_ : pick();
    }
    if (fault_.empty() && !resident_.empty()) {
      current_ = nullptr;
      note_fault("deadlock: no thread can run" + describe(*resident_.front()));
    }
  } catch (const std::exception& e) {  // no memory for bookkeeping or another stack
    current_ = nullptr;
    note_fault(std::string("the executor failed: ") + e.what());
  }
  if (!fault_.empty()) abandon_all();
  current_ = nullptr;
  const std::string damage = damaged_device_memory();
  if (fault_.empty() && damage.empty()) return true;
  set_error("launch: " + (fault_.empty() ? damage : fault_));
  return false;
}

}  // namespace sinktrap::simt
