#include "cuda_impl/simt/race.hpp"

#include <algorithm>

#include "cuda_impl/simt/executor.hpp"
#include "cuda_impl/simt/places.hpp"

namespace sinktrap::simt {
namespace {

constexpr std::uint64_t kMoreBytes = 511;  // what Record::bytes can hold

std::uint64_t key_of(std::uint32_t block, std::uint32_t thread) {
  return std::uint64_t{block} << 32 | thread;
}

void learn(Known& into, const Known& other) {
  if (!other || other == into) return;
  if (!into) {
    into = other;
    return;
  }
  auto sum = std::make_shared<Knowledge>(*into);
  sum->join(*other);
  into = std::move(sum);
}

[[maybe_unused]] const bool registered = [] {
  make_observer = []() -> std::unique_ptr<Observer> { return std::make_unique<RaceRuntime>(); };
  return true;
}();

}  // namespace

void Knowledge::join(const Knowledge& other) {
  for (const auto& [block, phase] : other.phases) {
    std::uint32_t& mine = phases[block];
    mine = std::max(mine, phase);
  }
  for (const auto& [thread, clock] : other.threads) {
    std::uint32_t& mine = threads[thread];
    mine = std::max(mine, clock);
  }
}

constinit thread_local RaceRuntime* t_race = nullptr;

void RaceRuntime::begin(const Config& config, unsigned slots, std::uint64_t schedule) {
  first_segment_ += segments_.size();
  segments_.clear();
  block_shape_ = config.block;
  block_threads_ = config.block.x * config.block.y * config.block.z;
  threads_.assign(std::size_t{slots} * block_threads_, ThreadState{});
  blocks_.assign(slots, BlockState{});
  block_index_.clear();
  meetings_.clear();
  meetings_in_block_.clear();
  findings_.clear();
  conflicts_ = 0;
  const std::uintptr_t variables[] = {
      reinterpret_cast<std::uintptr_t>(&threadIdx), reinterpret_cast<std::uintptr_t>(&blockIdx),
      reinterpret_cast<std::uintptr_t>(&blockDim), reinterpret_cast<std::uintptr_t>(&gridDim)};
  indices_ = *std::min_element(std::begin(variables), std::end(variables));
  indices_bytes_ = *std::max_element(std::begin(variables), std::end(variables)) + sizeof(dim3) - indices_;
  // Once in 2 to 256 accesses: kernels of ten accesses and of ten thousand are both cut at many places.
  interval_ = std::uint64_t{2} << schedule % 8;
  random_ = schedule * 0x9e3779b97f4a7c15ull | 1;
  countdown_ = ~std::uint64_t{0};
  if (schedule != 0) draw_countdown();
}

bool RaceRuntime::draw_countdown() {
  random_ ^= random_ << 13;
  random_ ^= random_ >> 7;
  random_ ^= random_ << 17;
  countdown_ = 1 + (random_ >> 20) % (2 * interval_);
  return true;
}

void RaceRuntime::start_block(unsigned slot, const uint3& index, const void* shared,
                              std::size_t shared_bytes) {
  BlockState& b = blocks_[slot];
  b = BlockState{};
  b.serial = static_cast<std::uint32_t>(block_index_.size());
  b.unique = ++blocks_ever_;
  b.shared = reinterpret_cast<std::uintptr_t>(shared);
  b.shared_bytes = shared_bytes;
  block_index_.push_back(index);
  const std::size_t first = std::size_t{slot} * block_threads_;
  std::fill_n(threads_.begin() + static_cast<std::ptrdiff_t>(first), block_threads_, ThreadState{});
}

void RaceRuntime::new_segment(ThreadState& t, const BlockState& b, std::uint32_t number) {
  t.phase = b.phase;
  segments_.push_back({b.serial, t.phase, ++t.clock, number});
  t.segment = first_segment_ + segments_.size() - 1;
}

void RaceRuntime::enter(unsigned slot, unsigned thread, const void* stack, std::size_t stack_bytes) {
  my_block_ = &blocks_[slot];
  my_number_ = thread;
  me_ = &threads_[std::size_t{slot} * block_threads_ + thread];
  stack_ = reinterpret_cast<std::uintptr_t>(stack);
  stack_bytes_ = stack_bytes;
  if (me_->segment == 0 || me_->phase != my_block_->phase) {
    learn(me_->acquired, my_block_->acquired);
    new_segment(*me_, *my_block_, thread);
  }
  t_race = this;
}

void RaceRuntime::barrier(unsigned slot) {
  BlockState& b = blocks_[slot];
  ++b.phase;  // each thread notices when it is entered next
  for (unsigned i = 0; i < block_threads_; ++i)
    learn(b.acquired, threads_[std::size_t{slot} * block_threads_ + i].acquired);
}

void RaceRuntime::warp_sync(unsigned slot, unsigned first, std::uint32_t mask) {
  ThreadState* warp = &threads_[std::size_t{slot} * block_threads_ + first];
  std::uint32_t clocks[32]{};
  Known acquired;
  for (unsigned lane = 0; lane < 32; ++lane) {
    if (!(mask >> lane & 1u)) continue;
    for (unsigned i = 0; i < 32; ++i) clocks[i] = std::max(clocks[i], warp[lane].lanes[i]);
    clocks[lane] = std::max(clocks[lane], warp[lane].clock);
    learn(acquired, warp[lane].acquired);
  }
  for (unsigned lane = 0; lane < 32; ++lane) {
    if (!(mask >> lane & 1u)) continue;
    std::copy(std::begin(clocks), std::end(clocks), std::begin(warp[lane].lanes));
    warp[lane].acquired = acquired;
    new_segment(warp[lane], blocks_[slot], first + lane);
  }
}

Known RaceRuntime::snapshot() const {
  auto all = me_->acquired ? std::make_shared<Knowledge>(*me_->acquired) : std::make_shared<Knowledge>();
  Knowledge own;
  const std::uint32_t block = my_block_->serial;
  own.phases[block] = me_->phase;
  const std::uint32_t first = my_number_ / 32 * 32;
  for (std::uint32_t lane = 0; lane < 32; ++lane)
    if (me_->lanes[lane] > 0) own.threads[key_of(block, first + lane)] = me_->lanes[lane];
  own.threads[key_of(block, my_number_)] = me_->clock;
  all->join(own);
  return all;
}

void RaceRuntime::fence(bool block_scope) {
  learn(me_->acquired, me_->pending_in_block);
  me_->pending_in_block = nullptr;
  if (!block_scope) {
    learn(me_->acquired, me_->pending);
    me_->pending = nullptr;
  }
  me_->fenced_in_block = snapshot();
  if (!block_scope) me_->fenced = me_->fenced_in_block;
  new_segment(*me_, *my_block_, my_number_);
}

void RaceRuntime::meet_at(const void* address, detail::Access kind) {
  if (meetings_.empty() && meetings_in_block_.empty() && !me_->fenced_in_block) return;
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  Known &here = meetings_[at], &in_block = meetings_in_block_[{at, my_block_->serial}];
  learn(me_->pending, here);
  learn(me_->pending_in_block, in_block);
  if (kind != detail::Access::atomic) return;
  learn(here, me_->fenced);
  learn(in_block, me_->fenced_in_block);
}

bool RaceRuntime::knows(const Segment& s) const {
  if (!me_->acquired) return false;
  const auto phase = me_->acquired->phases.find(s.block);
  if (phase != me_->acquired->phases.end() && s.phase < phase->second) return true;
  const auto thread = me_->acquired->threads.find(key_of(s.block, s.thread));
  return thread != me_->acquired->threads.end() && s.clock <= thread->second;
}

bool RaceRuntime::ordered(const Record& before, bool in_shared) const {
  if (before.segment == me_->segment || before.segment < first_segment_) return true;
  const Segment& s = segments_[before.segment - first_segment_];
  if (s.block != my_block_->serial)
    return in_shared || knows(s);  // an earlier block had the same shared memory
  if (s.thread == my_number_ || s.phase < me_->phase) return true;
  if (s.thread / 32 == my_number_ / 32 && s.clock <= me_->lanes[s.thread % 32]) return true;
  return knows(s);
}

inline bool RaceRuntime::conflicts(const Record& before, const Record& now, bool in_shared) const {
  if ((before.mask & now.mask) == 0 || before.segment < first_segment_) return false;
  if (before.is_atomic && now.is_atomic) return false;
  if (before.in_flight)  // whoever it is, and whatever lies between
    return !in_shared || segments_[before.segment - first_segment_].block == my_block_->serial;
  return !ordered(before, in_shared);
}

// Puts an access among those since the last write; those that it knows of are covered by it.
void RaceRuntime::add_reader(Cell& cell, const Record& now, bool in_shared) {
  Record others[4];
  unsigned count = 0;
  for (const Record& r : cell.since) {
    if (r.segment < first_segment_) continue;
    const bool covered = ordered(r, in_shared) && (!now.is_atomic || r.is_atomic) &&
                         (r.mask & ~now.mask) == 0 && r.is_write <= now.is_write;
    if (!covered) others[count++] = r;
  }
  for (Record& r : cell.since) r = Record{};
  cell.since[0] = now;
  const std::uint32_t my_warp = my_number_ / 32;
  for (unsigned i = 0; i < count; ++i) {
    const Segment& s = segments_[others[i].segment - first_segment_];
    Record* place = s.block != my_block_->serial ? &cell.since[3]
                    : s.thread / 32 != my_warp   ? &cell.since[2]
                                                 : &cell.since[1];
    if (place->segment != 0)  // its kind is there already: any free place
      for (unsigned k = 1; k < 4; ++k)
        if (cell.since[k].segment == 0) place = &cell.since[k];
    *place = others[i];
  }
}

void RaceRuntime::read(Cell& cell, const Record& now, std::uintptr_t address, bool in_shared) {
  if (cell.since[0].segment == now.segment && cell.since[0].mask == now.mask && !cell.since[0].is_write &&
      cell.since[0].is_atomic == now.is_atomic)
    return;  // as a moment ago
  if (in_shared && (cell.written_in != my_block_->unique || (now.mask & ~cell.written) != 0))
    report(true, now, Record{}, address);
  if ((now.mask & cell.fresh) != 0) report(true, now, Record{}, address);
  if (conflicts(cell.last_write, now, in_shared)) report(false, now, cell.last_write, address);
  for (const Record& r : cell.since)  // atomics are kept there too
    if (r.is_write && conflicts(r, now, in_shared)) report(false, now, r, address);
  add_reader(cell, now, in_shared);
}

void RaceRuntime::write(Cell& cell, const Record& now, std::uintptr_t address, bool in_shared) {
  if (conflicts(cell.last_write, now, in_shared)) report(false, now, cell.last_write, address);
  for (const Record& r : cell.since)
    if (r.segment != 0 && conflicts(r, now, in_shared)) report(false, now, r, address);
  if (in_shared) {
    if (cell.written_in != my_block_->unique) cell.written = 0;
    cell.written_in = my_block_->unique;
    cell.written = static_cast<std::uint8_t>(cell.written | now.mask);
  }
  cell.fresh = static_cast<std::uint8_t>(cell.fresh & ~now.mask);
  const Record before = cell.last_write;
  if (now.is_atomic) {
    add_reader(cell, now, in_shared);
  } else {
    for (Record& r : cell.since)
      if ((r.mask &= ~now.mask) == 0) r = Record{};
  }
  cell.last_write = now;
  if (before.segment < first_segment_ || (before.mask & ~now.mask) == 0) return;
  // A write of one byte does not hide an earlier one of the other byte.
  Record* place = &cell.since[3];
  for (Record& r : cell.since)
    if (r.segment == 0) place = &r;
  *place = before;
  place->mask &= ~now.mask;
}

void RaceRuntime::track(detail::Access kind, std::uintptr_t address, std::size_t bytes, std::uint64_t place) {
  if (bytes == 0) return;
  const bool shared = in_shared(address);
  Record now;
  now.segment = me_->segment;
  now.is_site = place >> 63;
  now.place = place & 0xffffffffffffull;
  now.bytes = std::min<std::uint64_t>(bytes, kMoreBytes);
  now.is_write = kind != detail::Access::read && kind != detail::Access::atomic_read;
  now.is_atomic = kind == detail::Access::atomic || kind == detail::Access::atomic_read;
  now.in_flight = kind == detail::Access::async_write;
  const std::uintptr_t last = address + bytes - 1;
  for (std::uintptr_t a = address / kCellBytes * kCellBytes; a <= last; a += kCellBytes) {
    Cell& cell = shadow_.cell(a);
    now.mask = (a >= address ? 1u : 0u) | (a + 1 <= last ? 2u : 0u);
    if (kind == detail::Access::async_landing && cell.last_write.in_flight && is_mine(cell.last_write))
      cell.last_write = Record{};  // its own copy, no longer in flight
    if (now.is_write)
      write(cell, now, a, shared);
    else
      read(cell, now, a, shared);
  }
}

void RaceRuntime::device_memory(const void* address, std::size_t bytes, bool fresh) {
  const auto first = reinterpret_cast<std::uintptr_t>(address), end = first + bytes;
  for (std::uintptr_t page = first / kPageBytes * kPageBytes; page < end; page += kPageBytes) {
    // In pages that no kernel has touched nothing is fresh unless it is said here.
    Cell* cells = fresh ? &shadow_.cell(page) : shadow_.page_if_there(page);
    if (cells == nullptr) continue;
    const std::uintptr_t stop = std::min(end, page + kPageBytes);
    for (std::uintptr_t a = std::max(first, page); a < stop; ++a) {
      std::uint8_t& mask = cells[(a - page) / kCellBytes].fresh;
      const auto bit = static_cast<std::uint8_t>(1u << a % kCellBytes);
      mask = static_cast<std::uint8_t>(fresh ? mask | bit : mask & ~bit);
    }
  }
}

bool RaceRuntime::is_mine(const Record& r) const {
  if (r.segment < first_segment_) return false;
  const Segment& s = segments_[r.segment - first_segment_];
  return s.block == my_block_->serial && s.thread == my_number_;
}

void RaceRuntime::access(detail::Access kind, const void* address, std::size_t bytes, Site site) {
  if (is_private(address)) return;
  track(kind, reinterpret_cast<std::uintptr_t>(address), bytes, place_of(site));
  if (kind == detail::Access::atomic) meet_at(address, kind);
}

}  // namespace sinktrap::simt
