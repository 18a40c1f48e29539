// Tensors of empty pages: they take no memory, whatever a session does with them, and a change in them is
// found where it is. And what the machine has left.
#include "judge/memory.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "judge/buffer.hpp"
#include "judge/status.hpp"
#include "reference/table.hpp"

namespace sinktrap {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

const Implementation& reference_on_the_host() {
  static const auto made = Implementation::from_table(reference::f64_table(), "reference", "");
  return *made;
}

// The same with memory functions of its own, as a device has them.
const Implementation& own_memory() {
  static sinktrap_implementation_table table = *reference::f64_table();
  table.memory.allocate = [](std::uint64_t bytes) { return std::malloc(bytes); };
  table.memory.release = [](void* p) { std::free(p); };
  table.memory.write = [](void* to, const void* from, std::uint64_t bytes) -> std::int32_t {
    std::memcpy(to, from, bytes);
    return SINKTRAP_OK;
  };
  table.memory.read = table.memory.write;
  static const auto made = Implementation::from_table(&table, "own", "");
  return *made;
}

TEST(Bytes, PagesOfZerosTakeNoMemory) {
  if (guards_are_poisoned()) GTEST_SKIP() << "AddressSanitizer writes shadow memory for every allocation";
  const std::int64_t before = resident_bytes(), elements = 512 * kMiB / 4;
  Tensor sparse(Element::f32, {elements});
  sparse.set(elements - 1, 7);
  const Tensor copy = sparse;
  const Buffer buffer(reference_on_the_host(), "sparse", copy);
  const Tensor back = buffer.read();
  EXPECT_EQ(buffer.changed(), "");
  EXPECT_TRUE(back.same_bits(sparse));
  EXPECT_EQ(back.at(elements - 1), 7);
  // Five tensors of 512 MiB; the last piece of each is copied whole, which is all that may be there.
  EXPECT_LT(resident_bytes() - before, 5 * static_cast<std::int64_t>(kSparseBytes) + 16 * kMiB);
}

TEST(Bytes, ACopyIsWholeAndItsOwn) {
  for (const std::int64_t elements :
       {std::int64_t{0}, std::int64_t{5}, static_cast<std::int64_t>(kSparseBytes) / 2 + 3}) {
    Tensor a(Element::bf16, {elements});
    for (std::int64_t i = 0; i < elements; i += 1 + elements / 7) a.set(i, static_cast<double>(i % 5 + 1));
    Tensor b = a, c(Element::bf16, {elements});
    c = a;
    EXPECT_TRUE(a.same_bits(b) && a.same_bits(c));
    if (elements == 0) continue;
    b.set(elements - 1, 9);
    c.set(0, 9);
    EXPECT_FALSE(a.same_bits(b) || a.same_bits(c));
    c = b;  // over other contents of the same size
    EXPECT_TRUE(c.same_bits(b));
    const Tensor moved = std::move(c);
    EXPECT_TRUE(moved.same_bits(b));
  }
}

TEST(Buffer, AChangeIsNamedInEveryPiece) {
  const std::int64_t piece = static_cast<std::int64_t>(kSparseBytes) / 2, elements = 2 * piece + 100;  // bf16
  for (const Implementation* implementation : {&reference_on_the_host(), &own_memory()})
    for (const std::int64_t at : {std::int64_t{0}, piece - 1, piece, 2 * piece + 99}) {
      const Buffer buffer(*implementation, "pool", Tensor(Element::bf16, {2, elements / 2}));
      EXPECT_EQ(buffer.changed(), "");
      store_element(Element::bf16, buffer.view().data, at, 2.5);
      EXPECT_EQ(buffer.changed(),
                fmt::format("pool[{},{}] changed from 0 to 2.5", at / (elements / 2), at % (elements / 2)));
      EXPECT_EQ(buffer.read().at(at), 2.5);
      EXPECT_EQ(buffer.broken_guard(), "");
    }
}

TEST(Memory, IsWhatTheMachineOrItsContainerHasLeft) {
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("sinktrap_memory_{}", getpid());
  std::filesystem::create_directories(folder);
  const auto write = [&](const char* name, const std::string& text) { std::ofstream(folder / name) << text; };
  const auto available = [&] { return available_memory((folder / "meminfo").string(), folder.string()); };
  EXPECT_EQ(available(), INT64_MAX) << "nothing can be read";
  write("meminfo", "MemTotal:       24000000 kB\nMemFree:          500000 kB\nMemAvailable:    3000000 kB\n");
  EXPECT_EQ(available(), std::int64_t{3000000} * 1024);
  write("memory.max", "max\n");
  EXPECT_EQ(available(), std::int64_t{3000000} * 1024) << "a container without a limit";
  write("memory.max", "2000000000\n");
  write("memory.current", "500000000\n");
  EXPECT_EQ(available(), 1500000000);
  write("memory.current", "2500000000\n");
  EXPECT_EQ(available(), 0) << "a limit that was lowered below the use";
  std::filesystem::remove_all(folder);
  EXPECT_GT(available_memory(), 0);
}

}  // namespace
}  // namespace sinktrap
