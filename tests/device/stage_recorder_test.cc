// A stage's decoder on a device: steps that are replayed say what they said when they were
// computed, and what the device's own runner says.
#include "runtime/execution/device/stage_recorder.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "models/load_model.h"
#include "models/stage_plan.h"
#include "runtime/engine/make_sequence_group.h"
#include "runtime/engine/states/request_state.h"
#include "runtime/execution/model_runner.h"
#include "runtime/protocol/json/options_reader.h"
#include "runtime/protocol/json/prompt_reader.h"
#include "tests/support/goldens/golden_config.h"

namespace tandem::stage_recorder_test {
namespace {

using nlohmann::json;
using Tokens = std::map<int64_t, std::vector<int32_t>>;  // by sequence

constexpr int kBlocks = 200;

// All layers in one stage, or no stages.
class Runner {
 public:
  Runner(const std::string& checkpoint, bool stage, bool record) {
    config_ = testing::golden_config(checkpoint);
    config_.mutable_loading()->set_device("cuda");
    const ModelConfig model_config = ModelConfig::load(config_.loading().model());
    ctx_ = make_context(config_, DType::kF32, 1);
    Checkpoint opened = Checkpoint::open(config_.loading().model());
    const Stage all = plan_stages(layer_sizes(model_config, opened), {.stages = 1}).front();
    RankModel rank{*ctx_, *comm_, load_model(model_config, opened, {*ctx_, *comm_, DType::kF32})};
    if (stage)
      rank.pipeline = std::make_shared<Pipeline>(*ctx_, comm_, /*by_device=*/false, 1, all);
    runner_ = make_model_runner(std::move(rank), {.block_size = config_.cache().block_size(),
                                                  .num_device_blocks = kBlocks,
                                                  .record_steps = record});
    scheduler_ = std::make_unique<Scheduler>(scheduler_config(
        config_, CacheSize{.num_device_blocks = kBlocks, .num_host_blocks = 0}, model_config));
  }
  void add(int number, const json& params) {
    RequestProcessor processor(config_.loading().model(), 1);
    json ids{0};
    for (int i = 0; i < 5 + number; ++i) ids.push_back(4 + (number * 13 + i * 7) % 60);
    ids.push_back(2);
    RequestState request(
        "r" + std::to_string(number),
        processor.prepare(read_prompt({{"encoder_prompt", {{"prompt_token_ids", ids}}}}),
                          read_options(params)),
        processor.tokenizer(), 0, 0);
    request.set_first_seq_id(10 * number);
    scheduler_->add_seq_group(make_sequence_group(request.add_request()));
  }
  Tokens run() {
    Tokens said;
    for (proto::StepInput step; has_work(step = scheduler_->schedule(0));) {
      const proto::StepOutput out = runner_->execute(step);
      for (const auto& output : out.outputs())
        for (const auto& sample : output.samples())
          said[sample.seq_id()].push_back(sample.token_id());
      scheduler_->complete_step(out);
      scheduler_->check_integrity();
    }
    return said;
  }
  DecoderStats stats() const { return runner_->decoder_stats(); }

 private:
  EngineConfig config_;
  std::unique_ptr<Context> ctx_;
  std::shared_ptr<Communicator> comm_ = make_local_communicator();
  std::unique_ptr<ModelRunner> runner_;
  std::unique_ptr<Scheduler> scheduler_;
};

class StageRecorderTest : public ::testing::TestWithParam<const char*> {};

TEST_P(StageRecorderTest, ReplaysWhatItComputes) {
  Tokens want;
  for (const auto& [stage, record] : {std::pair{false, true}, {true, false}, {true, true}}) {
    Runner runner(GetParam(), stage, record);
    for (int i = 0; i < 3; ++i)
      runner.add(i, {{"num_beams", 1}, {"max_tokens", 12 + 3 * i}, {"ignore_eos", true}});
    const Tokens said = runner.run();
    EXPECT_EQ(said.size(), 3U);
    if (want.empty()) want = said;
    EXPECT_EQ(said, want) << "stage " << stage << ", recorded " << record;
    if (!stage) continue;
    EXPECT_EQ(runner.stats().replayed > 5, record) << runner.stats().replayed;
    EXPECT_EQ(runner.stats().nodes > 0, record);
  }
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, StageRecorderTest,
                         ::testing::Values("bart-tiny", "marian-tiny"));

}  // namespace
}  // namespace tandem::stage_recorder_test
