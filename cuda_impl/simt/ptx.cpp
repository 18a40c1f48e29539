// Emulation of the instructions of ptx.hpp, in the executor: what a sanitizer should see of them has happened
// in the kernel already (ptx_on_cpu.hpp).
#include "cuda_impl/simt/ptx.hpp"

#include <cmath>
#include <cstring>

#include "cuda_impl/simt/executor.hpp"

namespace sinktrap::simt {
namespace {

float value_of_bf16(std::uint16_t bits) {
  const std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

// By the definition of binary16: fraction * 2^(exponent - 25), with the hidden bit unless subnormal.
float value_of_f16(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 0x3ff;
  float value;
  if (exponent == 31)
    value = fraction == 0 ? HUGE_VALF : NAN;
  else
    value = std::ldexp(static_cast<float>(exponent == 0 ? fraction : fraction + 1024),
                       (exponent == 0 ? 1 : exponent) - 25);
  return bits & 0x8000 ? -value : value;
}

struct F16Values {
  float of[65536];
  F16Values() {
    for (unsigned bits = 0; bits < 65536; ++bits) of[bits] = value_of_f16(static_cast<std::uint16_t>(bits));
  }
};

using detail::LdmatrixRecord;
using detail::MmaRecord;
using detail::WarpRecord;

// The operands of the warp as plain matrices, one product with k ascending, and back. Products of two 16-bit
// values are exact in f32, so the order of the additions is all that the emulation chooses.
template <class Load>
void apply_mma(WarpRecord* const* records, Load load) {
  float a[16][16], b[16][8], d[16][8];
  const auto pair = [&load](std::uint32_t bits, float& low, float& high) {
    low = load(static_cast<std::uint16_t>(bits));
    high = load(static_cast<std::uint16_t>(bits >> 16));
  };
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    const auto& r = *static_cast<const MmaRecord*>(records[lane]);
    const unsigned g = lane / 4, c = lane % 4 * 2;
    pair(r.a[0], a[g][c], a[g][c + 1]);
    pair(r.a[1], a[g + 8][c], a[g + 8][c + 1]);
    pair(r.a[2], a[g][c + 8], a[g][c + 9]);
    pair(r.a[3], a[g + 8][c + 8], a[g + 8][c + 9]);
    pair(r.b[0], b[c][g], b[c + 1][g]);
    pair(r.b[1], b[c + 8][g], b[c + 9][g]);
    d[g][c] = r.d[0], d[g][c + 1] = r.d[1];
    d[g + 8][c] = r.d[2], d[g + 8][c + 1] = r.d[3];
  }
  for (int row = 0; row < 16; ++row)
    for (int k = 0; k < 16; ++k)
      for (int column = 0; column < 8; ++column)
        d[row][column] = std::fma(a[row][k], b[k][column], d[row][column]);
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    float* to = static_cast<const MmaRecord*>(records[lane])->d;
    const unsigned g = lane / 4, c = lane % 4 * 2;
    to[0] = d[g][c], to[1] = d[g][c + 1];
    to[2] = d[g + 8][c], to[3] = d[g + 8][c + 1];
  }
}
void apply_mma_bf16(WarpRecord* const* records) { apply_mma(records, value_of_bf16); }
void apply_mma_f16(WarpRecord* const* records) {
  static const F16Values values;
  apply_mma(records, [](std::uint16_t bits) { return values.of[bits]; });
}

void apply_ldmatrix(WarpRecord* const* records) {
  const int count = static_cast<const LdmatrixRecord*>(records[0])->count;
  for (int i = 0; i < count; ++i) {
    std::uint16_t matrix[8][8];
    for (int row = 0; row < 8; ++row)
      std::memcpy(matrix[row], static_cast<const LdmatrixRecord*>(records[8 * i + row])->row, 16);
    for (unsigned lane = 0; lane < kWarp; ++lane) {
      const auto& r = *static_cast<const LdmatrixRecord*>(records[lane]);
      const unsigned g = lane / 4, c = lane % 4 * 2;
      const std::uint16_t low = r.transposed ? matrix[c][g] : matrix[g][c],
                          high = r.transposed ? matrix[c + 1][g] : matrix[g][c + 1];
      r.registers[i] = static_cast<std::uint32_t>(high) << 16 | low;
    }
  }
}

void whole_warp(detail::WarpOperation operation, WarpRecord& record, const char* name, Site site) {
  Executor& executor = Executor::of_this_thread();
  const dim3& block = executor.config().block;
  if (block.x * block.y * block.z % kWarp != 0)
    executor.fail(std::string(name) + " " + text_of(site) +
                  ": the block's last warp has fewer than 32 lanes");
  executor.collective(operation, 0xffffffffu, reinterpret_cast<std::uint64_t>(&record), 0, site);
}

bool aligned(const void* pointer, std::uint32_t bytes) {
  return reinterpret_cast<std::uintptr_t>(pointer) % bytes == 0;
}

}  // namespace

void AsyncCopies::add(void* to, const void* from, std::uint32_t bytes, Site site) {
  Executor& executor = Executor::of_this_thread();
  executor.leave();
  copies_.push_back({to, from, bytes, closed_, site});
  executor.touch(detail::Access::read, from, bytes, site);
  executor.touch(detail::Access::async_write, to, bytes, site);
}

void AsyncCopies::wait(std::uint64_t pending) {
  Executor& executor = Executor::of_this_thread();
  // Groups are numbered from 0; those below `done` have landed.
  const std::uint64_t done = closed_ > pending ? closed_ - pending : 0;
  std::size_t landed = 0;
  for (; landed < copies_.size() && copies_[landed].group < done; ++landed) {
    const Copy& c = copies_[landed];
    executor.touch(detail::Access::read, c.from, c.bytes, c.site);  // it may have been read as late as now
    executor.touch(detail::Access::async_landing, c.to, c.bytes, c.site);
    executor.leave();
    std::memcpy(c.to, c.from, c.bytes);
  }
  executor.leave();
  copies_.erase(copies_.begin(), copies_.begin() + static_cast<std::ptrdiff_t>(landed));
  executor.go_back();
}

inline namespace cpu {
namespace detail {

void async_copy(void* shared, const void* global, std::uint32_t bytes, Site site) {
  Executor& executor = Executor::of_this_thread();
  if (!aligned(shared, bytes) || !aligned(global, bytes))
    executor.fail("cp.async " + text_of(site) + ": address not aligned to " + std::to_string(bytes) +
                  " bytes");
  executor.copies().add(shared, global, bytes, site);
}
void async_commit() { Executor::of_this_thread().copies().commit(); }
void async_wait(unsigned pending) { Executor::of_this_thread().copies().wait(pending); }

void ldmatrix(std::uint32_t* registers, int count, bool transposed, const void* row, Site site) {
  Executor& executor = Executor::of_this_thread();
  if (executor.lane() < 8u * static_cast<unsigned>(count) && !aligned(row, 16))
    executor.fail("ldmatrix " + text_of(site) + ": row not aligned to 16 bytes");
  if (executor.lane() < 8u * static_cast<unsigned>(count))
    executor.touch(detail::Access::read, row, 16, site);
  LdmatrixRecord record;
  record.apply = apply_ldmatrix;
  record.row = row;
  record.registers = registers;
  record.count = count;
  record.transposed = transposed;
  whole_warp(WarpOperation::ldmatrix, record, "ldmatrix", site);
}

void mma(float* d, const std::uint32_t* a, const std::uint32_t* b, bool bf16, Site site) {
  MmaRecord record;
  record.apply = bf16 ? apply_mma_bf16 : apply_mma_f16;
  record.a = a;
  record.b = b;
  record.d = d;
  whole_warp(WarpOperation::mma, record, "mma.sync", site);
}

}  // namespace detail
}  // namespace cpu
}  // namespace sinktrap::simt
