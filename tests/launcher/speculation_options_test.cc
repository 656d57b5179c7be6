#include "launcher/speculation_options.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/support/processes/command_line.h"

namespace tandem::launcher {
namespace {

using nlohmann::json;
using testing::kTiny;
using testing::ProcessResult;

TEST(SpeculationOptions, HaveVllmsNames) {
  proto::DraftingConfig c;
  read_speculation(R"({"method": "ngram", "num_speculative_tokens": 5, "prompt_lookup_min": 2,
                       "prompt_lookup_max": 3, "disable_by_batch_size": 4})",
                   c);
  EXPECT_EQ(c.num_speculative_tokens(), 5);
  EXPECT_EQ(c.prompt_lookup_min(), 2);
  EXPECT_EQ(c.prompt_lookup_max(), 3);
  EXPECT_EQ(c.disable_by_batch_size(), 4);
  c.Clear();
  read_speculation(R"({"num_speculative_tokens": 1})", c);
  EXPECT_EQ(c.num_speculative_tokens(), 1);
  EXPECT_EQ(c.prompt_lookup_max(), proto::DraftingConfig().prompt_lookup_max());
  EXPECT_EQ(c.draft_model(), "");
  read_speculation(R"({"model": "some/where", "num_speculative_tokens": 3})", c);
  EXPECT_EQ(c.draft_model(), "some/where");
  EXPECT_EQ(c.num_speculative_tokens(), 3);
  read_speculation(R"({"method": "draft_model", "model": "x", "num_speculative_tokens": 3})", c);
  EXPECT_EQ(c.draft_model(), "x");
  EXPECT_EQ(c.draft_cost(), 0);
  read_speculation(R"({"model": "x", "num_speculative_tokens": 3, "draft_cost": 0.25})", c);
  EXPECT_EQ(c.draft_cost(), 0.25);
  EXPECT_EQ(c.draft_dtype(), "auto");
  read_speculation(R"({"model": "x", "num_speculative_tokens": 3, "dtype": "bfloat16"})", c);
  EXPECT_EQ(c.draft_dtype(), "bfloat16");
}

TEST(SpeculationOptions, SayWhatIsWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "--speculative-config"},
      {"[3]", "must be a JSON object"},
      {"{\"num_speculative_tokens\": 3", "--speculative-config"},
      {"{}", "num_speculative_tokens is missing"},
      {R"({"num_speculative_tokens": "3"})", "num_speculative_tokens"},
      {R"({"num_speculative_tokens": 2.5})", "num_speculative_tokens"},
      {R"({"num_speculative_tokens": 99999999999999})", "num_speculative_tokens"},
      {R"({"num_speculative_tokens": 3, "method": "eagle"})", "eagle"},
      {R"({"num_speculative_tokens": 3, "method": "draft_model"})", "model is missing"},
      {R"({"num_speculative_tokens": 3, "method": "ngram", "model": "x"})", "model"},
      {R"({"num_speculative_tokens": 3, "model": 7})", "model: 7"},
      {R"({"num_speculative_tokens": 3, "model": ""})", "model"},
      {R"({"num_speculative_tokens": 3, "draft_cost": "x"})", "draft_cost"},
      {R"({"num_speculative_tokens": 3, "dtype": 8})", "dtype"},
      {R"({"model": "x"})", "num_speculative_tokens is missing"},
      {R"({"num_speculative_tokens": 3, "prompt_lookup_mim": 1})", "prompt_lookup_mim"}};
  for (const auto& [text, words] : cases) {
    proto::DraftingConfig c;
    try {
      read_speculation(text, c);
      ADD_FAILURE() << text;
    } catch (const InputError& e) {
      EXPECT_NE(std::string(e.what()).find(words), std::string::npos) << e.what();
    }
  }
}

ProcessResult generate(const std::vector<std::string>& flags) {
  std::vector<std::string> all{"generate", "--model", kTiny, "--dtype", "float32"};
  all.insert(all.end(), flags.begin(), flags.end());
  all.insert(all.end(), {"--max-new-tokens", "30", "some words and some words"});
  return testing::tandem(all);
}

std::string of_model(double cost) {
  return json{{"model", kTiny}, {"num_speculative_tokens", 4}, {"draft_cost", cost}}.dump();
}

TEST(SpeculationOptions, OfTheProgram) {
  const ProcessResult plain = generate({});
  ASSERT_EQ(plain.status, 0) << plain.err;
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{"--num-speculative-tokens", "4"},
        {"--speculative-config", R"({"num_speculative_tokens": 4, "prompt_lookup_max": 2})"},
        {"--num-speculative-tokens", "4", "--tp", "2"},
        {"--draft-model", kTiny},
        {"--draft-model", kTiny, "--tp", "2"},
        {"--speculative-config", of_model(0.02)},
        {"--speculative-config", of_model(0.02), "--tp", "2"}}) {
    const ProcessResult r = generate(flags);
    EXPECT_EQ(r.status, 0) << r.err;
    EXPECT_EQ(r.out, plain.out);
  }
  for (const char* number : {"-1", "65", "x"}) {
    const ProcessResult r = generate({"--num-speculative-tokens", number});
    EXPECT_NE(r.status, 0);
    EXPECT_NE(r.err.find("--num-speculative-tokens"), std::string::npos) << r.err;
  }
  const ProcessResult nowhere = generate({"--draft-model", "/nowhere/at/all"});
  EXPECT_EQ(nowhere.status, 2);
  EXPECT_NE(nowhere.err.find("--draft-model: \"/nowhere/at/all\""), std::string::npos)
      << nowhere.err;
  const ProcessResult r = generate(
      {"--speculative-config", R"({"num_speculative_tokens": 4, "prompt_lookup_min": 9})"});
  EXPECT_EQ(r.status, 2);
  EXPECT_NE(r.err.find("prompt_lookup_min"), std::string::npos) << r.err;
}

}  // namespace
}  // namespace tandem::launcher
