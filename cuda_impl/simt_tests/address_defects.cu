// Accesses outside of what was allocated, and misaligned ones. Reads leave no trace: only AddressSanitizer,
// which is told what lies outside, finds them.
#include "cuda_impl/simt/ptx.hpp"
#include "cuda_impl/simt_tests/defects.hpp"

namespace sinktrap::simt {
namespace {

// One more than a multiple of what poisoning could round to.
constexpr unsigned kThreads = 65;

__global__ void static_shared_tail(bool defect, float* out) {
  auto& tile = shared<float[kThreads], struct StaticTail>();
  float* values = tile;  // as a pointer: UndefinedBehaviorSanitizer cannot see the bound
  const unsigned t = threadIdx.x;
  values[t] = 1.0f;
  __syncthreads();
  out[t] = values[defect ? t + 1 : t];  // defect: static_shared_tail
}

__global__ void dynamic_shared_tail(bool defect, float* out) {
  auto* values = dynamic_shared<float>();
  const unsigned t = threadIdx.x;
  values[t] = 1.0f;
  __syncthreads();
  out[t] = values[defect ? t + 1 : t];  // defect: dynamic_shared_tail
}

__global__ void global_tail(bool defect, const short* in, float* out) {
  const unsigned t = threadIdx.x;
  out[t] = in[defect ? t + 1 : t];  // defect: global_tail
}

__global__ void global_head(bool defect, float* out) {
  float* first = out + threadIdx.x;
  first[defect && threadIdx.x == 0 ? -1 : 0] = 1.0f;  // defect: global_head
}

// A tail that is shorter than the vector which reads it.
__global__ void copied_tail(bool defect, const int* in, int* out) {
  auto& stage = shared<int[4], struct CopiedTail>();
  if (defect)
    cp_async<16>(stage, in);  // defect: copied_tail
  else
    for (int i = 0; i < 3; ++i) cp_async<4>(&stage[i], in + i);
  cp_async_commit();
  cp_async_wait<0>();
  out[0] = stage[0];
}

struct alignas(16) Vector {
  float v[4];
};
__global__ void misaligned_vector(bool defect, const float* in, float* out) {
  const auto* vectors = reinterpret_cast<const Vector*>(in + (defect ? 1 : 0));
  out[0] = vectors->v[2];  // defect: misaligned_vector
}

template <class T, class... Rest>
bool over_floats(const Config& config, void (*kernel)(bool, T*, Rest...), bool defect) {
  const Zeros<float> out(kThreads);
  if constexpr (sizeof...(Rest) == 0) {
    return launch(config, kernel, defect, out.get());
  } else {
    const Zeros<std::remove_const_t<T>> in(kThreads);
    return launch(config, kernel, defect, in.get(), out.get());
  }
}

}  // namespace

std::vector<Defect> address_defects() {
  static const char* const file = "address_defects.cu";
  static const char* const address = "AddressSanitizer: use-after-poison";
  return {
      {"static_shared_tail", file, address,
       [](bool defect) {
         return over_floats({2, kThreads}, static_shared_tail, defect);
       }},
      {"dynamic_shared_tail", file, address,
       [](bool defect) {
         return over_floats({2, kThreads, kThreads * sizeof(float)}, dynamic_shared_tail, defect);
       }},
      {"global_tail", file, address,
       [](bool defect) {
         return over_floats({1, kThreads}, global_tail, defect);
       }},
      {"global_head", file, address,
       [](bool defect) {
         return over_floats({1, kThreads}, global_head, defect);
       }},
      {"copied_tail", file, address,
       [](bool defect) {
         const Zeros<int> in(3), out(1);
         return launch({1, 1}, copied_tail, defect, in.get(), out.get());
       }},
      {"misaligned_vector", file, "misaligned address",
       [](bool defect) {
         return over_floats({1, 1}, misaligned_vector, defect);
       }},
  };
}

}  // namespace sinktrap::simt
