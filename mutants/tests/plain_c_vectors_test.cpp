// plain_c on the vectors of corpus/: expected values of an independent implementation in f64.
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>

#include "judge/safetensors.hpp"
#include "mutants/tests/plain_c_test.hpp"

namespace sinktrap::test {
namespace {

namespace fs = std::filesystem;

struct Vector {
  fs::path path;
  SafetensorsFile file;
  const Tensor& operator[](const std::string& name) const { return file.tensors.at(name); }
  std::int64_t number(const std::string& key) const {
    const std::string& text = file.metadata.at(key);
    std::int64_t value = -1;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
  }
};

std::vector<Vector> vectors(const char* folder) {
  std::vector<Vector> found;
  for (const auto& item : fs::directory_iterator(fs::path(SINKTRAP_SOURCE_DIR) / "corpus/vectors" / folder)) {
    if (item.path().extension() != ".safetensors") continue;
    auto result = read_safetensors(item.path());
    if (const auto* why = std::get_if<SafetensorsError>(&result))
      ADD_FAILURE() << *why;
    else
      found.push_back({item.path(), std::move(std::get<SafetensorsFile>(result))});
  }
  return found;
}

// The output for a forward vector, as values.
std::vector<double> run_forward(const sinktrap_implementation_table* table, const Vector& vector) {
  const Tensor &w2 = vector["w2"], &x = vector["x"];
  const DLTensor w13_view = vector["w13"].view(), w2_view = w2.view(), x_view = x.view(),
                 gammas_view = vector["gammas"].view(), slot_view = vector["token_slot"].view();
  const bool interleaved = vector.file.metadata.at("w13_layout") == "interleaved";
  const sinktrap_layer layer{sizeof(sinktrap_layer),
                             interleaved ? SINKTRAP_W13_INTERLEAVED : SINKTRAP_W13_CONTIGUOUS,
                             w2.extent(0),
                             w2.extent(1),
                             w2.extent(2),
                             dl_type(x.type()),
                             &w13_view,
                             &w2_view};
  sinktrap_instance* instance = nullptr;
  Verdict v{};
  EXPECT_EQ(table->create(&layer, "", &instance, &v), SINKTRAP_OK);
  DLTensor pool[SINKTRAP_BUFFER_COUNT];
  for (int b = 0; b < SINKTRAP_BUFFER_COUNT; ++b) pool[b] = vector[std::string(buffer_name(b))].view();
  EXPECT_EQ(table->bind(instance, pool, &v), SINKTRAP_OK) << verdict_to_text(v);
  Tensor out(x.type(), x.shape());
  DLTensor out_view = out.view();
  const sinktrap_forward_args args{sizeof args, 0, &x_view, &gammas_view, &slot_view, &out_view};
  EXPECT_EQ(table->forward(instance, &args, &v), SINKTRAP_OK) << verdict_to_text(v);
  table->destroy(instance);
  return out.values();
}

TEST(PlainC, lattice_vectors_are_met_exactly) {
  const auto* table = open_table();
  ASSERT_NE(table, nullptr);
  int judged = 0;
  for (const Vector& vector : vectors("forward")) {
    if (vector.file.metadata.at("kind") != "lattice") continue;
    EXPECT_EQ(run_forward(table, vector), vector["expected_out"].values()) << vector.path;
    ++judged;
  }
  EXPECT_EQ(judged, 18);
}

TEST(PlainC, dense_vectors_are_met_to_the_rounding_of_storage) {
  const auto* table = open_table();
  ASSERT_NE(table, nullptr);
  int judged = 0;
  for (const Vector& vector : vectors("forward")) {
    if (vector.file.metadata.at("kind") != "dense") continue;
    const auto found = run_forward(table, vector), expected = vector["expected_out"].values();
    ASSERT_EQ(found.size(), expected.size());
    double largest = 0;
    for (double value : expected) largest = std::fmax(largest, std::fabs(value));
    // Half a unit of storage, and f32 sums: at most 2^9 terms here, so 2^9 2^-24 of magnitudes that
    // cancellation leaves below 2^3 times the largest output.
    const double storage = std::ldexp(1.0, -float_format(vector["x"].type()).significant_bits);
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_LE(std::fabs(found[i] - expected[i]),
                storage * std::fabs(expected[i]) + std::ldexp(largest, -12))
          << vector.path << " element " << i;
    ++judged;
  }
  EXPECT_EQ(judged, 8);
}

// A layer without weights of interest, for the operations that need an instance.
sinktrap_instance* create_layer(const sinktrap_implementation_table* table, std::int64_t n, std::int64_t H,
                                std::int64_t F) {
  const Tensor w13(Element::bf16, {n, 2 * F, H}), w2(Element::bf16, {n, H, F});
  const DLTensor w13_view = w13.view(), w2_view = w2.view();
  const sinktrap_layer layer{
      sizeof(sinktrap_layer), SINKTRAP_W13_INTERLEAVED, n, H, F, dl_type(Element::bf16), &w13_view, &w2_view};
  sinktrap_instance* instance = nullptr;
  Verdict v{};
  EXPECT_EQ(table->create(&layer, "", &instance, &v), SINKTRAP_OK);
  return instance;  // forward, which alone reads the weights, is not called
}

TEST(PlainC, pack_vectors_are_loaded_derived_and_sharded_bit_for_bit) {
  const auto* table = open_table();
  ASSERT_NE(table, nullptr);
  int judged = 0;
  for (const Vector& vector : vectors("pack")) {
    const DLTensor gate_a = vector["flat.gate_up_proj.lora_A"].view(),
                   down_a = vector["flat.down_proj.lora_A"].view(),
                   gate_up_b = vector["flat.gate_up_proj.lora_B"].view(),
                   down_b = vector["flat.down_proj.lora_B"].view();
    const std::int64_t n = vector.number("n"), tp = vector.number("tensor_parallel");
    for (std::int64_t p = -1; p < tp; ++p) {  // -1: the whole
      const std::string from = p < 0 ? "pool." : "tp" + std::to_string(p) + ".";
      std::vector<Tensor> pool, expected;
      DLTensor views[SINKTRAP_BUFFER_COUNT], whole[SINKTRAP_BUFFER_COUNT];
      for (int b = 0; b < SINKTRAP_BUFFER_COUNT; ++b) {
        const std::string name{buffer_name(b)};
        const bool cut = b == SINKTRAP_BUFFER_GATE_UP_LORA_B || b == SINKTRAP_BUFFER_DOWN_LORA_A;
        expected.push_back(vector[(cut ? from : "pool.") + name]);
        pool.push_back(expected.back());
        for (std::byte& byte : pool.back().bytes()) byte = std::byte{0x5a};  // something else was there
        whole[b] = vector["pool." + name].view();
      }
      for (std::size_t b = 0; b < SINKTRAP_BUFFER_COUNT; ++b) views[b] = pool[b].view();
      sinktrap_instance* instance = create_layer(table, n, pool[0].extent(3), pool[2].extent(3));
      Verdict v{};
      ASSERT_EQ(table->bind(instance, views, &v), SINKTRAP_OK) << verdict_to_text(v);
      const sinktrap_adapter adapter{sizeof(sinktrap_adapter),
                                     0,
                                     vector.number("rank"),
                                     1.0f,
                                     0,
                                     p < 0 ? 0 : p,
                                     p < 0 ? 1 : tp,
                                     &gate_a,
                                     nullptr,
                                     &gate_up_b,
                                     &down_a,
                                     &down_b};
      EXPECT_EQ(table->load(instance, 0, &adapter, &v), SINKTRAP_OK) << verdict_to_text(v);
      for (std::size_t b = 0; b < SINKTRAP_BUFFER_COUNT; ++b)
        EXPECT_TRUE(pool[b].same_bits(expected[b])) << vector.path << " load, rank " << p << " buffer " << b;
      EXPECT_EQ(table->update(instance, nullptr, &v), SINKTRAP_OK);
      for (const char* name : {"w1_delta", "a_cat"}) {
        if (p >= 0) break;
        DLTensor view{};
        const Tensor& operand = vector[std::string("derived.") + name];
        ASSERT_EQ(table->derived(instance, name, &view, &v), SINKTRAP_OK);
        EXPECT_EQ(std::memcmp(view.data, operand.bytes().data(), operand.bytes().size()), 0)
            << vector.path << name;
      }
      table->destroy(instance);
      if (p < 0) continue;
      for (Tensor& t : pool)
        for (std::byte& byte : t.bytes()) byte = std::byte{0x5a};
      EXPECT_EQ(table->shard(whole, p, tp, views, &v), SINKTRAP_OK) << verdict_to_text(v);
      for (std::size_t b = 0; b < SINKTRAP_BUFFER_COUNT; ++b)
        EXPECT_TRUE(pool[b].same_bits(expected[b])) << vector.path << " shard, rank " << p << " buffer " << b;
    }
    ++judged;
  }
  EXPECT_EQ(judged, 3);
}

}  // namespace
}  // namespace sinktrap::test
