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
#include "tests/support/ranks/rank_threads.h"

namespace tandem {
namespace {

using Row = std::vector<double>;
using Rows = std::vector<Row>;

// BART's encoder in doubles, one sequence at a time.
class NaiveEncoder {
 public:
  NaiveEncoder(const std::filesystem::path& directory, const ModelConfig& config)
      : checkpoint_(Checkpoint::open(directory)), config_(config) {}

  Rows states(const std::vector<float>& frames) {
    const size_t count = frames.size() / testing::kFrameWidth, d = width();
    const Row tokens = tensor("model.decoder.embed_tokens.weight"),
              positions = tensor("model.encoder.embed_positions.weight");
    Rows x;
    for (size_t f = 0; f < count; ++f) {
      if (f % 2 == 0) {
        const auto from = positions.begin() + static_cast<long>((f / 2 + 2) * d);
        x.emplace_back(from, from + static_cast<long>(d));
      }
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
  size_t width() const { return static_cast<size_t>(config_.d_model); }
  Row tensor(const std::string& name) {
    const HostTensor* found = checkpoint_.find(name);
    if (found == nullptr) throw std::runtime_error(name);
    const Tensor t = to_float(*found);
    return {t.data<float>(), t.data<float>() + t.size()};
  }
  Rows linear(const Rows& x, const std::string& name) {
    const Row weight = tensor(name + ".weight"), bias = tensor(name + ".bias");
    Rows out;
    for (const Row& row : x) {
      out.push_back(bias);
      for (size_t o = 0; o < bias.size(); ++o)
        for (size_t i = 0; i < row.size(); ++i)
          out.back()[o] += weight[o * row.size() + i] * row[i];
    }
    return out;
  }
  void norm(Rows& x, const std::string& name) {
    const Row weight = tensor(name + ".weight"), bias = tensor(name + ".bias");
    for (Row& row : x) {
      const auto n = static_cast<double>(row.size());
      double mean = 0, variance = 0;
      for (const double v : row) mean += v / n;
      for (const double v : row) variance += (v - mean) * (v - mean) / n;
      for (size_t i = 0; i < row.size(); ++i)
        row[i] = (row[i] - mean) / std::sqrt(variance + 1e-5) * weight[i] + bias[i];
    }
  }
  static void add(Rows& x, const Rows& y) {
    for (size_t t = 0; t < x.size(); ++t)
      for (size_t i = 0; i < x[t].size(); ++i) x[t][i] += y[t][i];
  }
  Rows attention(const Rows& q, const Rows& k, const Rows& v) const {
    const auto heads = static_cast<size_t>(config_.encoder_attention_heads);
    const size_t size = width() / heads;
    Rows out(q.size(), Row(width(), 0));
    for (size_t h = 0; h < heads; ++h)
      for (size_t t = 0; t < q.size(); ++t) {
        Row weights;
        double sum = 0;
        for (const Row& key : k) {
          double score = 0;
          for (size_t i = h * size; i < (h + 1) * size; ++i) score += q[t][i] * key[i];
          weights.push_back(std::exp(score / std::sqrt(static_cast<double>(size))));
          sum += weights.back();
        }
        for (size_t s = 0; s < k.size(); ++s)
          for (size_t i = h * size; i < (h + 1) * size; ++i)
            out[t][i] += weights[s] / sum * v[s][i];
      }
    return out;
  }
  void layer(Rows& x, const std::string& at) {
    const std::string self = at + "self_attn.";
    add(x, linear(attention(linear(x, self + "q_proj"), linear(x, self + "k_proj"),
                            linear(x, self + "v_proj")),
                  self + "out_proj"));
    norm(x, at + "self_attn_layer_norm");
    Rows inner = linear(x, at + "fc1");
    for (Row& row : inner)
      for (double& v : row) v = v / 2 * (1 + std::erf(v / std::sqrt(2.0)));
    add(x, linear(inner, at + "fc2"));
    norm(x, at + "final_layer_norm");
  }

  Checkpoint checkpoint_;
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
