// Layers over stages.
#include "models/stage_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "base/error.h"
#include "tests/support/goldens/goldens.h"

namespace tandem::stage_plan_test {
namespace {

uint64_t largest(const std::vector<Stage>& plan) {
  uint64_t out = 0;
  for (const Stage& stage : plan) out = std::max(out, stage.computed);
  return out;
}

std::vector<int32_t> counts_of(const std::vector<Stage>& plan) {
  std::vector<int32_t> out;
  for (const Stage& s : plan)
    out.push_back(s.encoder.end - s.encoder.begin + s.decoder.end - s.decoder.begin);
  return out;
}

// Every way to deal `layers` to `stages`.
void all_ways(int layers, int stages, std::vector<int32_t>& ways, const auto& f) {
  if (stages == 1) {
    ways.push_back(layers);
    f(ways);
    ways.pop_back();
    return;
  }
  for (int n = 1; n <= layers - stages + 1; ++n) {
    ways.push_back(n);
    all_ways(layers - n, stages - 1, ways, f);
    ways.pop_back();
  }
}

LayerSizes random_sizes(std::mt19937& random) {
  LayerSizes sizes;
  for (unsigned i = 0, n = random() % 5; i < n; ++i) sizes.encoder.push_back(1 + random() % 100);
  for (unsigned i = 0, n = 1 + random() % 5; i < n; ++i)
    sizes.decoder.push_back(1 + random() % 100);
  sizes.encoder_table = random() % 200;
  sizes.decoder_table = random() % 200;
  sizes.head = random() % 200;
  return sizes;
}

TEST(StagePlan, TheStageThatComputesMostHasAsLittleAsCanBe) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 60; ++round) {
    const LayerSizes sizes = random_sizes(random);
    const int layers = static_cast<int>(sizes.encoder.size() + sizes.decoder.size());
    const int stages = 1 + static_cast<int>(random() % static_cast<unsigned>(layers));
    const std::vector<Stage> plan = plan_stages(sizes, {.stages = stages});
    // All layers, in order, at least one on each stage.
    int encoder = 0, decoder = 0;
    for (const Stage& stage : plan) {
      EXPECT_TRUE(stage.encodes() || stage.decodes());
      if (stage.encodes()) {
        EXPECT_EQ(stage.encoder.begin, std::exchange(encoder, stage.encoder.end));
        EXPECT_EQ(decoder, 0) << "decoder layers come behind";
      }
      if (stage.decodes()) {
        EXPECT_EQ(stage.decoder.begin, std::exchange(decoder, stage.decoder.end));
        EXPECT_EQ(encoder, std::ssize(sizes.encoder));
      }
    }
    EXPECT_EQ(encoder, std::ssize(sizes.encoder));
    EXPECT_EQ(decoder, std::ssize(sizes.decoder));
    uint64_t best = ~uint64_t{0};
    std::vector<int32_t> ways;
    all_ways(layers, stages, ways, [&](const std::vector<int32_t>& way) {
      const std::vector<Stage> given = plan_stages(sizes, {.stages = stages, .layers = way});
      EXPECT_EQ(counts_of(given), way);
      best = std::min(best, largest(given));
    });
    EXPECT_EQ(largest(plan), best);
    uint64_t computed = 0, all = 0;
    for (const Stage& stage : plan) computed += stage.computed, all += stage.parameters;
    EXPECT_EQ(all - computed,
              sizes.decoder_table + (sizes.encoder.empty() ? 0 : sizes.encoder_table));
  }
}

// Of P steps with encoders, and the steps after them that only decode.
double time_of(const LayerSizes& sizes, const std::vector<Stage>& plan, int input, int output) {
  uint64_t encoder = 0, decoder = 0;
  for (const Stage& stage : plan) {
    uint64_t own = 0;
    for (int i = stage.decoder.begin; i < stage.decoder.end; ++i)
      own += sizes.decoder[static_cast<size_t>(i)];
    if (&stage == &plan.back()) own += sizes.head;
    decoder = std::max(decoder, own);
    encoder = std::max(encoder, stage.of_encoder);
  }
  const auto stages = static_cast<double>(plan.size());
  return input * (stages - 1) * static_cast<double>(encoder) +
         output * stages * static_cast<double>(decoder);
}

TEST(StagePlan, IsTheFastestForRequestsOfAKnownLength) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 100; ++round) {
    const LayerSizes sizes = random_sizes(random);
    const int layers = static_cast<int>(sizes.encoder.size() + sizes.decoder.size());
    const int stages = 1 + static_cast<int>(random() % static_cast<unsigned>(layers));
    const int input = 1 + static_cast<int>(random() % 9),
              output = 1 + static_cast<int>(random() % 9);
    double best = std::numeric_limits<double>::infinity();
    std::vector<int32_t> ways;
    all_ways(layers, stages, ways, [&](const std::vector<int32_t>& way) {
      const auto given = plan_stages(sizes, {.stages = stages, .layers = way});
      best = std::min(best, time_of(sizes, given, input, output));
    });
    const auto plan =
        plan_stages(sizes, {.stages = stages, .input_tokens = input, .output_tokens = output});
    EXPECT_EQ(time_of(sizes, plan, input, output), best);
  }
}

// Long inputs make the encoder's layers dear, long outputs the decoder's and the head.
TEST(StagePlan, KnowsHowLongRequestsAre) {
  LayerSizes sizes;
  sizes.encoder = {10, 10, 10, 10};
  sizes.decoder = {15, 15, 15, 15};
  sizes.head = 30;
  const auto layers = [&](int input, int output) {
    return counts_of(
        plan_stages(sizes, {.stages = 2, .input_tokens = input, .output_tokens = output}));
  };
  EXPECT_EQ(layers(0, 0), (std::vector<int32_t>{6, 2}));
  EXPECT_EQ(layers(1, 100), (std::vector<int32_t>{7, 1}));
  EXPECT_EQ(layers(100, 1), (std::vector<int32_t>{2, 6}));
  EXPECT_EQ(layers(0, 100), layers(0, 0)) << "one of them says nothing";
}

TEST(StagePlan, WithoutTheEncoderWhichOtherRanksRun) {
  LayerSizes sizes;
  sizes.encoder = {10, 10};
  sizes.decoder = {16, 16, 16};
  sizes.encoder_table = 5;
  sizes.decoder_table = 7;
  const std::vector<Stage> plan = plan_stages(sizes, {.stages = 3, .encoder = false});
  EXPECT_EQ(counts_of(plan), (std::vector<int32_t>{1, 1, 1}));
  for (const Stage& stage : plan) EXPECT_FALSE(stage.encodes());
  EXPECT_EQ(plan[0].parameters, 16u + 7u);
  const Stage alone = encoder_alone(sizes);
  EXPECT_EQ(alone.encoder, (LayerRange{0, 2}));
  EXPECT_FALSE(alone.decodes());
  EXPECT_EQ(alone.of_encoder, 20u);
  EXPECT_EQ(alone.parameters, 20u + 6u + 5u);
  try {
    plan_stages(sizes, {.stages = 4, .encoder = false});
    ADD_FAILURE();
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("--encoder-ranks"), std::string::npos);
  }
  sizes.decoder.clear();
  EXPECT_THROW(plan_stages(sizes, {.encoder = false}), InputError);
}

TEST(StagePlan, RefusesWhatDoesNotFit) {
  LayerSizes sizes;
  sizes.encoder = sizes.decoder = {1, 1};
  const auto param_of = [&](int stages, std::vector<int32_t> layers) -> std::string {
    try {
      plan_stages(sizes, {.stages = stages, .layers = layers});
    } catch (const InputError& e) {
      return e.param();
    }
    return "";
  };
  EXPECT_EQ(param_of(4, {}), "");
  EXPECT_EQ(param_of(5, {}), "--pipeline-parallel-size");
  EXPECT_EQ(param_of(2, {1, 3}), "");
  for (const auto& wrong : {std::vector<int32_t>{4}, {2, 3}, {4, 0}, {1, 1, 2}, {5, -1}})
    EXPECT_EQ(param_of(2, wrong), "--pipeline-layers");
}

TEST(StagePlan, CountsTheLayersOfACheckpoint) {
  for (const char* name : {"bart-tiny", "t5-tiny"}) {
    SCOPED_TRACE(name);
    const ModelConfig config = ModelConfig::load(testing::golden_dir(name));
    const Checkpoint checkpoint = Checkpoint::open(config.directory);
    const LayerSizes sizes = layer_sizes(config, checkpoint);
    ASSERT_EQ(std::ssize(sizes.encoder), config.encoder_layers);
    ASSERT_EQ(std::ssize(sizes.decoder), config.decoder_layers);
    const auto d = static_cast<uint64_t>(config.d_model);
    for (const uint64_t size : sizes.encoder) EXPECT_GT(size, 4 * d * d / 2);
    for (const uint64_t size : sizes.decoder) EXPECT_GT(size, sizes.encoder.back());
    EXPECT_EQ(sizes.head, static_cast<uint64_t>(config.vocab_size) * d);
  }
}

}  // namespace
}  // namespace tandem::stage_plan_test
