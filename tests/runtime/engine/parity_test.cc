// The model's tensors against HuggingFace's, on every golden case that has them: encoder states,
// decoder logits, prompt log-probabilities. Tolerances are those of tests/data/goldens/FORMAT.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "models/load_model.h"
#include "runtime/execution/batch_builder.h"
#include "runtime/execution/kv_cache.h"
#include "tests/support/goldens/golden_families.h"
#include "tests/support/goldens/goldens.h"

namespace tandem::parity_test {
namespace {

constexpr float kLogitsTolerance = 3e-4f, kEncoderTolerance = 1e-4f;
constexpr double kInt4Error = 0.5;
constexpr double kInt8Error = 0.15, kInt8LogitsTolerance = 2.5;  // logits are up to 12
constexpr int kBlockSize = 4;

float max_difference(const Tensor& got, const HostTensor& want) {
  const Tensor w = to_float(want);
  EXPECT_EQ(got.size(), w.size());
  float worst = 0;
  for (int64_t i = 0; i < got.dim(0); ++i)
    for (int64_t k = 0; k < got.dim(1); ++k)
      worst = std::max(worst, std::abs(got.row<float>(i)[k] - w.data<float>()[i * got.dim(1) + k]));
  return worst;
}

// A group whose encoder and whole decoder sequence run in one step.
WorkerGroup make_group(const std::vector<int>& encoder, const std::vector<int>& globals,
                       const std::vector<int>& decoder, int first_block) {
  const auto blocks_for = [&](size_t tokens) {
    std::vector<int32_t> blocks;
    for (size_t i = 0; i < (tokens + kBlockSize - 1) / kBlockSize; ++i)
      blocks.push_back(first_block++);
    return blocks;
  };
  WorkerGroup group;
  group.request_id = "parity";
  group.compute_encoder = true;
  group.encoder.tokens.assign(encoder.begin(), encoder.end());
  group.encoder.length = static_cast<int>(encoder.size());
  group.encoder.blocks = blocks_for(encoder.size());
  group.encoder.global_positions.assign(globals.begin(), globals.end());
  WorkerSequence& seq = group.seqs.emplace_back();
  seq.prompt.assign(decoder.begin(), decoder.end());
  seq.chunk = static_cast<int>(decoder.size());
  seq.blocks = blocks_for(decoder.size());
  return group;
}

// The largest differences of all cases.
struct Differences {
  float encoder = 0, hidden = 0, logits = 0;
  double logit_squares = 0, logit_errors = 0;  // sums of squares
};

// Runs all cases that have tensors in that compute type.
void compare(const std::string& name, DType dtype, Differences& worst,
             std::optional<DType> kv_cache_dtype = {}) {
  const auto golden = testing::load_golden(name);
  const auto tensors = testing::load_golden_tensors(name);
  const ModelConfig config = ModelConfig::load(testing::golden_dir(name));
  Checkpoint checkpoint = Checkpoint::open(testing::golden_dir(name));
  Context ctx(2);
  const auto comm = make_local_communicator();
  const auto model =
      load_model(config, checkpoint, {ctx, *comm, dtype, Quantization::kNone, kv_cache_dtype});
  KvCachePools pools(ctx, model->kv_cache_spec(), kBlockSize, 256, 0);
  int compared = 0;
  for (const auto& c : golden.at("cases")) {
    const std::string key = c.at("name").get<std::string>() + ".";
    if (!tensors.count(key + "decoder_logits")) continue;
    auto group = make_group(c.at("encoder_ids").get<std::vector<int>>(),
                            c.value("global_attention", std::vector<int>()),
                            c.at("teacher_forced_decoder_ids").get<std::vector<int>>(), 1);
    const Batch batch = build_batch({&group}, kBlockSize, model->limits().position_padding);
    const StepTensors step(batch.input);
    const Tensor states = model->encode(step);
    const auto keep_worst = [&](float& to, const Tensor& got, const char* tensor) {
      to = std::max(to, max_difference(got, tensors.at(key + tensor)));
    };
    keep_worst(worst.encoder, states, "encoder_last_hidden_state");
    model->write_cross_kv(step, states, pools.device());
    const Tensor hidden = model->decode(step, pools.device());
    keep_worst(worst.hidden, hidden, "decoder_last_hidden_state");
    const Tensor logits = model->compute_logits(hidden);
    keep_worst(worst.logits, logits, "decoder_logits");
    const Tensor want = to_float(tensors.at(key + "decoder_logits"));
    for (int64_t i = 0; i < want.size(); ++i) {
      worst.logit_squares += std::pow(want.data<float>()[i], 2);
      worst.logit_errors += std::pow(logits.data<float>()[i] - want.data<float>()[i], 2);
    }
    ++compared;
  }
  EXPECT_GT(compared, 0);
}

class Parity : public ::testing::TestWithParam<const char*> {};

TEST_P(Parity, TensorsAgreeWithHuggingFace) {
  Differences worst;
  compare(GetParam(), DType::kF32, worst);
  EXPECT_LE(worst.encoder, kEncoderTolerance);
  EXPECT_LE(worst.hidden, kLogitsTolerance);
  EXPECT_LE(worst.logits, kLogitsTolerance);
}

// int8 rounds weights and inputs to 1/127 of the largest: near, and not the same. HuggingFace's
// model with every Linear rounded so is off by 0.10 (bart-base-shape) and 0.08 (bart-tiny) of the
// root mean square, at most by 1.6 and 1.7: these checkpoints have random weights of a great
// spread.
TEST_P(Parity, Int8IsNear) {
  Differences worst;
  compare(GetParam(), DType::kI8, worst);
  const double error = std::sqrt(worst.logit_errors / worst.logit_squares);
  std::cout << "int8 differs by " << error << " of the root mean square, at most by "
            << worst.logits << "\n";
  // Another expert may be chosen where two are nearly alike. The sum of a block is larger than its
  // tokens, and is rounded as they are.
  const std::string name = GetParam();
  const double share = name == "switch-ids" || name == "nllb-moe-ids" ? 2
                       : name == "longt5-global-ids"                  ? 3
                                                                      : 1;
  EXPECT_LE(error, share * kInt8Error);
  EXPECT_LE(worst.logits, share * kInt8LogitsTolerance);
  EXPECT_GT(worst.logits, kLogitsTolerance);
}

// So is int4 (of the decoder's weights alone), but not as near.
TEST_P(Parity, Int4IsLessNear) {
  Differences int8, int4;
  compare(GetParam(), DType::kI8, int8);
  compare(GetParam(), DType::kI4, int4);
  EXPECT_EQ(int4.encoder, int8.encoder);
  const double error = std::sqrt(int4.logit_errors / int4.logit_squares);
  std::cout << "int4 differs by " << error << " of the root mean square, at most by " << int4.logits
            << "\n";
  EXPECT_LE(error, kInt4Error);
  EXPECT_GT(error, std::sqrt(int8.logit_errors / int8.logit_squares));
}

// Keys and values alone in int8, a scale for each token and head: nearer than linear layers in
// int8, and the encoder has none.
TEST_P(Parity, KeysAndValuesInInt8AreNear) {
  Differences whole, pages, int8;
  compare(GetParam(), DType::kF32, whole);
  compare(GetParam(), DType::kF32, pages, DType::kI8);
  compare(GetParam(), DType::kI8, int8);
  EXPECT_EQ(pages.encoder, whole.encoder);
  const double error = std::sqrt(pages.logit_errors / pages.logit_squares);
  std::cout << "int8 keys and values differ by " << error << " of the root mean square, at most by "
            << pages.logits << "\n";
  // (Where experts are chosen, either of the two may choose another one, which depends on the
  // processor's kernels.)
  const std::string name = GetParam();
  const bool routed = name == "switch-ids" || name == "nllb-moe-ids";
  EXPECT_LE(error, routed ? kInt8Error : std::sqrt(int8.logit_errors / int8.logit_squares));
  EXPECT_GT(pages.logits, kLogitsTolerance);
}

INSTANTIATE_TEST_SUITE_P(Goldens, Parity, ::testing::ValuesIn(testing::text_goldens()),
                         testing::checkpoint_test_name);

}  // namespace
}  // namespace tandem::parity_test
