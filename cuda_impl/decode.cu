#include "cuda_impl/records.hpp"
namespace sinktrap::cuda_impl::SINKTRAP_TARGET {
void choose_splits(ForwardView& v) { v.up_splits = v.down_splits = 1; }
bool run_decode(const ForwardView&) { return false; }
}  // namespace sinktrap::cuda_impl::SINKTRAP_TARGET
