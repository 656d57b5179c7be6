// The runner itself, step by step: what is launched before the tokens of the step before are known,
// and which requests allow it.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "models/load_model.h"
#include "runtime/engine/make_sequence_group.h"
#include "runtime/engine/states/request_state.h"
#include "runtime/execution/model_runner.h"
#include "runtime/protocol/json/options_reader.h"
#include "runtime/protocol/json/prompt_reader.h"
#include "runtime/sampling/token_choice.h"
#include "tests/support/goldens/golden_config.h"

namespace tandem::steps_under_way_test {
namespace {

using nlohmann::json;

json steps_prompt() {
  return {{"encoder_prompt", {{"prompt_token_ids", {0, 11, 24, 37, 50, 63, 2}}}}};
}

class Runner {
 public:
  Runner() {
    config_ = testing::golden_config("bart-tiny");
    config_.mutable_loading()->set_device("cuda");
    config_.mutable_cache()->set_num_gpu_blocks_override(200);
    const ModelConfig model_config = ModelConfig::load(config_.loading().model());
    ctx_ = make_context(config_, DType::kF32, 1);
    Checkpoint checkpoint = Checkpoint::open(config_.loading().model());
    auto model = load_model(model_config, checkpoint, {*ctx_, *comm_, DType::kF32});
    runner_ =
        make_model_runner({*ctx_, *comm_, std::move(model)},
                          {.block_size = config_.cache().block_size(), .num_device_blocks = 200});
    SchedulerConfig scheduling =
        scheduler_config(config_,
                         CacheSize{.num_device_blocks = 200,
                                   .num_host_blocks = 0,
                                   .beam_vocabulary = model_config.vocab_size},
                         model_config);
    scheduling.max_steps_in_flight = 2;
    scheduler_ = std::make_unique<Scheduler>(scheduling);
  }
  void add(const json& params) {
    RequestProcessor processor(config_.loading().model(), 1);
    RequestState request("r", processor.prepare(read_prompt(steps_prompt()), read_options(params)),
                         processor.tokenizer(), 0, 0);
    request.set_first_seq_id(0);
    scheduler_->add_seq_group(make_sequence_group(request.add_request()));
  }
  void launch() {
    const proto::StepInput step = scheduler_->schedule(0);
    ASSERT_TRUE(has_work(step));
    runner_->launch(step);
  }
  // Tokens, lists of the most likely ones, candidates and moves of beams.
  std::vector<int32_t> finish() {
    const proto::StepOutput out = runner_->finish();
    scheduler_->complete_step(out);
    scheduler_->check_integrity();
    std::vector<int32_t> said;
    for (const auto& sample : out.outputs(0).samples()) {
      said.push_back(sample.token_id());
      for (const int32_t id : sample.candidates().token_ids()) said.push_back(id);
      for (const auto& entry : sample.logprobs().top())
        said.insert(said.end(), {entry.token_id(), entry.rank()});
    }
    for (const int32_t parent : out.outputs(0).moves().parents()) said.push_back(parent);
    return said;
  }
  ModelRunner& runner() { return *runner_; }

 private:
  EngineConfig config_;
  std::unique_ptr<Context> ctx_;
  std::unique_ptr<Communicator> comm_ = make_local_communicator();
  std::unique_ptr<ModelRunner> runner_;
  std::unique_ptr<Scheduler> scheduler_;
};

TEST(ModelRunner, LaunchesBeforeTokensAreKnown) {
  for (const json& params : {json{{"num_beams", 1}, {"max_tokens", 20}, {"ignore_eos", true}},
                             json{{"num_beams", 1},
                                  {"max_tokens", 20},
                                  {"ignore_eos", true},
                                  {"no_repeat_ngram_size", 3},
                                  {"logprobs", 4}},
                             json{{"num_beams", 3},
                                  {"max_tokens", 20},
                                  {"ignore_eos", true},
                                  {"no_repeat_ngram_size", 2}},
                             json{{"num_beams", 1},
                                  {"max_tokens", 20},
                                  {"ignore_eos", true},
                                  {"repetition_penalty", 1.3}},
                             json{{"num_beams", 1},
                                  {"max_tokens", 20},
                                  {"ignore_eos", true},
                                  {"temperature", 0.9},
                                  {"seed", 4},
                                  {"presence_penalty", 0.5},
                                  {"frequency_penalty", 0.5}},
                             json{{"num_beams", 4},
                                  {"max_tokens", 20},
                                  {"ignore_eos", true},
                                  {"repetition_penalty", 1.3}}}) {
    Runner ahead, behind;
    for (Runner* r : {&ahead, &behind}) r->add(params);
    std::vector<std::vector<int32_t>> want, got;
    for (int i = 0; i < 12; ++i) {
      ASSERT_NO_FATAL_FAILURE(behind.launch());
      want.push_back(behind.finish());
    }
    ASSERT_NO_FATAL_FAILURE(ahead.launch());
    for (int i = 0; i < 11; ++i) {
      ASSERT_NO_FATAL_FAILURE(ahead.launch());
      EXPECT_EQ(ahead.runner().steps_launched(), 2);
      got.push_back(ahead.finish());
    }
    got.push_back(ahead.finish());
    EXPECT_EQ(got, want);
    EXPECT_EQ(ahead.runner().steps_launched(), 0);
    EXPECT_FALSE(ahead.runner().ready());
  }
}

// The host reads no row of logits, so their steps are recorded.
TEST(ModelRunner, MasksAreTheDevices) {
  Runner runner;
  runner.add({{"num_beams", 1},
              {"max_tokens", 20},
              {"ignore_eos", true},
              {"allowed_token_ids", {5, 11, 12, 40}}});
  for (int i = 0; i < 8; ++i) {
    ASSERT_NO_FATAL_FAILURE(runner.launch());
    const std::vector<int32_t> tokens = runner.finish();
    EXPECT_TRUE(std::set<int32_t>({5, 11, 12, 40}).contains(tokens.front()));
  }
  EXPECT_GT(runner.runner().decoder_stats().replayed, 0);
}

TEST(ChoosesAhead, WhereTokensAreNotLookedAt) {
  const auto chooses = [](const json& params) {
    RequestProcessor processor(testing::golden_config("bart-tiny").loading().model(), 1);
    return chooses_ahead(
        processor.prepare(read_prompt(steps_prompt()), read_options(params)).params, 512);
  };
  EXPECT_TRUE(chooses({{"num_beams", 1}}));
  EXPECT_TRUE(chooses({{"num_beams", 1}, {"temperature", 0.7}, {"top_p", 0.9}, {"top_k", 5}}));
  EXPECT_TRUE(chooses({{"num_beams", 1}, {"min_tokens", 3}}));
  EXPECT_FALSE(chooses({{"num_beams", 2}}));
  EXPECT_TRUE(chooses({{"num_beams", 1}, {"no_repeat_ngram_size", 3}}));
  EXPECT_FALSE(chooses({{"num_beams", 1}, {"encoder_no_repeat_ngram_size", 3}}));
  EXPECT_FALSE(chooses(
      {{"num_beams", 1}, {"repetition_penalty", 1.2}, {"encoder_no_repeat_ngram_size", 3}}));
  EXPECT_TRUE(chooses({{"num_beams", 1}, {"repetition_penalty", 1.2}}));
  EXPECT_TRUE(chooses({{"num_beams", 1}, {"presence_penalty", 1.2}, {"frequency_penalty", -1}}));
  EXPECT_TRUE(chooses({{"num_beams", 1}, {"logprobs", 0}}));
  EXPECT_TRUE(chooses({{"num_beams", 1}, {"logprobs", 64}}));
  EXPECT_FALSE(chooses({{"num_beams", 1}, {"logprobs", 65}}));
  EXPECT_TRUE(chooses({{"num_beams", 1}, {"allowed_token_ids", {2, 5}}}));
  EXPECT_FALSE(chooses({{"num_beams", 1}, {"guided_choice", {"a", "b"}}}));
}

}  // namespace
}  // namespace tandem::steps_under_way_test
