// Integer vectors, and weight rows that have prescribed integer products with them: the lattice's dot
// products.
//
// A pattern is C vectors (classes) over K coordinates. Each vector has a private pair of coordinates, zero in
// all other vectors, that holds two different odd coprime integers; the other coordinates, the pool, hold
// small integers in several vectors. A row is first drawn at random on the pool, and then each class's pair
// brings the product with that class to its target by itself: pa wa + pb wb = D has integer solutions for
// every D.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "cases/random.hpp"

namespace sinktrap {

// At most this many classes; more would make pairs rather than the pool the greater part of a row of usual
// width.
inline constexpr int kMaxClasses = 12;

// Sums of magnitudes. The certificate allows 2^23 granules for a base sum and a LoRA sum together. Each of
// the two gets 2^22: one half for the pool, one half for the pairs.
inline constexpr std::int64_t kPoolBudget = std::int64_t{1} << 21;
inline constexpr std::int64_t kPairBudget = std::int64_t{1} << 21;

class Pattern {
 public:
  Pattern() = default;
  // 1 <= classes <= max(1, width / 2) and kMaxClasses. Pool entries have magnitude 1..pool_max, pairs 9..15
  // or 17..wide; weights of rows will stay within +-weight.
  Pattern(Random& random, int classes, std::int64_t width, int pool_max, int wide, int weight);
  // One coordinate, one class, the value +-magnitude.
  static Pattern single(Random& random, int magnitude);

  int classes() const { return classes_; }
  std::int64_t width() const { return width_; }
  std::int32_t value(int c, std::int64_t k) const {
    return values_[static_cast<std::size_t>(k * classes_ + c)];
  }

  // Rows are closed in batches of this many: one random number serves a column of all of them.
  static constexpr int kLanes = 8;
  using Lanes = std::array<std::int16_t, kLanes>;
  using Batch = std::vector<Lanes>;  // [width][lane]
  // Products wanted: [class][lane].
  using Targets = std::array<std::array<std::int32_t, kLanes>, kMaxClasses>;

  // Draws weights so that each lane's products with the classes are the targets. Any target of magnitude
  // <= min over pairs of pb (weight - pa) can be reached (at least 9 (254 - 15) = 2151).
  void close(Random& random, const Targets& targets, Batch& w) const;

 private:
  struct Pair {
    std::uint32_t a = 0, b = 0;      // coordinates
    std::int32_t pa = 1, pb = 1;     // magnitudes
    std::int32_t inverse = 0;        // pa^-1 modulo pb
    float over_pa = 1, over_pb = 1;  // 1 / pa, 1 / pb
    std::int32_t reach = 0;          // pb (weight - pa): every |D| <= reach can be made
  };
  void draw_pool(Random& random, Targets& sums, Batch& w) const;
  void shrink_pool(const Targets& targets, Targets& sums, Batch& w) const;
  using Rests = std::array<std::int32_t, kLanes>;
  void solve_pair(Random& random, int c, const Rests& rests, Batch& w) const;

  int classes_ = 0;
  std::int64_t width_ = 0;
  std::int32_t pool_max_ = 1, weight_ = 1;
  std::vector<std::int16_t> values_;  // [width][classes]
  std::vector<Pair> pairs_;           // one for each class; none when there is a single coordinate
  std::vector<std::uint32_t> pool_;   // coordinates in random order
};

// Closes `rows` rows: target(row, class) is the product wanted; emit(row, w) gets the finished row, `width`
// weights.
template <class Target, class Emit>
void close_rows(const Pattern& pattern, Random& random, std::int64_t rows, Target target, Emit emit) {
  Pattern::Batch batch(static_cast<std::size_t>(pattern.width()));
  Pattern::Targets targets{};
  std::vector<std::int16_t> weights(batch.size());
  for (std::int64_t first = 0; first < rows; first += Pattern::kLanes) {
    const auto lanes = static_cast<int>(rows - first < Pattern::kLanes ? rows - first : Pattern::kLanes);
    for (int c = 0; c < pattern.classes(); ++c)
      for (int l = 0; l < lanes; ++l)
        targets[static_cast<std::size_t>(c)][static_cast<std::size_t>(l)] = target(first + l, c);
    pattern.close(random, targets, batch);
    for (int l = 0; l < lanes; ++l) {
      for (std::size_t k = 0; k < batch.size(); ++k) weights[k] = batch[k][static_cast<std::size_t>(l)];
      emit(first + l, weights.data());
    }
  }
}

}  // namespace sinktrap
