#include "judge/compare.hpp"

#include <fmt/format.h>

#include <cmath>

#include "judge/buffer.hpp"

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
      : expected_(static_cast<std::int64_t>(expected)), size_(found.size()), row_of_(row_of) {
    if (row_of_ != nullptr && !row_of_->empty()) width_ = size_ / static_cast<std::int64_t>(row_of_->size());
  }
  bool fit() const {
    if (row_of_ == nullptr) return expected_ == size_;
    if (width_ * static_cast<std::int64_t>(row_of_->size()) != size_) return false;
    for (const std::int32_t r : *row_of_)
      if (r < 0 || (r + 1) * width_ > expected_) return false;
    return true;
  }
  template <class Visit>
  void for_each(Visit visit) const {
    if (row_of_ == nullptr) {
      for (std::int64_t i = 0; i < size_; ++i) visit(i, static_cast<std::size_t>(i));
      return;
    }
    for (std::size_t t = 0; t < row_of_->size(); ++t) {
      const std::int64_t from = (*row_of_)[t] * width_, to = static_cast<std::int64_t>(t) * width_;
      for (std::int64_t h = 0; h < width_; ++h) visit(to + h, static_cast<std::size_t>(from + h));
    }
  }

 private:
  std::int64_t expected_, size_, width_ = 0;
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
  rows.for_each([&](std::int64_t i, std::size_t k) {
    const double e = expected[k], f = found.at(i);
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
  rows.for_each([&](std::int64_t i, std::size_t k) {
    if (std::isinf(error[k])) {
      ++unjudged;
      return;
    }
    const double f = found.at(i), off = std::fabs(f - exact[k]);
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
