// What an implementation did during one judgement: every verdict and every byte that it gave back, as one
// number. Two implementations with the same transcript cannot be told apart by the case.
#pragma once
#include <cstdint>
#include <string_view>

#include "cases/tensor.hpp"
#include "contract/verdict.hpp"

namespace sinktrap {

class Transcript {
 public:
  // While it lives, sessions of this process write into it.
  Transcript() { current() = this; }
  ~Transcript() { current() = nullptr; }
  Transcript(const Transcript&) = delete;
  Transcript& operator=(const Transcript&) = delete;

  std::uint64_t number() const { return number_; }

  // Nothing without a transcript. -0 counts as 0 and every NaN as one: the contract leaves both free.
  static void record(std::string_view operation, const Verdict& verdict) {
    if (Transcript* t = current()) {
      for (const char c : operation) t->add(static_cast<unsigned char>(c));
      for (const std::int64_t v : {std::int64_t{verdict.code}, std::int64_t{verdict.buffer},
                                   std::int64_t{verdict.axis}, verdict.found, verdict.expected})
        t->add(static_cast<std::uint64_t>(v));
    }
  }
  static void record(const Tensor& tensor) {
    if (Transcript* t = current())
      for (std::int64_t i = 0; i < tensor.size(); ++i) {
        const double v = tensor.at(i);
        std::uint64_t bits = 1;  // no double of a storage type has these bits: any NaN
        if (v == v) std::memcpy(&bits, &v, sizeof bits);
        t->add(v == 0.0 ? 0 : bits);
      }
  }

 private:
  static Transcript*& current() {
    static Transcript* transcript = nullptr;
    return transcript;
  }
  // The mixing step of splitmix64 (Steele, Lea, Flood 2014).
  void add(std::uint64_t value) {
    number_ = (number_ ^ value) + 0x9e3779b97f4a7c15ull;
    number_ = (number_ ^ (number_ >> 30)) * 0xbf58476d1ce4e5b9ull;
    number_ = (number_ ^ (number_ >> 27)) * 0x94d049bb133111ebull;
    number_ ^= number_ >> 31;
  }
  std::uint64_t number_ = 0;
};

}  // namespace sinktrap
