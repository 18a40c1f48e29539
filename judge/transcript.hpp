// What an implementation did during one judgement: every verdict and every byte that it gave back, as one
// number. Two implementations with the same transcript cannot be told apart by the case. The entries in
// between say where two of them part.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cases/tensor.hpp"
#include "contract/verdict.hpp"

namespace sinktrap {

// What entries are called that are no operation and no derived operand.
inline constexpr std::string_view kPoolEntry = "pool", kOutEntry = "out";
inline constexpr std::string_view kNoteWrote = "wrote where nothing may be written";
inline constexpr std::string_view kNoteRefusedWrote = "a refused call wrote";
inline constexpr std::string_view kNoteMoved = "a derived operand moved";
inline constexpr std::string_view kNoteOperand = "a derived operand differs";
inline constexpr std::string_view kNotePool = "the pool differs";
inline constexpr std::string_view kNoteVerdict = "the verdict differs";

class Transcript {
 public:
  // While it lives, sessions of this process write into it.
  Transcript() { current() = this; }
  ~Transcript() { current() = nullptr; }
  Transcript(const Transcript&) = delete;
  Transcript& operator=(const Transcript&) = delete;

  std::uint64_t number() const { return number_; }

  // One verdict (what: the operation), one tensor, or a note. `number` is of this entry alone.
  enum class Kind : std::uint8_t { verdict, tensor, note };
  struct Entry {
    Kind kind = Kind::verdict;
    std::string what;
    std::uint64_t number = 0;
  };
  const std::vector<Entry>& entries() const { return entries_; }

  // Nothing without a transcript. -0 counts as 0 and every NaN as one: the contract leaves both free.
  static void record(std::string_view operation, const Verdict& verdict) {
    if (Transcript* t = current()) {
      const Writing entry(*t, Kind::verdict, operation);
      t->add(operation);
      for (const std::int64_t v : {std::int64_t{verdict.code}, std::int64_t{verdict.buffer},
                                   std::int64_t{verdict.axis}, verdict.found, verdict.expected})
        t->add(static_cast<std::uint64_t>(v));
    }
  }
  static void record(std::string_view what, const Tensor& tensor) {
    if (Transcript* t = current()) {
      const Writing entry(*t, Kind::tensor, what);
      for (std::int64_t i = 0; i < tensor.size(); ++i) {
        const double v = tensor.at(i);
        std::uint64_t bits = 1;  // no double of a storage type has these bits: any NaN
        if (v == v) std::memcpy(&bits, &v, sizeof bits);
        t->add(v == 0.0 ? 0 : bits);
      }
    }
  }
  // Something that a right implementation never has: a write where none is allowed, an operand that moved.
  static void note(std::string_view what) {
    if (Transcript* t = current()) {
      const Writing entry(*t, Kind::note, what);
      t->add(what);
    }
  }

 private:
  static Transcript*& current() {
    static Transcript* transcript = nullptr;
    return transcript;
  }
  // Makes the entry when its numbers are in.
  class Writing {
   public:
    Writing(Transcript& t, Kind kind, std::string_view what)
        : t_(t), kind_(kind), what_(what), before_(std::exchange(t.number_, 0)) {}
    ~Writing() {
      t_.entries_.push_back({kind_, std::string(what_), t_.number_});
      t_.add(before_);
    }
    Writing(const Writing&) = delete;
    Writing& operator=(const Writing&) = delete;

   private:
    Transcript& t_;
    Kind kind_;
    std::string_view what_;
    std::uint64_t before_;
  };
  void add(std::string_view text) {
    for (const char c : text) add(static_cast<unsigned char>(c));
  }
  // The mixing step of splitmix64 (Steele, Lea, Flood 2014).
  void add(std::uint64_t value) {
    number_ = (number_ ^ value) + 0x9e3779b97f4a7c15ull;
    number_ = (number_ ^ (number_ >> 30)) * 0xbf58476d1ce4e5b9ull;
    number_ = (number_ ^ (number_ >> 27)) * 0x94d049bb133111ebull;
    number_ ^= number_ >> 31;
  }
  std::uint64_t number_ = 0;
  std::vector<Entry> entries_;
};

}  // namespace sinktrap
