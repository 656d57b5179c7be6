// How many kernels and copies a step of the decoder is: launches are a good part of a short step
// (docs/gpu.md), so that one more in every layer shows here.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>
#include <string>

#include "tests/support/files/files.h"
#include "tests/support/goldens/golden_engine.h"

namespace tandem {
namespace {

size_t nodes_of_step(int rows) {
  const test::TempDir folder;
  const std::string file = (folder.path() / "graphs").string();
  setenv("TANDEM_EMULATOR_GRAPHS", file.c_str(), 1);
  EngineConfig config = testing::golden_config("bart-tiny");
  config.device = "cuda";
  config.num_gpu_blocks_override = 2000;
  config.max_num_seqs = rows;
  LLMEngine engine(config);
  for (int i = 0; i < rows; ++i)
    engine.add_request(std::to_string(i), testing::json{{"prompt_token_ids", {0, 5, 6, 7, 2}}},
                       testing::json{{"max_tokens", 12},
                                     {"min_tokens", 12},
                                     {"num_beams", 1},
                                     {"do_sample", false},
                                     {"no_repeat_ngram_size", 0},
                                     {"ignore_eos", true},
                                     {"forced_eos_token_id", nullptr}});
  while (engine.has_unfinished_requests()) engine.step();
  unsetenv("TANDEM_EMULATOR_GRAPHS");
  EXPECT_GT(engine.decoder_stats().replayed, 2);
  std::ifstream in(file);
  size_t nodes = 0;
  for (size_t each = 0; in >> each;) nodes = each;
  return nodes;
}

// BART's: layers of 13 (3 norms of sums with residuals, 6 products, 2 attentions, what is written
// to the pages; GELU apart above 8 rows), ids, embedding, rows that choose, head, choice.
constexpr size_t kLayers = 2;
constexpr size_t kOnce = 5;

TEST(RecordedNodes, AStepOfManyRows) { EXPECT_EQ(nodes_of_step(12), kLayers * 13 + kOnce); }
TEST(RecordedNodes, AStepOfFewRows) { EXPECT_EQ(nodes_of_step(2), kLayers * 12 + kOnce); }

}  // namespace
}  // namespace tandem
