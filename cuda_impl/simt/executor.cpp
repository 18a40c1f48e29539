#include "cuda_impl/simt/executor.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <iterator>
#include <numeric>
#include <utility>

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
unsigned lane() { return Executor::of_this_thread().lane(); }
void atomic_point(const void* address, std::size_t bytes, Site site) {
  Executor::of_this_thread().atomic_point(address, bytes, site);
}
void fence(bool block_scope) { Executor::of_this_thread().fence(block_scope); }
void touch(Access kind, const void* address, std::size_t bytes, Site site) {
  Executor::of_this_thread().touch(kind, address, bytes, site);
}
}  // namespace detail
}  // namespace cpu

std::unique_ptr<Observer> (*make_observer)() = nullptr;

namespace {
// Trivial, so that it can be asked after the executor of the thread has gone.
constinit thread_local bool executor_has_gone = false;
}  // namespace

Executor& Executor::of_this_thread() {
  static thread_local Executor executor;
  return executor;
}

Observer* Executor::observer_of_this_thread() {
  return make_observer == nullptr || executor_has_gone ? nullptr : of_this_thread().observer();
}

Executor::Executor() {
  if (make_observer != nullptr) observer_ = make_observer();
}

Executor::~Executor() {
  for (const auto& fiber : fibers_) host_.end(*fiber);
  executor_has_gone = true;
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

void Executor::prepare(Grid& grid) {
  const Config& c = grid.config;
  grid_ = &grid;
  config_ = &c;
  call_ = grid.call;
  closure_ = grid.closure;
  blockDim = c.block;
  gridDim = c.grid;
  block_threads_ = c.block.x * c.block.y * c.block.z;
  total_blocks_ = grid.blocks;
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
  while (blocks_.size() < wanted) {
    blocks_.push_back(std::make_unique<Block>());
    blocks_.back()->slot = static_cast<unsigned>(blocks_.size()) - 1;
  }
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
  if (observer_) observer_->begin(c, static_cast<unsigned>(wanted), schedule);
}

bool Executor::start_block() {
  const std::uint64_t taken = grid_->next.fetch_add(1, std::memory_order_relaxed);
  if (taken >= total_blocks_ || grid_->failed.load(std::memory_order_relaxed)) return false;
  if (look_helpers_ != nullptr && taken % kBlocksPerLook == 0 && Clock::now() - started_ > kAlone) {
    look_helpers_->join(*grid_);
    look_helpers_ = nullptr;
  }
  Block& b = *free_.back();
  free_.pop_back();
  const auto i = static_cast<std::uint64_t>(
      (static_cast<unsigned __int128>(block_step_) * taken + block_offset_) % total_blocks_);
  const dim3& grid = config_->grid;
  b.index = {static_cast<unsigned>(i % grid.x), static_cast<unsigned>(i / grid.x % grid.y),
             static_cast<unsigned>(i / grid.x / grid.y)};
  b.live = block_threads_;
  b.at_barrier = b.at_warp = b.started = 0;
  b.ready.clear();
  b.ready_head = 0;
  std::fill(std::begin(b.waiting), std::end(b.waiting), 0u);
  std::fill(std::begin(b.returned), std::end(b.returned), 0u);
  b.shared.reset();
  for (Thread& t : b.threads) t.state = State::runnable;
  if (schedule != 0) {
    b.unstarted.resize(block_threads_);
    std::iota(b.unstarted.begin(), b.unstarted.end(), 0u);
  }
  resident_.push_back(&b);
  if (observer_) observer_->start_block(b.slot, b.index, b.shared.base(), kSharedCapacity);
  return true;
}

Thread* Executor::take(Block& b) {
  if (schedule == 0) {
    if (b.started < block_threads_) return &b.threads[b.started++];
    return b.ready_head < b.ready.size() ? take_ready(b) : nullptr;
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

Thread* Executor::pick_any() {
  while (!free_.empty() && start_block()) {
  }
  if (resident_.empty()) return nullptr;
  const std::size_t first = resident_.size() > 1 ? random(resident_.size()) : 0;
  for (std::size_t i = 0; i < resident_.size(); ++i)
    if (Thread* t = take(*resident_[(first + i) % resident_.size()])) return t;
  return nullptr;
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
  leave();
  t.fiber = nullptr;
  Block& b = *t.block;
  if (b.at_barrier == 0 && b.at_warp == 0 &&
      b.live > 1) {  // nobody waits for this thread, and it is not the last
    t.state = State::returned;
    b.returned[t.linear / kWarp] |= 1u << t.lane();
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
    Thread* t = std::exchange(chosen_, nullptr);
    while (t != nullptr && t->fiber == nullptr) {
      run_thread(*t, self);
      t = fault_.empty() ? pick() : nullptr;
    }
    idle_.push_back(&self);
    self.switch_to(t != nullptr ? *t->fiber : host_);
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

void Executor::volatile_read() {
  if (++volatile_reads_ % kSpin == 0) interrupt(true);
}

void Executor::interrupt(bool in_any_schedule) {
  // The callbacks of the compiler must not throw: a thread that is interrupted when the launch fails runs on,
  // to its next barrier or its end.
  if (abandoning_ || !fault_.empty() || (schedule == 0 && !in_any_schedule)) return;
  leave();
  make_ready(*current_);
  go_away();
}

void Executor::abandon_all() {
  abandoning_ = true;
  for (Block* b : resident_)
    for (Thread& t : b->threads)
      if (t.fiber != nullptr) host_.switch_to(*t.fiber);
  abandoning_ = false;
  chosen_ = nullptr;
}

void Executor::run_blocks() {
  try {
    Thread* next = pick();
    if (next != nullptr) {
      // From here fibers switch to each other, until nothing can run or something has failed.
      Fiber& fiber = idle_fiber();
      chosen_ = next;
      host_.switch_to(fiber);
    }
    if (fault_.empty() && !resident_.empty()) {
      current_ = nullptr;
      note_fault("deadlock: no thread can run" + describe(*resident_.front()));
    }
  } catch (const std::exception& e) {  // no memory for bookkeeping or another stack
    current_ = nullptr;
    note_fault(std::string("the executor failed: ") + e.what());
  }
  if (!fault_.empty()) {
    grid_->failed = true;
    abandon_all();
  }
  current_ = nullptr;
}

std::string Executor::help(Grid& grid) {
  schedule = 0;
  try {
    prepare(grid);
  } catch (const std::exception& e) {
    return std::string("the executor failed: ") + e.what();
  }
  run_blocks();
  return fault_;
}

bool Executor::run(const Config& config, void (*call)(void*), void* closure) {
  if (std::string text = refusal(config); !text.empty()) {
    set_error("launch: " + text);
    return false;
  }
  Grid grid;
  grid.config = config;
  grid.call = call;
  grid.closure = closure;
  grid.blocks = std::uint64_t{config.grid.x} * config.grid.y * config.grid.z;
  Helpers helpers;
  const bool alone = schedule != 0 || observer_ != nullptr || grid.blocks <= kBlocksPerLook;
  look_helpers_ = alone ? nullptr : &helpers;
  if (!alone) started_ = Clock::now();
  try {
    prepare(grid);
    run_blocks();
  } catch (const std::exception& e) {
    note_fault(std::string("the executor failed: ") + e.what());
    grid.failed = true;
  }
  look_helpers_ = nullptr;
  if (std::string theirs = helpers.wait(); fault_.empty()) fault_ = std::move(theirs);
  std::string found = observer_ ? observer_->end() : std::string{};
  if (fault_.empty()) fault_ = std::move(found);
  const std::string damage = damaged_device_memory();
  if (fault_.empty() && damage.empty()) return true;
  set_error("launch: " + (fault_.empty() ? damage : fault_));
  return false;
}

}  // namespace sinktrap::simt
