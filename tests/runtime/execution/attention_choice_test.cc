// --attention-backend: what names mean, and HuggingFace's tokens with the reference's kernels.
#include "runtime/execution/attention_choice.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/support/goldens/golden_engine.h"
#include "tests/support/goldens/golden_families.h"

namespace tandem {
namespace {

TEST(AttentionChoice, Names) {
  proto::LoadingConfig loading;
  const Context ctx(1);
  EXPECT_EQ(attention_backend_of(loading), AttentionBackend::kAuto);
  EXPECT_EQ(make_attention(loading, ctx), nullptr);
  loading.set_attention_backend("reference");
  const auto reference = make_attention(loading, ctx);
  ASSERT_NE(reference, nullptr);
  EXPECT_TRUE(reference->lacking().empty());
  for (const char* name : {"", "Reference", "flashinfer", "auto,reference"}) {
    loading.set_attention_backend(name);
    try {
      make_attention(loading, ctx);
      FAIL() << name;
    } catch (const InputError& error) {
      EXPECT_EQ(error.param(), "--attention-backend");
      EXPECT_NE(std::string(error.what()).find("is not one of auto, reference"), std::string::npos)
          << error.what();
    }
  }
}

TEST(AttentionChoice, AnUnknownNameEndsTheEnginesStart) {
  EngineConfig config = testing::golden_config("bart-tiny");
  config.mutable_loading()->set_attention_backend("xformers");
  EXPECT_THROW(LLMEngine engine(config), InputError);
}

// Of each family, some cases.
class ReferenceGoldens : public ::testing::TestWithParam<const char*> {};

TEST_P(ReferenceGoldens, Tokens) {
  EngineConfig config = testing::golden_config(GetParam());
  config.mutable_loading()->set_attention_backend("reference");
  testing::expect_goldens(config, GetParam(), 3, 5);
}

INSTANTIATE_TEST_SUITE_P(Families, ReferenceGoldens, ::testing::ValuesIn(testing::text_goldens()),
                         testing::checkpoint_test_name);

// Shared blocks, drafts, chunks of prompts, preemption: the step's kinds of work, all plain.
TEST(ReferenceSteps, TokensWithFewBlocks) {
  EngineConfig config = testing::golden_config("bart-tiny");
  config.mutable_loading()->set_attention_backend("reference");
  config.mutable_cache()->set_block_size(2);
  config.mutable_cache()->set_num_gpu_blocks_override(200);
  config.mutable_drafting()->set_num_speculative_tokens(3);
  testing::expect_goldens(config, "bart-tiny", 5, 20);
}

}  // namespace
}  // namespace tandem
