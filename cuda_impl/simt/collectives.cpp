// Where threads meet: barriers, warp collectives, the end of a thread; and the reports of what went wrong
// there.
#include <cstring>

#include "cuda_impl/simt/executor.hpp"
#include "cuda_impl/simt/ptx_on_cpu.hpp"

namespace sinktrap::simt {
namespace {

bool same_site(const Site& a, const Site& b) {
  return a.line == b.line && (a.file == b.file || std::strcmp(a.file, b.file) == 0);
}

std::string text_of(const Site& site) { return std::string(site.file) + ":" + std::to_string(site.line); }
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
  if (current_ != nullptr)
    fault_ += ", block " + text_of(current_->block->index) + " thread " + text_of(current_->index);
}

void Executor::fail(const std::string& what) {
  note_fault(what);
  throw Abandon{};
}

void* Executor::shared_variable(const void* key, std::size_t bytes, std::size_t alignment) {
  void* p = current_->block->shared.variable(key, bytes, alignment);
  if (p == nullptr) fail("out of shared memory");
  return p;
}

void Executor::barrier(Site site) {
  Thread& t = *current_;
  Block& b = *t.block;
  if (b.live != block_threads_)
    fail("__syncthreads " + text_of(site) + " after a thread of the block has returned" + describe(b));
  if (b.at_barrier > 0 && !same_site(b.barrier, site))
    fail("barrier divergence: __syncthreads " + text_of(site) + " while others wait at __syncthreads " +
         text_of(b.barrier));
  b.barrier = t.site = site;
  t.state = State::at_barrier;
  if (++b.at_barrier == b.live)
    release_barrier(b, t);
  else
    wait();
}

void Executor::release_barrier(Block& b, Thread& last) {
  b.at_barrier = 0;
  idle_atomics_ = 0;
  for (Thread& t : b.threads)
    if (&t != &last) make_ready(t);
  last.state = State::runnable;
  if (schedule != 0) {  // whoever comes last must not always go first
    make_ready(last);
    wait();
  }
}

std::uint64_t Executor::collective(detail::WarpOperation operation, std::uint32_t mask, std::uint64_t value,
                                   unsigned source, Site site) {
  Thread& self = *current_;
  Block& b = *self.block;
  const unsigned first = self.linear - self.lane();
  const unsigned lanes = block_threads_ - first < kWarp ? block_threads_ - first : kWarp;
  if (lanes < kWarp)
    mask &= (1u << lanes) - 1;  // the last warp of a block may be short; CUDA leaves its tail out
  const auto here = [&] { return std::string(name_of(operation)) + " " + text_of(site); };
  if (!(mask >> self.lane() & 1u)) fail(here() + ": the calling lane is not in its own mask");
  self.state = State::at_warp;
  self.operation = operation;
  self.mask = mask;
  self.value = value;
  self.source = source % kWarp;
  self.site = site;
  bool complete = true;
  for (unsigned lane = 0; lane < lanes; ++lane) {
    const Thread& other = b.threads[first + lane];
    if (!(mask >> lane & 1u) || &other == &self) continue;
    if (other.state == State::returned)
      fail(here() + " is reached by part of its mask: lane " + std::to_string(lane) + " has returned");
    if (other.state != State::at_warp) {
      complete = false;
      continue;
    }
    if (other.mask != mask) {
      // A lane that waits for others first may still come; one that waits for this lane under another mask
      // cannot.
      if (other.mask >> self.lane() & 1u)
        fail(here() + ": lane " + std::to_string(lane) + " waits at " + name_of(other.operation) + " " +
             text_of(other.site) + " with another mask");
      complete = false;
    } else if (other.operation != operation || !same_site(other.site, site)) {
      fail(here() + " while lane " + std::to_string(lane) + " waits at " + name_of(other.operation) + " " +
           text_of(other.site));
    }
  }
  ++b.at_warp;
  if (complete)
    complete_collective(b, first, self);
  else
    wait();
  return self.result;
}

void Executor::complete_collective(Block& b, unsigned first, Thread& last) {
  const std::uint32_t mask = last.mask;
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
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    if (!(mask >> lane & 1u)) continue;
    --b.at_warp;
    if (&b.threads[first + lane] != &last) make_ready(b.threads[first + lane]);
  }
  last.state = State::runnable;
  if (schedule != 0) {
    make_ready(last);
    wait();
  }
}

void Executor::atomic_point() {
  // Under the ascending schedule a thread keeps running, unless it looks like a spin wait.
  constexpr std::uint64_t kSpin = 1024;
  if (++idle_atomics_ > kIdleAtomics) fail("livelock: atomics without progress" + describe(*current_->block));
  const bool yield = schedule != 0 ? random(4) == 0 : idle_atomics_ % kSpin == 0;
  if (!yield) return;
  make_ready(*current_);
  wait();
}

void Executor::finish(Thread& t) {
  Block& b = *t.block;
  t.state = State::returned;
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

}  // namespace sinktrap::simt
