// Steps as a device gets them: what they are filled up to, and what lies in the filling. The device
// is host memory with a device's name.
#include "models/step/step_tensors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <iostream>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/core/padded_size.h"

namespace tandem {
namespace {

class HostDevice final : public DeviceBackend {
 public:
  explicit HostDevice(bool tiles) : tiles_(tiles) {}
  Device device() const override { return Device::kCuda; }
  std::string name() const override { return "host memory"; }
  const OpTable& ops() const override {
    TANDEM_CHECK(false, "no ops are run");
    __builtin_unreachable();
  }
  DeviceMemory memory() const override { return {}; }
  Tensor allocate(const Shape& shape, DType dtype) override {
    const auto host = std::make_shared<Tensor>(shape, dtype);
    return Tensor::adopt(host, host->raw(), shape, dtype, Device::kCuda);
  }
  Tensor allocate_host(const Shape& shape, DType dtype) override { return Tensor(shape, dtype); }
  Tensor scratch(const Shape& shape, DType dtype) override { return allocate(shape, dtype); }
  void begin_step() override {}
  void copy_in(const Tensor& host, const Tensor& device) override {
    ++copies;
    TANDEM_CHECK_EQ(host.bytes(), device.bytes());
    std::memcpy(device.raw(), host.raw(), host.bytes());
  }
  void load(const Tensor& device, ThreadPool&, const ReadPart& read) override {
    read(0, device.bytes(), static_cast<std::byte*>(device.raw()));
  }
  void end_loading() override {}
  void copy_out(const Tensor&, const Tensor&) override {}
  void copy_matrix(const Tensor&, const Tensor&) override {}
  void synchronize() override {}
  std::shared_ptr<void> watch(Check) override { return nullptr; }
  void tune_products(const std::string&, std::function<void(const std::string&)>) override {}
  uint64_t mark() override { return 0; }
  bool reached(uint64_t) override { return true; }
  void wait(uint64_t) override {}
  double seconds_between(uint64_t, uint64_t) override { return 0; }
  bool attention_tiles(DType, int) const override { return tiles_; }
  bool f8_pages() const override { return true; }
  bool record(uint64_t, const std::function<void()>&) override { return false; }
  void replay(uint64_t) override {}
  void forget_recordings() override {}
  void forget_recordings(std::span<const uint64_t>) override {}
  size_t nodes_recorded() const override { return 0; }

  int copies = 0;

 private:
  bool tiles_;
};

constexpr StepLayout kLayout = {4, 16, 2, 32};
constexpr int32_t kBlock = 16;
constexpr int32_t kLimit = 1600;  // keys of a sequence
constexpr StepRoom kRoom = {kBlock, kLimit, kLimit};

StepShape fill_up(StepPlan& plan) {
  const StepShape shape = plan.shape(kRoom);
  plan.fill_up(shape, kRoom);
  return shape;
}

class RandomSteps {
 public:
  RandomSteps() : seed_(std::random_device{}()), engine_(seed_) {
    std::cout << "seed " << seed_ << "\n";
  }
  int32_t integer(int32_t low, int32_t high) {
    return std::uniform_int_distribution<int32_t>(low, high)(engine_);
  }

 private:
  unsigned seed_;
  std::mt19937 engine_;
};

void add_pages(PageTable& pages, int32_t keys, RandomSteps& random) {
  for (int32_t n = (keys + kBlock - 1) / kBlock; n > 0; --n)
    pages.page_indices.push_back(random.integer(0, 999));
  pages.indptr.push_back(static_cast<int32_t>(pages.page_indices.size()));
  pages.last_page_len.push_back((keys - 1) % kBlock + 1);
}

// A step of some sequences, each in a group of its own, with so many queries each.
ModelInput step_of(RandomSteps& random, int32_t sequences, int32_t queries, int32_t longest) {
  ModelInput in;
  AttentionMetadata& m = in.attention;
  m.num_requests = sequences;
  for (int32_t s = 0; s < sequences; ++s) {
    const int32_t keys = queries + random.integer(0, longest), source = random.integer(1, longest);
    for (int32_t i = 0; i < queries; ++i) {
      in.input_ids.push_back(random.integer(0, 99));
      in.positions.push_back(keys - queries + i);
      in.request_indices.push_back(s);
      m.slot_mapping.push_back(random.integer(0, 15999));
    }
    m.query_start_loc.push_back(static_cast<int32_t>(in.input_ids.size()));
    m.cross_query_start_loc.push_back(static_cast<int32_t>(in.input_ids.size()));
    m.num_tokens.push_back(queries);
    m.num_computed_tokens.push_back(keys - queries);
    m.seq_lens.push_back(keys);
    m.cross_seq_lens.push_back(source);
    add_pages(m.self_pages, keys, random);
    add_pages(m.cross_pages, source, random);
  }
  return in;
}

TEST(PaddedSize, GrowsLittleAndSeldom) {
  std::set<int32_t> sizes;
  int32_t last = 0;
  for (int32_t n = 1; n <= 4096; ++n) {
    const int32_t size = padded_size(n);
    ASSERT_GE(size, n);
    ASSERT_GE(size, last) << n;
    ASSERT_EQ(padded_size(size), size) << "a size is itself";
    ASSERT_LE(size, n < 10 ? 2 * n : n + n / 4 + 1) << n;
    sizes.insert(size);
    last = size;
  }
  EXPECT_LE(sizes.size(), 48u);
  for (const int32_t n : {1, 2, 4, 8, 16, 32, 64, 128, 256}) EXPECT_EQ(padded_size(n), n);
  EXPECT_EQ(padded_size(0), 0);
}

std::vector<int32_t> values(const Tensor& t) {
  if (t.empty()) return {};
  const int32_t* p = t.data<int32_t>();
  return {p, p + t.size()};
}

void expect_filled(const Tensor& t, const std::vector<int32_t>& real, int64_t size, int32_t fill) {
  std::vector<int32_t> want = real;
  want.resize(static_cast<size_t>(size), fill);
  EXPECT_EQ(values(t), want);
}

void expect_idle_beyond(const Tensor& work, const std::vector<AttentionWork>& real) {
  ASSERT_GE(work.dim(0), static_cast<int64_t>(real.size()));
  std::vector<AttentionWork> got(static_cast<size_t>(work.dim(0)));
  std::memcpy(got.data(), work.raw(), work.bytes());
  for (size_t i = 0; i < got.size(); ++i) {
    if (i < real.size()) {
      EXPECT_EQ(std::memcmp(&got[i], &real[i], sizeof(AttentionWork)), 0) << i;
    } else {
      EXPECT_EQ(got[i].queries, 0) << i;
    }
  }
}

TEST(StepPlan, IsFilledUpWithNothingToDo) {
  RandomSteps random;
  for (int round = 0; round < 60; ++round) {
    auto owned = std::make_unique<HostDevice>(true);
    HostDevice& device = *owned;
    Context ctx(1, std::move(owned), DType::kBF16);
    const int32_t sequences = random.integer(1, 70);
    ModelInput in = step_of(random, sequences, random.integer(1, 3), 1500);
    in.attention.shared_keys = round % 2 == 1;
    const StepPlan before(ctx, in, kLayout, StepHalf::kDecoder);
    StepPlan plan(ctx, in, kLayout, StepHalf::kDecoder);
    ASSERT_TRUE(plan.can_pad());
    const StepShape shape = fill_up(plan);
    EXPECT_EQ(shape.tokens, padded_size(static_cast<int32_t>(in.input_ids.size())));
    for (const auto& [side, filled, exact, pages] :
         {std::tuple(&shape.self, &plan.self, &before.self, plan.self_pages),
          std::tuple(&shape.cross, &plan.cross, &before.cross, plan.cross_pages)}) {
      EXPECT_EQ(side->pieces, padded_size(sequences));
      EXPECT_TRUE(side->keys == 1024 || side->keys == kLimit) << side->keys;
      const int32_t chunks = (side->keys - 1) / kKeysPerChunk + 1;
      EXPECT_LE(std::ssize(filled->rows), int64_t{side->pieces} * chunks);
      EXPECT_EQ(pages, side->pieces * ((side->keys + kBlock - 1) / kBlock));
      // Blocks for all pieces, and for all work as far as there is room at once.
      EXPECT_GE(filled->row_blocks, side->pieces);
      EXPECT_GE(filled->row_blocks, std::min<int32_t>(static_cast<int32_t>(filled->rows.size()),
                                                      528 / kLayout.decoder_heads));
      // Kernels are made for so many queries of a work, or for any number.
      EXPECT_GE(side->queries, exact->row_queries);
      EXPECT_TRUE(side->queries == 1 || side->queries == 4 || side->queries == kRowsPerBlock);
    }
    const StepTensors step(ctx, plan);
    EXPECT_EQ(device.copies, 1);
    expect_filled(step.input_ids, in.input_ids, plan.tokens, 0);
    expect_filled(step.positions, in.positions, plan.tokens, 0);
    expect_filled(step.slot_mapping, in.attention.slot_mapping, plan.tokens, -1);
    expect_filled(step.self_pages.page_indices, in.attention.self_pages.page_indices,
                  plan.self_pages, 0);
    expect_filled(step.cross_pages.page_indices, in.attention.cross_pages.page_indices,
                  plan.cross_pages, 0);
    expect_idle_beyond(step.self_plan()->rows, before.self.rows);
    expect_idle_beyond(step.cross_plan()->rows, before.cross.rows);
    EXPECT_GE(step.self_plan()->partials, before.self.partials);
    EXPECT_EQ(step.self_plan()->row_blocks, plan.self.row_blocks);
    EXPECT_EQ(step.self_plan()->shared_keys, in.attention.shared_keys);
    EXPECT_FALSE(step.cross_plan()->shared_keys);
    expect_filled(step.self_plan()->tickets, {}, plan.self.tickets * kLayout.decoder_heads, 0);
    expect_filled(step.cross_plan()->tickets, {}, plan.cross.tickets * kLayout.decoder_heads, 0);
    // Lists begin where vectors of 16 bytes may.
    for (const Tensor* t : {&step.positions, &step.slot_mapping, &step.self_plan()->rows})
      EXPECT_EQ(reinterpret_cast<uintptr_t>(t->raw()) % 16, 0u);
  }
}

// Decoding the same sequences for long takes one shape, whatever their lengths: a step that was
// recorded is replayed to the end.
TEST(StepPlan, OneShapeForALongGeneration) {
  RandomSteps random;
  Context ctx(1, std::make_unique<HostDevice>(true), DType::kF16);
  std::set<StepShape> shapes;
  ModelInput in = step_of(random, 32, 1, 900);
  for (int32_t step = 0; step < 120; ++step) {
    StepPlan plan(ctx, in, kLayout, StepHalf::kDecoder);
    shapes.insert(fill_up(plan));
    AttentionMetadata& m = in.attention;
    PageTable pages;
    for (size_t s = 0; s < m.seq_lens.size(); ++s) {
      ++m.seq_lens[s];
      add_pages(pages, m.seq_lens[s], random);
    }
    m.self_pages = pages;
  }
  EXPECT_EQ(shapes, std::set{StepShape::of_decoding(32, 1024, 1024)});
}

TEST(StepShape, ListsGrowByDoubling) {
  EXPECT_EQ(listed_keys(1, 0), 1024);
  EXPECT_EQ(listed_keys(1025, 0), 2048);
  EXPECT_EQ(listed_keys(1, 448), 448);
  EXPECT_EQ(listed_keys(448, 448), 448);
  EXPECT_EQ(listed_keys(449, 448), 1024) << "longer than the model says";
  EXPECT_EQ(listed_keys(1025, 1500), 1500);
  EXPECT_EQ(listed_keys(5000, 16384), 8192);
}

// What a step without sequences is filled up to: all of it writes nothing.
TEST(StepPlan, AStepOfNobody) {
  auto owned = std::make_unique<HostDevice>(true);
  Context ctx(1, std::move(owned), DType::kBF16);
  ModelInput in;
  in.input_ids = in.positions = std::vector<int32_t>(12, 0);
  StepPlan plan(ctx, in, kLayout, StepHalf::kDecoder);
  plan.fill_up(StepShape::of_decoding(12, 1024, 2048), kRoom);
  const StepTensors step(ctx, plan);
  EXPECT_EQ(values(step.slot_mapping), std::vector<int32_t>(12, -1));
  expect_idle_beyond(step.self_plan()->rows, {});
  expect_idle_beyond(step.cross_plan()->rows, {});
  EXPECT_EQ(step.cross_plan()->rows.dim(0), 12 * 4);
  EXPECT_EQ(step.cross_plan()->partials, 12 * 4);
}

TEST(StepPlan, LongPromptsHaveNoShape) {
  RandomSteps random;
  Context with_tiles(1, std::make_unique<HostDevice>(true), DType::kBF16),
      without(1, std::make_unique<HostDevice>(false), DType::kBF16);
  const ModelInput prompt = step_of(random, 2, kRowsPerBlock + 1, 50);
  EXPECT_FALSE(StepPlan(with_tiles, prompt, kLayout, StepHalf::kDecoder).can_pad());
  EXPECT_TRUE(StepPlan(without, prompt, kLayout, StepHalf::kDecoder).can_pad());
  EXPECT_FALSE(StepPlan(with_tiles, ModelInput(), kLayout, StepHalf::kDecoder).can_pad());
}

// What the encoder has to do in a step changes nothing of the decoder's half.
TEST(StepPlan, HalvesAreApart) {
  RandomSteps random;
  Context ctx(1, std::make_unique<HostDevice>(true), DType::kBF16);
  ModelInput in = step_of(random, 2, 1, 50);
  StepPlan alone(ctx, in, kLayout, StepHalf::kDecoder);
  const StepShape shape = fill_up(alone);
  in.encoder_input_ids = in.encoder_positions = {0, 1, 2};
  in.attention.encoder_seq_lens = {3};
  in.attention.encoder_start_loc = {0, 3};
  in.attention.cross_slot_mapping = {5, 6, 7};
  StepPlan beside(ctx, in, kLayout, StepHalf::kDecoder);
  EXPECT_EQ(fill_up(beside), shape);
  EXPECT_EQ(StepTensors(ctx, beside).encoder_input_ids.size(), 0);
  const StepPlan encoder(ctx, in, kLayout, StepHalf::kEncoder);
  EXPECT_FALSE(encoder.can_pad());
  const StepTensors there(ctx, encoder);
  EXPECT_EQ(values(there.encoder_input_ids), in.encoder_input_ids);
  EXPECT_EQ(values(there.cross_slot_mapping), in.attention.cross_slot_mapping);
  EXPECT_EQ(there.input_ids.size(), 0);
}

TEST(StepTensors, TheCpuBorrows) {
  RandomSteps random;
  Context ctx(1);
  const ModelInput in = step_of(random, 3, 2, 40);
  const StepTensors step(ctx, StepPlan(ctx, in, kLayout, StepHalf::kDecoder));
  EXPECT_EQ(step.input_ids.raw(), static_cast<const void*>(in.input_ids.data()));
  EXPECT_EQ(step.self_plan(), nullptr);
  EXPECT_EQ(step.cross_plan(), nullptr);
}

// Tiles do not read 8-bit pages: prompts over them are rows, the encoder keeps its tiles.
TEST(StepPlan, EightBitPagesAreReadInRows) {
  RandomSteps random;
  const Context ctx(1, std::make_unique<HostDevice>(true), DType::kF16);
  ModelInput in = step_of(random, 2, 20, 50);
  in.encoder_input_ids.resize(30);
  in.attention.encoder_start_loc = {0, 30};
  in.attention.encoder_seq_lens = {30};
  StepLayout layout = kLayout;
  const StepPlan tiles(ctx, in, layout, StepHalf::kDecoder);
  EXPECT_TRUE(tiles.self.rows.empty() && tiles.cross.rows.empty());
  layout.pages_in_8_bits = true;
  const StepPlan rows(ctx, in, layout, StepHalf::kDecoder);
  EXPECT_TRUE(rows.self.tiles.empty() && rows.cross.tiles.empty());
  EXPECT_FALSE(rows.self.rows.empty() || rows.cross.rows.empty());
  EXPECT_FALSE(StepPlan(ctx, in, layout, StepHalf::kEncoder).encoder.tiles.empty());
}

// How many of a sequence's queries are in a step depends on other sequences; of an encoder's all
// are.
TEST(StepPlan, DecodersThatMustNotDependOnOthersHaveRows) {
  RandomSteps random;
  Context ctx(1, std::make_unique<HostDevice>(true), DType::kF16);
  ctx.backend().be_batch_invariant();
  ModelInput in = step_of(random, 2, 20, 50);
  in.encoder_input_ids.resize(30);
  in.attention.encoder_start_loc = {0, 30};
  in.attention.encoder_seq_lens = {30};
  const StepPlan rows(ctx, in, kLayout, StepHalf::kDecoder);
  EXPECT_TRUE(rows.self.tiles.empty() && rows.cross.tiles.empty());
  EXPECT_FALSE(rows.self.rows.empty() || rows.cross.rows.empty());
  EXPECT_FALSE(StepPlan(ctx, in, kLayout, StepHalf::kEncoder).encoder.tiles.empty());
}

}  // namespace
}  // namespace tandem
