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

Judgement wrong_shape(std::string_view what) {
  Judgement j;
  j.status = Status::failed;
  j.reason = fmt::format("{} has the wrong shape or type", what);
  return j;
}

}  // namespace

Judgement compare_exact(const std::vector<double>& expected, const Tensor& found, std::string_view what) {
  if (static_cast<std::int64_t>(expected.size()) != found.size()) return wrong_shape(what);
  Differences differences(what, found);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double e = expected[i], f = found.at(static_cast<std::int64_t>(i));
    const bool same = e == 0.0 ? std::fabs(f) < kZeroOnLattice : e == f;
    if (!same) differences.add(static_cast<std::int64_t>(i), Differences::value_text(e));
  }
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
                          const Tensor& found, std::string_view what) {
  if (static_cast<std::int64_t>(exact.size()) != found.size() || error.size() != exact.size())
    return wrong_shape(what);
  Differences differences(what, found);
  double use = 0;
  std::int64_t unjudged = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    if (std::isinf(error[i])) {
      ++unjudged;
      continue;
    }
    const double f = found.at(static_cast<std::int64_t>(i)), off = std::fabs(f - exact[i]);
    if (off <= error[i]) {
      if (error[i] > 0) use = std::max(use, off / error[i]);
      continue;
    }
    if (std::isfinite(off) && error[i] > 0) use = std::max(use, off / error[i]);
    differences.add(static_cast<std::int64_t>(i), fmt::format("{:.9g} within {:.3g}", exact[i], error[i]));
  }
  Judgement j = std::move(differences).result();
  j.bound_use = use;
  j.unjudged = unjudged;
  return j;
}

}  // namespace sinktrap
