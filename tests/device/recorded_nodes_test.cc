// How many kernels and copies a step of the decoder is: launches are a good part of a short step
// (docs/gpu.md), so that one more in every layer shows here.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <string.h>

#include <string>
#include <vector>

#include "tests/support/engine/greedy_params.h"
#include "tests/support/goldens/golden_engine.h"

namespace tandem::recorded_nodes_test {
namespace {

struct Way {
  DType dtype = DType::kF32;
  bool processors = false;       // tokens that must not come
  std::string best_rows = {};    // TANDEM_HEAD_BEST_ROWS; empty: nobody says
  std::string direct_rows = {};  // TANDEM_DIRECT_ROWS; empty: nobody says
  std::string wide_rows = {};    // TANDEM_WIDE_TILES_ROWS; empty: nobody says
};

void say(const char* variable, const std::string& value) {
  if (value.empty())
    unsetenv(variable);
  else
    setenv(variable, value.c_str(), 1);
}

// Nodes of a step of so many rows; `tokens` of each, all of the same prompt.
size_t nodes_of_step(int rows, const Way& way,
                     std::vector<std::vector<int32_t>>* tokens = nullptr) {
  say("TANDEM_HEAD_BEST_ROWS", way.best_rows);
  say("TANDEM_DIRECT_ROWS", way.direct_rows);
  say("TANDEM_WIDE_TILES_ROWS", way.wide_rows);
  EngineConfig config = testing::golden_config("bart-tiny");
  config.mutable_loading()->set_device("cuda");
  config.mutable_loading()->set_dtype(name_of(way.dtype));
  config.mutable_cache()->set_num_gpu_blocks_override(2000);
  config.mutable_scheduling()->set_max_num_seqs(rows);
  LLMEngine engine(config);
  nlohmann::json params = testing::greedy_params(6);
  params["suppress_tokens"] = way.processors ? testing::json{5} : testing::json::array();
  for (int i = 0; i < rows; ++i)
    engine.add_request(std::to_string(i), testing::json{{"prompt_token_ids", {0, 5, 6, 7, 2}}},
                       params);
  while (engine.has_unfinished_requests())
    for (const proto::RequestOutput& out : engine.step())
      if (out.finished() && tokens != nullptr)
        tokens->emplace_back(out.outputs(0).token_ids().begin(), out.outputs(0).token_ids().end());
  say("TANDEM_HEAD_BEST_ROWS", {});
  say("TANDEM_DIRECT_ROWS", {});
  say("TANDEM_WIDE_TILES_ROWS", {});
  EXPECT_GT(engine.decoder_stats().replayed, 2);
  return engine.decoder_stats().nodes;
}

// bart-tiny's layers, and what a step has besides them: ids, embedding, rows that choose, head,
// choice, the answer; those of rows, head and choice are one up to 8 greedy rows, and two (the
// head's, and what joins its parts) up to 128 in 16 bits.
constexpr size_t kLayers = 2;
constexpr size_t kOnce = 6;
constexpr size_t kOnceOfFew = 4;
constexpr size_t kOnceOfTiles = 5;
constexpr size_t kLargeLayers = 12;  // of BART-large's decoder, with the same kernels

// A layer: 3 norms of sums with residuals, 6 products, 2 attentions, of which self-attention writes
// its own keys and values; GELU apart where cuBLASLt multiplies.
constexpr size_t kApart = kLayers * 12;
constexpr size_t kOwnProducts = kLayers * 11;
static_assert(kLargeLayers * 11 + kOnceOfFew == 136);

// On a real device a product of cuBLASLt may be two kernels: parts of a sum, and what adds them.
bool is_count(size_t nodes, size_t want) {
  const char* plugin = getenv("TANDEM_CUDA_PLUGIN");
  const bool emulated = plugin != nullptr && strstr(plugin, "emulated") != nullptr;
  return nodes == want || (!emulated && nodes > want && nodes <= want + kLayers * 6 + 1);
}

TEST(RecordedNodes, AStepOfManyRows) {
  std::vector<std::vector<int32_t>> tokens;
  EXPECT_PRED2(is_count, nodes_of_step(12, {.dtype = DType::kBF16}, &tokens),
               kOwnProducts + kOnceOfTiles);
  ASSERT_EQ(tokens.size(), size_t{12});
  for (const auto& each : tokens) EXPECT_EQ(each, tokens[0]);
  EXPECT_PRED2(is_count, nodes_of_step(64, {.dtype = DType::kF16}), kApart + kOnceOfTiles);
  EXPECT_PRED2(is_count, nodes_of_step(12, {}), kApart + kOnce);
}
TEST(RecordedNodes, AStepOfFewRows) {
  EXPECT_PRED2(is_count, nodes_of_step(2, {}), kOwnProducts + kOnceOfFew);
  EXPECT_PRED2(is_count, nodes_of_step(8, {.dtype = DType::kBF16}), kOwnProducts + kOnceOfFew);
}
// They have logits.
TEST(RecordedNodes, AStepOfRowsWithProcessors) {
  EXPECT_PRED2(is_count, nodes_of_step(2, {.processors = true}), kOwnProducts + kOnce);
  EXPECT_PRED2(is_count, nodes_of_step(12, {.dtype = DType::kBF16, .processors = true}),
               kOwnProducts + kOnce);
}

TEST(RecordedNodes, TheEnvironmentSaysWhichHeadsHaveLogits) {
  std::vector<std::vector<int32_t>> with, without;
  EXPECT_PRED2(is_count, nodes_of_step(12, {.dtype = DType::kBF16, .best_rows = "0"}, &with),
               kOwnProducts + kOnce);
  EXPECT_PRED2(is_count, nodes_of_step(12, {.dtype = DType::kBF16, .best_rows = "12"}, &without),
               kOwnProducts + kOnceOfTiles);
  EXPECT_EQ(with, without);
  EXPECT_PRED2(is_count, nodes_of_step(20, {.dtype = DType::kBF16, .best_rows = "12"}),
               kOwnProducts + kOnce);
  EXPECT_PRED2(is_count, nodes_of_step(2, {.best_rows = "0"}), kOwnProducts + kOnce);
  EXPECT_PRED2(is_count, nodes_of_step(12, {.best_rows = "128"}), kApart + kOnce);
}

TEST(RecordedNodes, TheEnvironmentSaysWhoMultiplies) {
  std::vector<std::vector<int32_t>> own, library;
  EXPECT_PRED2(is_count, nodes_of_step(12, {.dtype = DType::kF16, .direct_rows = "0"}, &library),
               kApart + kOnceOfTiles);
  EXPECT_PRED2(is_count, nodes_of_step(12, {.dtype = DType::kF16, .direct_rows = "12"}, &own),
               kOwnProducts + kOnceOfTiles);
  EXPECT_EQ(own, library);
  // With the activation in it, which the library leaves to another kernel (on Hopper).
  std::vector<std::vector<int32_t>> wide;
  const Way of_wide = {.dtype = DType::kF16, .direct_rows = "0", .wide_rows = "9"};
  EXPECT_PRED2(is_count, nodes_of_step(12, of_wide, &wide), kOwnProducts + kOnceOfTiles);
  EXPECT_EQ(wide, library);
}

}  // namespace
}  // namespace tandem::recorded_nodes_test
