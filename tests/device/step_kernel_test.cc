// Whole generations whose steps of up to 8 rows are one kernel (TANDEM_STEP_KERNEL_ROWS), of
// families with norms behind and before, with a bias by distance and gates: HuggingFace's tokens,
// and so few nodes in a recorded step that no layer has one of its own.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <string>
#include <vector>

#include "tests/support/engine/greedy_params.h"
#include "tests/support/goldens/golden_engine.h"
#include "tests/support/goldens/golden_families.h"

namespace tandem::step_kernel_test {
namespace {

// The emulator's blocks are threads: two are enough to wait for each other.
class StepKernelScope {
 public:
  explicit StepKernelScope(const char* rows) {
    setenv("TANDEM_STEP_KERNEL_ROWS", rows, 1);
    setenv("TANDEM_EMULATOR_MULTIPROCESSORS", "2", 1);
  }
  ~StepKernelScope() {
    unsetenv("TANDEM_STEP_KERNEL_ROWS");
    unsetenv("TANDEM_EMULATOR_MULTIPROCESSORS");
  }
};

EngineConfig config_of(const char* checkpoint) {
  EngineConfig config = testing::golden_config(checkpoint);
  config.mutable_loading()->set_device("cuda");
  config.mutable_cache()->set_num_gpu_blocks_override(600);
  return config;
}

struct Answer {
  std::vector<std::vector<int32_t>> tokens;
  size_t nodes = 0;  // of the last recorded step
};

// Greedy requests of different prompts.
Answer run(EngineConfig config, int requests) {
  config.mutable_scheduling()->set_max_num_seqs(requests);
  LLMEngine engine(config);
  Answer out;
  out.tokens.resize(static_cast<size_t>(requests));
  for (int i = 0; i < requests; ++i)
    engine.add_request(std::to_string(i),
                       testing::json{{"prompt_token_ids", {9 + i, 5, 6, 7 + 2 * i, 4}}},
                       testing::greedy_params(7));
  while (engine.has_unfinished_requests())
    for (const proto::RequestOutput& done : engine.step())
      if (done.finished())
        out.tokens[static_cast<size_t>(std::stoi(done.request_id()))].assign(
            done.outputs(0).token_ids().begin(), done.outputs(0).token_ids().end());
  EXPECT_GT(engine.decoder_stats().replayed, 2);
  out.nodes = engine.decoder_stats().nodes;
  return out;
}

// Ids, embedding, all layers, head with choice or logits and what chooses, the answer; and cuBLASLt
// may have a kernel more.
constexpr size_t kMostNodes = 8;
// Kernel by kernel: norms, products and attentions.
constexpr size_t kNodesOfLayer = 11;

class StepKernelFamilies : public ::testing::TestWithParam<const char*> {};

TEST_P(StepKernelFamilies, TokensInOneKernel) {
  Answer one, other;
  {
    const StepKernelScope scope("8");
    testing::expect_goldens(config_of(GetParam()), GetParam(), 17, 6);
    one = run(config_of(GetParam()), 3);
  }
  other = run(config_of(GetParam()), 3);
  EXPECT_LE(one.nodes, kMostNodes);
  EXPECT_GE(other.nodes, one.nodes + kNodesOfLayer - 1);
  EXPECT_EQ(one.tokens, other.tokens);
}

INSTANTIATE_TEST_SUITE_P(Families, StepKernelFamilies,
                         ::testing::Values("bart-tiny", "bart-odd-heads", "marian-tiny",
                                           "mbart-ids", "pegasus-ids", "t5-tiny", "flan-t5-untied"),
                         testing::checkpoint_test_name);

// 16 bits: heads of 16 are added in another order than by attention_rows, so tokens alone tell
// little. (Bits: tests/kernels/cuda/step/decoder_step_test.cu.)
TEST(StepKernel, In16Bits) {
  for (const char* dtype : {"bfloat16", "float16"}) {
    const StepKernelScope scope("8");
    EngineConfig config = config_of("bart-tiny");
    config.mutable_loading()->set_dtype(dtype);
    const Answer got = run(config, 8);
    EXPECT_LE(got.nodes, kMostNodes) << dtype;
    for (const auto& tokens : got.tokens) EXPECT_EQ(tokens.size(), size_t{7}) << dtype;
  }
}

// Steps of more rows go kernel by kernel, in the same engine.
TEST(StepKernel, UpToTheRowsThatAreSaid) {
  const StepKernelScope scope("2");
  EXPECT_LE(run(config_of("bart-tiny"), 2).nodes, kMostNodes);
  EXPECT_GT(run(config_of("bart-tiny"), 3).nodes, 2 * kMostNodes);
}

// What the op has not: eight bits, a chosen backend of attention.
TEST(StepKernel, OtherwiseKernelByKernel) {
  const StepKernelScope scope("8");
  EngineConfig config = config_of("bart-tiny");
  config.mutable_loading()->set_attention_backend("reference");
  EXPECT_GT(run(config, 2).nodes, 2 * kMostNodes);
  config = config_of("bart-tiny");
  config.mutable_loading()->set_quantization("int8");
  EXPECT_GT(run(config, 2).nodes, 2 * kMostNodes);
  config = config_of("bart-tiny");
  config.mutable_cache()->set_kv_cache_dtype("int8");
  EXPECT_GT(run(config, 2).nodes, 2 * kMostNodes);
}

}  // namespace
}  // namespace tandem::step_kernel_test
