// The encoder's states of ragged batches of frames, on one rank and on two, against sums written
// out.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "models/load_model.h"
#include "runtime/execution/batch_builder.h"
#include "tests/support/goldens/frames_model.h"
#include "tests/support/goldens/naive_layers.h"
#include "tests/support/ranks/rank_threads.h"

namespace tandem {
namespace {

using testing::NaiveLayers;
using testing::Row;
using testing::Rows;

// BART's encoder in doubles.
class NaiveEncoder : NaiveLayers {
 public:
  NaiveEncoder(const std::filesystem::path& directory, const ModelConfig& config)
      : NaiveLayers(directory), config_(config) {}

  Rows states(const std::vector<float>& frames) {
    const size_t count = frames.size() / testing::kFrameWidth;
    const auto d = static_cast<size_t>(config_.d_model);
    const Row tokens = tensor("model.decoder.embed_tokens.weight");
    Rows x;
    for (size_t f = 0; f < count; ++f) {
      if (f % 2 == 0) x.push_back(row_of("model.encoder.embed_positions.weight", f / 2 + 2, d));
      for (size_t k = 0; k < testing::kFrameWidth; ++k)
        for (size_t i = 0; i < d; ++i)
          x.back()[i] += frames[f * testing::kFrameWidth + k] * tokens[k * d + i];
    }
    norm(x, "model.encoder.layernorm_embedding");
    for (int i = 0; i < config_.encoder_layers; ++i)
      layer(x, "model.encoder.layers." + std::to_string(i) + ".");
    return x;
  }

 private:
  void layer(Rows& x, const std::string& at) {
    const std::string self = at + "self_attn.";
    add(x, linear(attention(linear(x, self + "q_proj"), linear(x, self + "k_proj"),
                            linear(x, self + "v_proj"),
                            static_cast<size_t>(config_.encoder_attention_heads),
                            [](size_t, size_t) { return true; }),
                  self + "out_proj"));
    norm(x, at + "self_attn_layer_norm");
    feed_forward(x, at);
  }

  const ModelConfig& config_;
};

class FramesEncoder : public ::testing::Test {
 protected:
  FramesEncoder() {
    std::mt19937 random(11);
    std::normal_distribution<float> normal;
    for (const int count : {1, 2, 9, 24, 5}) {
      WorkerGroup& group = groups_.emplace_back();
      group.compute_encoder = true;
      group.encoder.length = (count + 1) / 2;
      group.encoder.frames = {count, testing::kFrameWidth, {}};
      for (int i = 0; i < count * testing::kFrameWidth; ++i)
        group.encoder.frames.values.push_back(normal(random));
      for (int i = 0; i < group.encoder.length; ++i) group.encoder.blocks.push_back(i);
    }
  }
  Batch batch() {
    std::vector<WorkerGroup*> scheduled;
    for (WorkerGroup& group : groups_) scheduled.push_back(&group);
    return build_batch(scheduled, 4);
  }
  // [positions of all, d_model]
  std::vector<float> encode(Communicator& comm) {
    const ModelConfig config = ModelConfig::load(files_.path());
    Checkpoint checkpoint = Checkpoint::open(files_.path());
    Context ctx(1);
    const auto model = load_model(config, checkpoint, {ctx, comm, DType::kF32});
    const Batch input = batch();
    const Tensor states = model->encode(StepTensors(input.input));
    return {states.data<float>(), states.data<float>() + states.size()};
  }

  testing::FramesCheckpoint files_;
  std::vector<WorkerGroup> groups_;
};

TEST_F(FramesEncoder, StatesAreThoseOfPlainSums) {
  const ModelConfig config = ModelConfig::load(files_.path());
  NaiveEncoder naive(files_.path(), config);
  const auto comm = make_local_communicator();
  const std::vector<float> got = encode(*comm);
  size_t at = 0;
  for (const WorkerGroup& group : groups_) {
    const Rows want = naive.states(group.encoder.frames.values);
    ASSERT_EQ(want.size(), static_cast<size_t>(group.encoder.length));
    for (const Row& row : want)
      for (const double v : row) {
        ASSERT_LT(at, got.size());
        ASSERT_NEAR(got[at++], v, 1e-4);
      }
  }
  EXPECT_EQ(at, got.size());
}

TEST_F(FramesEncoder, TwoRanksHaveTheSameStates) {
  const auto comm = make_local_communicator();
  const std::vector<float> want = encode(*comm);
  std::vector<std::vector<float>> got(2);
  const auto errors = testing::run_ranks(
      2, {}, [&](Communicator& ranks) { got[static_cast<size_t>(ranks.rank())] = encode(ranks); });
  for (const auto& error : errors) ASSERT_EQ(error, "");
  for (const auto& states : got) {
    ASSERT_EQ(states.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(states[i], want[i], 1e-4);
  }
}

}  // namespace
}  // namespace tandem
