// A draft model changes how many steps it takes, and nothing else, whatever it says: tokens,
// log-probabilities, texts and ends are those of an engine without.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "base/json.h"
#include "tests/support/engine/random_requests.h"
#include "tests/support/goldens/draft_checkpoint.h"
#include "tests/support/goldens/golden_engine.h"

namespace tandem::draft_model_test {
namespace {

using nlohmann::json;
using testing::Asked;
using testing::DraftCheckpoint;
using testing::expect_same;
using testing::RandomRequests;
using testing::run_all;

EngineConfig drafting(EngineConfig config, const std::filesystem::path& draft, int num_tokens) {
  config.mutable_drafting()->set_draft_model(draft.string());
  config.mutable_drafting()->set_num_speculative_tokens(num_tokens);
  config.mutable_drafting()->set_draft_dtype("float32");
  config.mutable_drafting()->set_draft_cost(
      0.02);  // it costs as much as the model, of which nothing is seen
  return config;
}

bool in_decoder(const std::string& name) { return name.find("decoder.") != std::string::npos; }

// Its decoder's first layer alone, the encoder as it is.
DraftCheckpoint with_one_layer() {
  return {.drops =
              [](const std::string& name) {
                return name.find("decoder.layers.1.") != std::string::npos;
              },
          .config = {{"decoder_layers", 1}}};
}
// The same, with an encoder that says something else.
DraftCheckpoint with_own_encoder() {
  DraftCheckpoint out = with_one_layer();
  out.turns = [](const std::string& name) {
    return name.find("encoder.layers.0.fc1") != std::string::npos;
  };
  return out;
}
DraftCheckpoint with_another_decoder() {
  return {.turns = [](const std::string& name) {
    return in_decoder(name) && name.find("fc") != std::string::npos;
  }};
}

TEST(DraftModel, ThatIsTheModelIsAlwaysRight) {
  EngineConfig config = testing::golden_config("bart-tiny");
  LLMEngine engine(drafting(config, config.loading().model(), 4));
  const json prompt = {{"encoder_prompt", {{"prompt_token_ids", {0, 7, 8, 9, 2}}}}};
  const json params = {{"max_tokens", 41}, {"ignore_eos", true}, {"no_repeat_ngram_size", 2}};
  const SpeculationStats& stats = engine.scheduler().speculation_stats();
  int steps = 41;
  // (What drafts cost is measured: on a machine that does something else, few may be asked for.)
  for (int i = 0; i < 20 && steps >= 25; ++i) {
    engine.add_request("r" + std::to_string(i), prompt, params);
    for (steps = 0; engine.has_unfinished_requests(); ++steps) engine.step();
    EXPECT_EQ(stats.accepted_tokens, stats.draft_tokens);
  }
  EXPECT_GT(stats.accepted_tokens, 20);
  EXPECT_LT(steps, 25);
}

TEST(DraftModel, DrawsWhatTheModelDraws) {
  EngineConfig config = testing::golden_config("bart-tiny");
  LLMEngine engine(drafting(config, config.loading().model(), 4));
  const json prompt = {{"encoder_prompt", {{"prompt_token_ids", {0, 7, 8, 9, 2}}}}};
  for (int i = 0; i < 3; ++i)
    engine.add_request(
        std::to_string(i), prompt,
        {{"max_tokens", 30}, {"do_sample", true}, {"seed", i}, {"ignore_eos", true}});
  while (engine.has_unfinished_requests()) engine.step();
  const SpeculationStats& stats = engine.scheduler().speculation_stats();
  EXPECT_GT(stats.accepted_tokens, 10);
  EXPECT_EQ(stats.accepted_tokens, stats.draft_tokens);
}

class DraftModels : public ::testing::TestWithParam<int> {};

TEST_P(DraftModels, NothingElseChanges) {
  const DraftCheckpoint kinds[] = {
      {}, with_one_layer(), with_own_encoder(), with_another_decoder()};
  test::TempDir draft;
  kinds[GetParam()].write("bart-tiny", draft);
  EngineConfig config = testing::golden_config("bart-tiny");
  config.mutable_loading()->set_threads(2);
  LLMEngine plain(config);
  std::mt19937_64 rng(9);
  int64_t drafted = 0, accepted = 0, preempted = 0;
  // (Drafts adapt to how fast this machine is: more rounds, if few are accepted.)
  for (int round = 0; round < 8 || (accepted <= 10 && round < 48); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    EngineConfig other = drafting(config, draft.path(), 1 + static_cast<int>(rng() % 6));
    other.mutable_drafting()->set_draft_dtype(round % 2 == 0 ? "float32" : "auto");
    other.mutable_cache()->set_block_size(round % 3 == 0 ? 1 : 4);
    other.mutable_scheduling()->set_max_num_batched_tokens(round % 2 == 0 ? 2048 : 40);
    if (round % 4 == 1) other.mutable_cache()->set_num_gpu_blocks_override(48);
    other.mutable_scheduling()->set_max_num_seqs(round % 4 == 3 ? 256
                                                                : 4);  // few: drafts are worth more
    if (round % 4 == 1)
      other.mutable_scheduling()->set_max_num_seqs(12);  // more than there are blocks for
    other.mutable_scheduling()->set_preemption_mode(testing::preemption_name(
        round % 8 == 1 ? PreemptionMode::kSwap : PreemptionMode::kRecompute));
    LLMEngine engine(other);
    RandomRequests requests(rng(), engine.model_config().vocab_size);
    std::vector<Asked> all;
    for (int i = round % 4 == 0 ? 2 : 12; i > 0; --i) all.push_back(requests.next());
    expect_same(plain, engine, all);
    const SpeculationStats& stats = engine.scheduler().speculation_stats();
    drafted += stats.draft_tokens;
    accepted += stats.accepted_tokens;
    preempted += engine.scheduler().num_preemptions();
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(drafted, 30);
  EXPECT_GT(accepted, 10);
  EXPECT_GT(preempted, 0);
}

INSTANTIATE_TEST_SUITE_P(Kinds, DraftModels, ::testing::Range(0, 4));

TEST(DraftModel, TokensAreHuggingFaces) {
  for (const char* checkpoint : {"bart-odd-heads", "marian-tiny", "t5-tiny"}) {
    EngineConfig config = testing::golden_config(checkpoint);
    config.mutable_loading()->set_threads(2);
    config.mutable_scheduling()->set_max_num_seqs(6);
    testing::expect_goldens(drafting(config, config.loading().model(), 5), checkpoint, 3, 12);
  }
}

// Keys and values of the draft model that caches keep, or lack, cost or save steps alone.
TEST(DraftModel, GoesOnFromWhatIsCached) {
  EngineConfig config = testing::golden_config("bart-tiny");
  config.mutable_cache()->set_block_size(2);
  LLMEngine engine(drafting(config, config.loading().model(), 4));
  const json prompt = {{"encoder_prompt", {{"prompt_token_ids", {0, 7, 8, 9, 2}}}},
                       {"decoder_prompt", {{"prompt_token_ids", {2, 0, 11, 12, 13, 14}}}}};
  const json params = {{"max_tokens", 20}, {"ignore_eos", true}, {"no_repeat_ngram_size", 2}};
  int64_t before = 0;
  for (int i = 0; i < 3; ++i) {
    engine.add_request(std::to_string(i), prompt, params);
    while (engine.has_unfinished_requests()) engine.step();
    const SpeculationStats& stats = engine.scheduler().speculation_stats();
    EXPECT_EQ(stats.accepted_tokens, stats.draft_tokens) << "request " << i;
    EXPECT_GT(stats.accepted_tokens, before + 8);
    before = stats.accepted_tokens;
  }
  EXPECT_GT(engine.scheduler().block_manager().cache_stats().encoder_hits, 0);
  EXPECT_GT(engine.scheduler().block_manager().cache_stats().prefix_hits, 0);
}

// --- What is refused -----------------------------------------------------------------------------

std::string error_of(const std::string& model, const std::filesystem::path& draft) {
  try {
    const LLMEngine engine(drafting(testing::golden_config(model), draft, 2));
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

TEST(DraftModelRefusals, NameWhatIsDifferent) {
  const std::string vocabulary = error_of("bart-tiny", testing::golden_dir("bart-odd-heads"));
  EXPECT_NE(vocabulary.find("--draft-model: its vocab_size is 700"), std::string::npos)
      << vocabulary;
  const auto of = [](const json& config) {
    test::TempDir dir;
    DraftCheckpoint{.config = config}.write("bart-tiny", dir);
    return error_of("bart-tiny", dir.path());
  };
  EXPECT_EQ(of(json::object()), "no error");
  const json config =
      json_from<json>(test::read_file(testing::golden_dir("bart-tiny") / "config.json"));
  const int positions = config["max_position_embeddings"];
  EXPECT_NE(of({{"max_position_embeddings", positions / 2}}).find("positions"), std::string::npos);
  EXPECT_NE(error_of("bart-tiny", "/nowhere").find("/nowhere"), std::string::npos);
}

TEST(DraftModelRefusals, AnotherTokenizer) {
  test::TempDir dir;
  DraftCheckpoint().write("bart-tiny", dir);
  json tokenizer = json_from<json>(test::read_file(dir / "tokenizer.json"));
  json& vocabulary = tokenizer["model"]["vocab"];
  std::string one, two;
  for (const auto& [token, id] : vocabulary.items()) {
    if (id == 100) one = token;
    if (id == 101) two = token;
  }
  vocabulary[one] = 101;
  vocabulary[two] = 100;
  dir.write("tokenizer.json", tokenizer.dump());
  EXPECT_NE(error_of("bart-tiny", dir.path()).find("token 100 of its tokenizer"),
            std::string::npos);
}

TEST(DraftModelRefusals, NoDrafts) {
  EngineConfig config = testing::golden_config("bart-tiny");
  config.mutable_drafting()->set_draft_model(config.loading().model());
  EXPECT_THROW(check_config(config), InputError);
}

// Both models' keys and values are in what the pool may take.
TEST(DraftModel, TakesItsShareOfTheCache) {
  EngineConfig config = testing::golden_config("bart-tiny");
  config.mutable_cache()->set_kv_cache_memory(size_t{1} << 20);
  config.mutable_scheduling()->set_max_num_seqs(256);
  const auto blocks = [](const EngineConfig& c) {
    return LLMEngine(c).scheduler().block_manager().device().num_total();
  };
  const int alone = blocks(config);
  EngineConfig both = drafting(config, config.loading().model(), 2);
  EXPECT_EQ(blocks(both), alone / 2);
  both.mutable_drafting()->set_draft_dtype("auto");  // int8, whose keys and values are in bf16
  EXPECT_EQ(blocks(both), alone * 2 / 3);
}

}  // namespace
}  // namespace tandem::draft_model_test
