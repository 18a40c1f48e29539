#include "judge/compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "judge/buffer.hpp"
#include "reference/rows.hpp"

namespace sinktrap {
namespace {

// Collects differences and makes the sentence of the result.
class Differences {
 public:
  Differences(std::string_view what, const Tensor& found) : what_(what), found_(found) {}

  void add(std::int64_t i, std::string expected) {
    if (count_++ < static_cast<std::int64_t>(kShownDifferences))
      details_.push_back(fmt::format("{}{}: expected {}, found {}", what_, index_text(found_.shape(), i),
                                     expected, value_text(found_.at(i))));
  }
  static std::string value_text(double v) { return fmt::format("{:.9g}", v); }

  Judgement result() && {
    Judgement j;
    j.elements = found_.size();
    if (count_ == 0) return j;
    j.status = Status::failed;
    j.reason = fmt::format("{} of {} elements of {} differ", count_, found_.size(), what_);
    if (count_ > static_cast<std::int64_t>(details_.size()))
      details_.push_back(fmt::format("... and {} more", count_ - static_cast<std::int64_t>(details_.size())));
    j.details = std::move(details_);
    return j;
  }

 private:
  std::string_view what_;
  const Tensor& found_;
  std::int64_t count_ = 0;
  std::vector<std::string> details_;
};

// Pairs every element of `found` with its place in the expected values.
class Rows {
 public:
  Rows(std::size_t expected, const Tensor& found, const std::vector<std::int32_t>* row_of)
      : expected_(static_cast<std::int64_t>(expected)), found_(found), row_of_(row_of) {
    if (row_of_ != nullptr && !row_of_->empty())
      width_ = found.size() / static_cast<std::int64_t>(row_of_->size());
  }
  bool fit() const {
    if (row_of_ == nullptr) return expected_ == found_.size();
    if (width_ * static_cast<std::int64_t>(row_of_->size()) != found_.size()) return false;
    for (const std::int32_t r : *row_of_)
      if (r < 0 || (r + 1) * width_ > expected_) return false;
    return true;
  }
  // visit(index in found, index in the expected values, value found)
  template <class Visit>
  void for_each(Visit visit) const {
    std::vector<float> values;
    if (row_of_ == nullptr) {
      for (std::int64_t i = 0; i < found_.size(); i += kChunk)
        run(i, i, std::min(kChunk, found_.size() - i), values, visit);
      return;
    }
    for (std::size_t t = 0; t < row_of_->size(); ++t)
      run((*row_of_)[t] * width_, static_cast<std::int64_t>(t) * width_, width_, values, visit);
  }

 private:
  static constexpr std::int64_t kChunk = 4096;  // decoded at once: 16 KiB of floats stay in the cache

  template <class Visit>
  void run(std::int64_t from, std::int64_t to, std::int64_t count, std::vector<float>& values,
           Visit& visit) const {
    if (!is_storage(found_.type())) {
      for (std::int64_t i = 0; i < count; ++i)
        visit(to + i, static_cast<std::size_t>(from + i), found_.at(to + i));
      return;
    }
    values.resize(static_cast<std::size_t>(std::max<std::int64_t>(count, 0)));
    reference::decode(found_.type(), found_.bytes().data(), to, count, values.data());
    for (std::int64_t i = 0; i < count; ++i)
      visit(to + i, static_cast<std::size_t>(from + i), double{values[static_cast<std::size_t>(i)]});
  }

  std::int64_t expected_, width_ = 0;
  const Tensor& found_;
  const std::vector<std::int32_t>* row_of_;
};

Judgement wrong_shape(std::string_view what) {
  Judgement j;
  j.status = Status::failed;
  j.reason = fmt::format("{} has the wrong shape or type", what);
  return j;
}

}  // namespace

Judgement compare_exact(const std::vector<double>& expected, const Tensor& found, std::string_view what,
                        const std::vector<std::int32_t>* row_of) {
  const Rows rows(expected.size(), found, row_of);
  if (!rows.fit()) return wrong_shape(what);
  Differences differences(what, found);
  rows.for_each([&](std::int64_t i, std::size_t k, double f) {
    const double e = expected[k];
    const bool same = e == 0.0 ? std::fabs(f) < kZeroOnLattice : e == f;
    if (!same) differences.add(i, Differences::value_text(e));
  });
  return std::move(differences).result();
}

Judgement compare_bits(const Tensor& expected, const Tensor& found, std::string_view what) {
  if (expected.shape() != found.shape() || expected.type() != found.type()) return wrong_shape(what);
  Differences differences(what, found);
  if (expected.same_bits(found)) return std::move(differences).result();
  const int width = element_bytes(found.type());
  for (std::int64_t i = 0; i < found.size(); ++i) {
    const std::byte* e = expected.bytes().data() + i * width;
    if (std::equal(e, e + width, found.bytes().data() + i * width)) continue;
    if (std::isnan(expected.at(i)) && std::isnan(found.at(i))) continue;
    differences.add(i, Differences::value_text(expected.at(i)));
  }
  return std::move(differences).result();
}

Judgement compare_bounded(const std::vector<double>& exact, const std::vector<double>& error,
                          const Tensor& found, std::string_view what,
                          const std::vector<std::int32_t>* row_of) {
  const Rows rows(exact.size(), found, row_of);
  if (!rows.fit() || error.size() != exact.size()) return wrong_shape(what);
  Differences differences(what, found);
  double use = 0;
  std::int64_t unjudged = 0, use_at = -1;
  rows.for_each([&](std::int64_t i, std::size_t k, double f) {
    if (std::isinf(error[k])) {
      ++unjudged;
      return;
    }
    const double off = std::fabs(f - exact[k]);
    if (std::isfinite(off) && error[k] > 0 && off / error[k] > use)
      use = off / error[k], use_at = static_cast<std::int64_t>(k);
    if (!(off <= error[k])) differences.add(i, fmt::format("{:.9g} within {:.3g}", exact[k], error[k]));
  });
  Judgement j = std::move(differences).result();
  j.bound_use = use;
  j.bound_at = use_at;
  j.unjudged = unjudged;
  return j;
}

}  // namespace sinktrap
