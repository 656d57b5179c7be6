#include "models/config/decoder_prompt.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tandem {
namespace {

using Ids = std::vector<int32_t>;

// By hand, as HuggingFace's shift_tokens_right.
TEST(ShiftRules, TheSourceBehindAToken) {
  ModelConfig config;
  config.pad_token_id = 1;
  const Ids source = {5, 6, 2, 9};
  EXPECT_EQ(start_before_source(source, config, 7), (Ids{7, 5, 6, 2}));
  EXPECT_EQ(start_before_source(Ids{5}, config, 7), Ids{7});
  EXPECT_THROW(start_before_source(source, config, -1), InputError);
  EXPECT_EQ(language_before_source(source, config, 7), (Ids{9, 5, 6, 2}));
  EXPECT_EQ(language_before_source(Ids{5, 9, 1, 1}, config, -1), (Ids{9, 5, 9, 1}));
  EXPECT_EQ(language_before_source(Ids{1, 5, 9}, config, 7), (Ids{5, 1, 5}))
      << "it counts what is no padding, wherever that is";
  EXPECT_EQ(language_before_source(Ids{1, 1}, config, 7), (Ids{1, 1}));
}

TEST(ShiftRules, AreTheFamilys) {
  ModelConfig config;
  for (const char* name : {"bart", "t5", "unknown"}) {
    config.model_type = name;
    EXPECT_EQ(shift_rule(config), &start_before_source) << name;
  }
  config.model_type = "mbart";
  EXPECT_EQ(shift_rule(config), &language_before_source);
}

}  // namespace
}  // namespace tandem
