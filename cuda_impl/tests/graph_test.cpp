// Steps as CUDA graphs: a replay equals the direct calls, whatever changed since the capture; and twins that
// froze something are told apart. Compiled for the executor and, where nvcc is, for a GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "cuda_impl/tests/graph_fixture.hpp"

namespace sinktrap::cuda_impl::SINKTRAP_TARGET {

std::string first_difference(Kernel kernel, bool per_expert, Replayed& replayed) {
  constexpr std::int64_t kT = 7;
  Scene scene(kernel, per_expert, kT);
  scene.ids.put(std::vector<std::int32_t>(kT, 2));
  if (scene.bind().code != SINKTRAP_OK) return "bind failed";
  const auto direct = scene.make();
  if (direct->bind(scene.buffers().data()).code != SINKTRAP_OK) return "bind failed";
  replayed.capture(scene);
  for (int step = 0; step < 24; ++step) {
    // 0, 1, ... all slots in use.
    const std::int64_t used = step % (Scene::kS + 1);
    std::vector<std::int32_t> ids;
    for (std::int64_t t = 0; t < kT; ++t)
      ids.push_back(static_cast<std::int32_t>(used == 0 ? -1 : t < used ? t : scene.below(used + 1) - 1));
    std::rotate(ids.begin(), ids.begin() + scene.below(kT), ids.end());
    scene.ids.put(ids);
    std::vector<std::int64_t> rewritten;
    for (std::int64_t s = 0; s < Scene::kS; ++s)
      if (step > 4 && scene.below(3) == 0) rewritten.push_back(s);
    for (std::int64_t s : rewritten) scene.rewrite(s);

    scene.out.draw(0, scene.out.size(), [] { return 77.0; });
    const sinktrap_slot_set set{rewritten.data(), static_cast<std::int64_t>(rewritten.size())};
    direct->update(&set);
    scene.with_arguments([&](const sinktrap_forward_args& a) { return direct->forward(&a); });
    const Bytes expected = scene.out.read();
    scene.out.draw(0, scene.out.size(), [] { return 77.0; });
    replayed.replay(rewritten);
    if (scene.out.read() != expected)
      return "replay " + std::to_string(step) + " with " + std::to_string(used) + " adapters in use and " +
             std::to_string(rewritten.size()) + " rewritten";
  }
  return {};
}

namespace {

class Graph : public testing::Test {
 protected:
  void SetUp() override {
    if (!device_present()) GTEST_SKIP() << "no device: " << device_error();
  }
};

constexpr Kernel kKernels[] = {Kernel::ordered, Kernel::tiled, Kernel::mma, Kernel::decode};

class Honest : public Replayed {
 public:
  void capture(Scene& scene) override { ASSERT_EQ(scene.capture(graph_).code, SINKTRAP_OK) << last_error(); }
  void replay(const std::vector<std::int64_t>& rewritten) override {
    const sinktrap_slot_set set{rewritten.data(), static_cast<std::int64_t>(rewritten.size())};
    ASSERT_EQ(graph_->mark(&set).code, SINKTRAP_OK);
    ASSERT_EQ(graph_->replay().code, SINKTRAP_OK) << last_error();
  }

 private:
  std::unique_ptr<StepGraph> graph_;
};

TEST_F(Graph, AReplayEqualsTheDirectCalls) {
  for (Kernel kernel : kKernels)
    for (bool per_expert : {false, true}) {
      Honest honest;
      EXPECT_EQ(first_difference(kernel, per_expert, honest), "") << static_cast<int>(kernel) << per_expert;
    }
}

// What goes wrong in implementations that decide at capture. Built from the same launches.
enum class Frozen { grid, slots, update, operands };

class Twin : public Replayed {
 public:
  explicit Twin(Frozen frozen) : frozen_(frozen) {}
  ~Twin() override { device_release_graph(graph_); }
  void capture(Scene& scene) override {
    const bool shared = scene.outer == 1;
    const auto bytes = [](std::int64_t count) { return static_cast<std::uint64_t>(count) * 2; };
    ForwardView v{};
    v.T = scene.T, v.n = Scene::kN, v.H = Scene::kH, v.F = Scene::kF, v.R = Scene::kR, v.outer = scene.outer;
    v.type = Type::bf16;
    const auto at = [](DeviceTensor& t) { return t.view().data; };
    v.w13 = at(scene.w13), v.w2 = at(scene.w2), v.x = at(scene.x), v.gammas = at(scene.gammas);
    v.out = at(scene.out);
    PoolView& p = v.pool;
    p.S = Scene::kS, p.outer = v.outer, p.n = v.n, p.H = v.H, p.F = v.F, p.R = v.R;
    for (int b = 0; b < SINKTRAP_BUFFER_COUNT; ++b)
      p.buffers[b] = at(scene.pool[static_cast<std::size_t>(b)]);
    p.w1_delta = w1_.reserve(bytes(p.S * p.n * 2 * p.F * 2 * p.R));
    p.a_cat = shared ? cat_.reserve(bytes(p.S * p.R * p.n * p.F)) : nullptr;
    p.b_cat = shared ? nullptr : cat_.reserve(bytes(p.S * p.H * p.n * p.R));
    updated_ = p;
    update({0, 1, 2, 3});
    // A refresh that makes new operands leaves the captured ones behind.
    if (frozen_ == Frozen::operands) updated_.w1_delta = other_.reserve(bytes(p.S * p.n * 2 * p.F * 2 * p.R));
    const auto* ids = static_cast<const std::int32_t*>(at(scene.ids));
    v.token_slot = ids;
    const std::uint64_t id_bytes = static_cast<std::uint64_t>(v.T) * 4;
    if (frozen_ == Frozen::slots) {
      v.token_slot = static_cast<const std::int32_t*>(ids_.reserve(id_bytes));
      require_device(device_copy(ids_.get(), ids, id_bytes));
    }
    if (frozen_ == Frozen::grid) p.S = 1;  // as many as are in use: the rows of blocks are counted from it
    const ScratchPlan plan(Kernel::decode, v);
    plan.place(1, scratch_, v);
    require_device(device_synchronise() && device_begin_capture());
    const bool recorded = (frozen_ != Frozen::update || derive_slot(updated_, 2, 2)) && run_decode(v);
    graph_ = device_end_capture();
    require_device(recorded && graph_ != nullptr);
  }
  void replay(const std::vector<std::int64_t>& rewritten) override {
    if (frozen_ != Frozen::update) update(rewritten);
    require_device(device_replay(graph_) && device_synchronise());
  }

 private:
  void update(const std::vector<std::int64_t>& slots) {
    for (std::int64_t slot : slots) require_device(derive_slot(updated_, slot, 2));
    require_device(device_synchronise());
  }

  Frozen frozen_;
  PoolView updated_{};
  DeviceBuffer w1_, cat_, other_, ids_, scratch_;
  DeviceGraph* graph_ = nullptr;
};

TEST_F(Graph, WhatFreezesAtCaptureIsToldApart) {
  for (bool per_expert : {false, true}) {
    for (Frozen frozen : {Frozen::grid, Frozen::slots, Frozen::update, Frozen::operands}) {
      Twin twin(frozen);
      EXPECT_NE(first_difference(Kernel::decode, per_expert, twin), "") << static_cast<int>(frozen);
    }
  }
}

TEST_F(Graph, ABadIdLeavesOutAndTheMarksAlone) {
  for (Kernel kernel : kKernels) {
    Scene scene(kernel, false, 5);
    scene.ids.put({0, -1, 3, 1, 2});
    ASSERT_EQ(scene.bind().code, SINKTRAP_OK);
    std::unique_ptr<StepGraph> graph;
    ASSERT_EQ(scene.capture(graph).code, SINKTRAP_OK) << last_error();
    ASSERT_EQ(graph->replay().code, SINKTRAP_OK) << last_error();
    const Bytes before = scene.out.read();

    scene.rewrite(3);
    const std::int64_t slot = 3;
    const sinktrap_slot_set three{&slot, 1};
    ASSERT_EQ(graph->mark(&three).code, SINKTRAP_OK);
    scene.ids.put({0, -1, 4, 1, -2});
    const Verdict v = graph->replay();
    EXPECT_EQ(v.code, SINKTRAP_SLOT_RANGE);
    EXPECT_EQ(v.found, 4) << "the first in the order of the tokens";
    EXPECT_EQ(v.expected, Scene::kS);
    EXPECT_EQ(scene.out.read(), before);

    scene.ids.put({3, 3, 3, 3, 3});
    ASSERT_EQ(graph->replay().code, SINKTRAP_OK) << last_error();
    const Bytes replayed = scene.out.read();
    ASSERT_EQ(scene.instance->update(nullptr).code, SINKTRAP_OK);
    ASSERT_EQ(scene.forward().code, SINKTRAP_OK);
    EXPECT_EQ(scene.out.read(), replayed) << "the mark has outlived the refusal";
  }
}

TEST_F(Graph, TheLayoutIsJudgedInTheReplay) {
  Scene scene(Kernel::decode, true, 4);
  scene.ids.put({0, 1, 2, 3});
  ASSERT_EQ(scene.bind().code, SINKTRAP_OK);
  std::unique_ptr<StepGraph> graph;
  ASSERT_EQ(scene.capture(graph).code, SINKTRAP_OK) << last_error();
  scene.out.draw(0, scene.out.size(), [] { return 77.0; });
  const Bytes untouched = scene.out.read();

  auto mixed = scene.buffers();
  std::vector<std::int64_t> shape = scene.pool[3].shape();
  shape[1] = 1;
  mixed[3].shape = shape.data();
  ASSERT_EQ(graph->describe(mixed.data()).code, SINKTRAP_OK);
  Verdict v = graph->replay();
  EXPECT_EQ(v.code, SINKTRAP_LAYOUT_MISMATCH);
  EXPECT_EQ(v.buffer, SINKTRAP_BUFFER_DOWN_LORA_B);
  EXPECT_EQ(scene.out.read(), untouched);

  auto elsewhere = scene.buffers();
  DeviceTensor other(Element::bf16, scene.pool[1].shape());
  elsewhere[1] = other.view();
  ASSERT_EQ(graph->describe(elsewhere.data()).code, SINKTRAP_OK);
  EXPECT_EQ(graph->replay().code, SINKTRAP_ARGUMENT) << "the graph reads the old address";
  EXPECT_EQ(scene.out.read(), untouched);

  ASSERT_EQ(graph->describe(scene.buffers().data()).code, SINKTRAP_OK);
  EXPECT_EQ(graph->replay().code, SINKTRAP_OK);
  EXPECT_NE(scene.out.read(), untouched);
}

TEST_F(Graph, RefusalsOfCaptureAndMarks) {
  Scene scene(Kernel::decode, false, 3);
  scene.ids.put({0, 0, 0});
  std::unique_ptr<StepGraph> graph;
  EXPECT_EQ(scene.capture(graph).code, SINKTRAP_UNBOUND);
  EXPECT_EQ(graph, nullptr);
  ASSERT_EQ(scene.bind().code, SINKTRAP_OK);
  EXPECT_EQ(scene.instance->capture(nullptr, &graph).code, SINKTRAP_ARGUMENT);
  ASSERT_EQ(scene.capture(graph).code, SINKTRAP_OK) << last_error();
  const std::int64_t ids[] = {1, 4};
  const sinktrap_slot_set bad{ids, 2};
  const Verdict v = graph->mark(&bad);
  EXPECT_EQ(v.code, SINKTRAP_SLOT_RANGE);
  EXPECT_EQ(v.found, 4);
  EXPECT_EQ(graph->describe(nullptr).code, SINKTRAP_ARGUMENT);

  // A bind to another pool: the graph would mix the two.
  Scene other(Kernel::decode, false, 3);
  ASSERT_EQ(scene.instance->bind(other.buffers().data()).code, SINKTRAP_OK);
  EXPECT_EQ(graph->replay().code, SINKTRAP_ARGUMENT);
  ASSERT_EQ(scene.bind().code, SINKTRAP_OK);
  EXPECT_EQ(graph->replay().code, SINKTRAP_OK);
}

TEST_F(Graph, MoreTokensThanOnePassHolds) {
  Scene scene(Kernel::decode, false, 70);
  std::vector<std::int32_t> ids(70);
  for (int t = 0; t < 70; ++t) ids[static_cast<std::size_t>(t)] = t * 7 % 5 - 1;
  scene.ids.put(ids);
  ASSERT_EQ(scene.bind().code, SINKTRAP_OK);
  std::unique_ptr<StepGraph> graph;
  ASSERT_EQ(scene.capture(graph).code, SINKTRAP_OK) << last_error();
  ASSERT_EQ(graph->replay().code, SINKTRAP_OK) << last_error();
  const Bytes replayed = scene.out.read();
  scene.out.draw(0, scene.out.size(), [] { return 77.0; });
  ASSERT_EQ(scene.forward().code, SINKTRAP_OK);
  EXPECT_EQ(scene.out.read(), replayed);
}

}  // namespace
}  // namespace sinktrap::cuda_impl::SINKTRAP_TARGET
