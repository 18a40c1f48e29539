// Where threads meet: barriers, warp collectives, the end of a thread; and the reports of what went wrong
// there.
#include <atomic>
#include <cstring>

#include "cuda_impl/simt/executor.hpp"
#include "cuda_impl/simt/ptx_on_cpu.hpp"
#include "cuda_impl/simt/sanitizers.hpp"

namespace sinktrap::simt {
namespace {

inline bool same_site(Site a, Site b) {
  return a.line == b.line && (a.file == b.file || std::strcmp(a.file, b.file) == 0);
}

// Two lanes at the same collective.
inline bool alike(const Thread& a, const Thread& b) {
  return a.mask == b.mask && a.operation == b.operation && same_site(a.site, b.site);
}

std::string text_of(const uint3& v) {
  return "(" + std::to_string(v.x) + "," + std::to_string(v.y) + "," + std::to_string(v.z) + ")";
}

const char* name_of(detail::WarpOperation operation) {
  switch (operation) {
    case detail::WarpOperation::sync:
      return "__syncwarp";
    case detail::WarpOperation::shuffle:
      return "__shfl_sync";
    case detail::WarpOperation::shuffle_xor:
      return "__shfl_xor_sync";
    case detail::WarpOperation::ballot:
      return "__ballot_sync";
    case detail::WarpOperation::ldmatrix:
      return "ldmatrix";
    case detail::WarpOperation::mma:
      return "mma.sync";
  }
  return "?";
}

// Enough of a block to see the pattern; a report is one line of a test log.
constexpr int kDescribedGroups = 8;

}  // namespace

std::string text_of(const Site& site) {
  // Build systems name sources by a path from the build folder.
  const char* file = site.file;
  while (std::strncmp(file, "../", 3) == 0) file += 3;
  return std::string(file) + ":" + std::to_string(site.line);
}

std::string Executor::describe(const Block& b) const {
  std::string text;
  int groups = 0;
  for (std::size_t i = 0; i < b.threads.size();) {
    const Thread& t = b.threads[i];
    std::size_t last = i;
    const auto alike = [&t](const Thread& o) {
      if (o.state != t.state) return false;
      if (t.state == State::at_barrier || t.state == State::at_warp)
        return same_site(o.site, t.site) && (t.state == State::at_barrier || o.mask == t.mask);
      return true;
    };
    while (last + 1 < b.threads.size() && alike(b.threads[last + 1])) ++last;
    if (groups++ == kDescribedGroups) return text + "; ...";
    text +=
        "; block " + text_of(b.index) + " threads " + std::to_string(i) + ".." + std::to_string(last) + " ";
    switch (t.state) {
      case State::runnable:
        text += "can run";
        break;
      case State::returned:
        text += "returned";
        break;
      case State::at_barrier:
        text += "wait at __syncthreads " + text_of(t.site);
        break;
      case State::at_warp:
        text += std::string("wait at ") + name_of(t.operation) + " " + text_of(t.site);
        break;
    }
    i = last + 1;
  }
  return text;
}

void Executor::note_fault(const std::string& what) {
  if (!fault_.empty()) return;
  fault_ = what;
  if (current_ != nullptr) fault_ += ", " + who_runs();
}

std::string Executor::who_runs() const {
  if (current_ == nullptr) return {};
  return "block " + text_of(current_->block->index) + " thread " + text_of(current_->index);
}

void Executor::fail(const std::string& what) {
  note_fault(what);
  throw Abandon{};
}

void* Executor::shared_variable(const void* key, std::size_t bytes, std::size_t alignment) {
  leave();
  void* p = current_->block->shared.variable(key, bytes, alignment);
  if (p == nullptr) fail("out of shared memory");
  go_back();
  return p;
}

inline void Executor::barrier(Site site) {
  leave();
  if (abandoning_) throw Abandon{};
  Thread& t = *current_;
  Block& b = *t.block;
  if (b.live != block_threads_)
    fail("__syncthreads " + text_of(site) + " after a thread of the block has returned" + describe(b));
  if (b.at_barrier > 0 && !same_site(b.barrier, site))
    fail("barrier divergence: __syncthreads " + text_of(site) + " while others wait at __syncthreads " +
         text_of(b.barrier));
  b.barrier.file = t.site.file =
      site.file;  // not as one value: it came in two registers, and a store of both
  b.barrier.line = t.site.line = site.line;  // through memory waits for them
  t.state = State::at_barrier;
  if (++b.at_barrier == b.live)
    release_barrier(b, t);
  else
    wait();
}

void Executor::release_barrier(Block& b, Thread& last) {
  b.at_barrier = 0;
  idle_atomics_ = 0;
  if (observer_) observer_->barrier(b.slot);
  for (Thread& t : b.threads)
    if (&t != &last) make_ready(t);
  go_on(last);
}

inline std::uint64_t Executor::collective(detail::WarpOperation operation, std::uint32_t mask,
                                          std::uint64_t value, unsigned source, Site site) {
  leave();
  if (abandoning_) throw Abandon{};
  Thread& self = *current_;
  Block& b = *self.block;
  const unsigned first = self.linear - self.lane();
  const unsigned lanes = block_threads_ - first < kWarp ? block_threads_ - first : kWarp;
  if (lanes < kWarp)
    mask &= (1u << lanes) - 1;  // the last warp of a block may be short; CUDA leaves its tail out
  if (!(mask >> self.lane() & 1u))
    fail(std::string(name_of(operation)) + " " + text_of(site) + ": the calling lane is not in its own mask");
  self.state = State::at_warp;
  self.operation = operation;
  self.mask = mask;
  self.value = value;
  self.source = source % kWarp;
  self.site.file = site.file;
  self.site.line = site.line;
  const unsigned warp = first / kWarp;
  std::uint32_t& waiting = b.waiting[warp];
  if (waiting == 0)
    b.mixed &= ~(1u << warp);
  else if (!alike(b.threads[first + static_cast<unsigned>(__builtin_ctz(waiting))], self))
    b.mixed |= 1u << warp;
  waiting |= 1u << self.lane();
  ++b.at_warp;
  // As long as all that wait are at one collective, one of them speaks for all; else each is looked at.
  bool complete = (waiting & mask) == mask;
  if ((b.mixed >> warp & 1u) || (b.returned[warp] & mask) != 0)
    complete = lanes_agree(b, self, lanes) && complete;
  if (complete)
    complete_collective(b, first, self);
  else
    wait();
  return self.result;
}

// False when some lane of the mask has not come yet. Fails when one never can.
bool Executor::lanes_agree(const Block& b, const Thread& self, unsigned lanes) {
  const unsigned first = self.linear - self.lane();
  const auto here = [&] { return std::string(name_of(self.operation)) + " " + text_of(self.site); };
  bool all = true;
  for (unsigned lane = 0; lane < lanes; ++lane) {
    const Thread& other = b.threads[first + lane];
    if (!(self.mask >> lane & 1u) || &other == &self) continue;
    if (other.state == State::returned)
      fail(here() + " is reached by part of its mask: lane " + std::to_string(lane) + " has returned");
    if (other.state != State::at_warp) {
      all = false;
    } else if (other.mask != self.mask) {
      // A lane that waits for others first may still come; one that waits for this lane under another mask
      // cannot.
      if (other.mask >> self.lane() & 1u)
        fail(here() + ": lane " + std::to_string(lane) + " waits at " + name_of(other.operation) + " " +
             text_of(other.site) + " with another mask");
      all = false;
    } else if (!alike(other, self)) {
      fail(here() + " while lane " + std::to_string(lane) + " waits at " + name_of(other.operation) + " " +
           text_of(other.site));
    }
  }
  return all;
}

void Executor::complete_collective(Block& b, unsigned first, Thread& last) {
  const std::uint32_t mask = last.mask;
  b.waiting[first / kWarp] &= ~mask;
  if (last.operation == detail::WarpOperation::ldmatrix || last.operation == detail::WarpOperation::mma) {
    detail::WarpRecord* records[kWarp];  // of a whole warp: ptx.cpp refuses any other
    for (unsigned lane = 0; lane < kWarp; ++lane)
      records[lane] = reinterpret_cast<detail::WarpRecord*>(b.threads[first + lane].value);
    records[last.lane()]->apply(records);
  }
  std::uint64_t ballot = 0;
  for (unsigned lane = 0; lane < kWarp; ++lane)
    if (mask >> lane & 1u && b.threads[first + lane].value != 0) ballot |= std::uint64_t{1} << lane;
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    if (!(mask >> lane & 1u)) continue;
    Thread& t = b.threads[first + lane];
    const bool from_mask = mask >> t.source & 1u;
    t.result = t.operation == detail::WarpOperation::ballot ? ballot
               : from_mask                                  ? b.threads[first + t.source].value
                                                            : ~std::uint64_t{0};
  }
  idle_atomics_ = 0;
  // CUDA promises an order of memory for __syncwarp alone; shuffles and votes order nothing.
  if (observer_ && last.operation == detail::WarpOperation::sync) observer_->warp_sync(b.slot, first, mask);
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    if (!(mask >> lane & 1u)) continue;
    --b.at_warp;
    if (&b.threads[first + lane] != &last) make_ready(b.threads[first + lane]);
  }
  go_on(last);
}

// For whoever completes a meeting: under a random schedule the last to come must not always go first.
void Executor::go_on(Thread& last) {
  last.state = State::runnable;
  if (schedule != 0) {
    make_ready(last);
    wait();
  } else if (observer_) {
    enter(last);
  }
}

void Executor::fence(bool block_scope) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!observer_) return;
  leave();
  observer_->fence(block_scope);
  enter(*current_);
}

void Executor::touch(detail::Access kind, const void* address, std::size_t bytes, Site site) {
  check_address(address, bytes, kind != detail::Access::read);
  if (!observer_) return;
  leave();
  observer_->access(kind, address, bytes, site);
  enter(*current_);
}

void Executor::atomic_point(const void* address, std::size_t bytes, Site site) {
  leave();
  if (abandoning_) throw Abandon{};
  // Under the ascending schedule a thread keeps running, unless it looks like a spin wait.
  if (++idle_atomics_ > kIdleAtomics) fail("livelock: atomics without progress" + describe(*current_->block));
  const bool yield = schedule != 0 ? random(4) == 0 : idle_atomics_ % kSpin == 0;
  if (yield) {
    make_ready(*current_);
    wait();
  }
  if (!observer_) return;
  leave();
  observer_->access(detail::Access::atomic, address, bytes,
                    site);  // after the switch: the atomic follows at once
  enter(*current_);
}

void Executor::finish(Thread& t) {
  Block& b = *t.block;
  t.state = State::returned;
  b.returned[t.linear / kWarp] |= 1u << t.lane();
  --b.live;
  idle_atomics_ = 0;
  if (b.at_barrier > 0) {
    note_fault("barrier divergence: a thread returned while others wait at __syncthreads " +
               text_of(b.barrier));
    return;
  }
  if (b.at_warp > 0) {
    const unsigned first = t.linear - t.lane();
    for (unsigned i = first; i < first + kWarp && i < block_threads_; ++i) {
      const Thread& other = b.threads[i];
      if (other.state != State::at_warp || !(other.mask >> t.lane() & 1u)) continue;
      note_fault(std::string("a lane returned while others of its warp wait for it at ") +
                 name_of(other.operation) + " " + text_of(other.site));
      return;
    }
  }
  if (b.live == 0) retire(b);
}

inline namespace cpu {
namespace detail {
void block_barrier(Site site) { Executor::of_this_thread().barrier(site); }
std::uint64_t warp_collective(WarpOperation operation, std::uint32_t mask, std::uint64_t value,
                              unsigned source, Site site) {
  return Executor::of_this_thread().collective(operation, mask, value, source, site);
}
}  // namespace detail
}  // namespace cpu

}  // namespace sinktrap::simt
