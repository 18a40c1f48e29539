// Capture and replay of the executor: what a graph freezes, what it looks at anew, and what may not be
// captured.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "cuda_impl/simt/simt.hpp"

namespace sinktrap::simt {
namespace {

__global__ void add_kernel(int* values, const int* amount, int factor) {
  values[blockIdx.x * blockDim.x + threadIdx.x] += *amount * factor;
}

// Eight values and an amount in device memory.
class Capture : public testing::Test {
 protected:
  Capture() : values_(static_cast<int*>(allocate(32))), amount_(static_cast<int*>(allocate(4))) {
    fill(values_, 0, 32);
    *amount_ = 1;
  }
  ~Capture() override {
    Graph* left = end_capture();  // of a test that failed half way
    release_graph(left);
    release(values_);
    release(amount_);
  }
  int* values_;
  int* amount_;
};

TEST_F(Capture, NothingRunsBeforeTheReplay) {
  ASSERT_TRUE(begin_capture());
  ASSERT_TRUE(launch({2, 4}, add_kernel, values_, amount_, 1));
  Graph* graph = end_capture();
  ASSERT_NE(graph, nullptr) << error();
  EXPECT_EQ(values_[0], 0);
  ASSERT_TRUE(replay(graph)) << error();
  EXPECT_EQ(values_[0], 1);
  ASSERT_TRUE(replay(graph)) << error();
  EXPECT_EQ(values_[7], 2);
  EXPECT_TRUE(release_graph(graph));
}

TEST_F(Capture, ArgumentsAndGridAreFrozenAndMemoryIsNot) {
  unsigned blocks = 1;
  int factor = 10;
  ASSERT_TRUE(begin_capture());
  ASSERT_TRUE(launch({blocks, 4}, add_kernel, values_, amount_, factor));
  Graph* graph = end_capture();
  ASSERT_NE(graph, nullptr) << error();
  blocks = 2, factor = 20;
  *amount_ = 3;
  ASSERT_TRUE(replay(graph)) << error();
  EXPECT_EQ(values_[3], 30) << "the factor is that of the capture, the amount that of the replay";
  EXPECT_EQ(values_[4], 0) << "the grid is that of the capture";
  release_graph(graph);
}

TEST_F(Capture, NodesRunInTheirOrder) {
  ASSERT_TRUE(begin_capture());
  ASSERT_TRUE(fill(values_, 0, 16));
  ASSERT_TRUE(launch({2, 4}, add_kernel, values_, amount_, 1));
  ASSERT_TRUE(copy(values_ + 4, values_, 16));
  Graph* graph = end_capture();
  ASSERT_NE(graph, nullptr) << error();
  for (int i = 0; i < 8; ++i) values_[i] = 100;
  ASSERT_TRUE(replay(graph)) << error();
  EXPECT_EQ(values_[0], 1);
  EXPECT_EQ(values_[4], 1);
  release_graph(graph);
}

TEST_F(Capture, WhatWaitsOrAllocatesSpoilsIt) {
  const struct {
    const char* name;
    bool (*call)(int*);
  } calls[] = {{"read", [](int* v) { return read(v, v + 1, 4); }},
               {"write", [](int* v) { return write(v, v + 1, 4); }},
               {"synchronise", [](int*) { return synchronise(); }},
               {"allocate", [](int*) { return allocate(4) != nullptr; }},
               {"release", [](int* v) { return release(v); }}};
  for (const auto& c : calls) {
    ASSERT_TRUE(begin_capture());
    EXPECT_FALSE(c.call(values_)) << c.name;
    EXPECT_NE(std::string(error()).find(c.name), std::string::npos) << error();
    EXPECT_FALSE(launch({1, 1}, add_kernel, values_, amount_, 1)) << c.name;
    EXPECT_EQ(end_capture(), nullptr) << c.name;
    EXPECT_NE(std::string(error()).find(c.name), std::string::npos) << error();
  }
  EXPECT_TRUE(synchronise()) << "afterwards everything is allowed again";
}

TEST_F(Capture, AGridThatNoLaunchTakesIsRefusedAtOnce) {
  ASSERT_TRUE(begin_capture());
  EXPECT_FALSE(launch({0, 4}, add_kernel, values_, amount_, 1));
  EXPECT_EQ(end_capture(), nullptr);
  EXPECT_NE(std::string(error()).find("grid outside"), std::string::npos) << error();
}

TEST_F(Capture, BeginAndEndComeInPairs) {
  EXPECT_EQ(end_capture(), nullptr);
  ASSERT_TRUE(begin_capture());
  EXPECT_FALSE(begin_capture());
  Graph* empty = end_capture();
  ASSERT_NE(empty, nullptr);
  EXPECT_TRUE(replay(empty)) << "a graph without nodes does nothing";
  ASSERT_TRUE(begin_capture());
  EXPECT_FALSE(replay(empty));
  EXPECT_EQ(end_capture(), nullptr);
  release_graph(empty);
}

__global__ void fail_kernel() {
  if (threadIdx.x == 0) __syncthreads();
}

TEST_F(Capture, AFaultOfAReplayEndsIt) {
  ASSERT_TRUE(begin_capture());
  ASSERT_TRUE(launch({1, 2}, fail_kernel));
  ASSERT_TRUE(launch({1, 1}, add_kernel, values_, amount_, 1));
  Graph* graph = end_capture();
  ASSERT_NE(graph, nullptr) << error();
  EXPECT_FALSE(replay(graph));
  EXPECT_NE(std::string(error()).find("barrier divergence"), std::string::npos) << error();
  EXPECT_EQ(values_[0], 0);
  release_graph(graph);
}

}  // namespace
}  // namespace sinktrap::simt
