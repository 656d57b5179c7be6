// A step that the host waits for, from top to bottom (model_runner.h): on the CPU, and on devices
// on the stages of a pipeline and on ranks of encoders. The host chooses its tokens. launch() does
// all the work; finish() hands out what it left.
#include <algorithm>
#include <chrono>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/seconds_since.h"
#include "runtime/execution/choice/verified_rows.h"
#include "runtime/execution/device/stage_recorder.h"
#include "runtime/execution/model_runner.h"
#include "runtime/execution/step_stages.h"
#include "runtime/sampling/beam_search.h"

namespace tandem {
namespace {

using Clock = std::chrono::steady_clock;

class HostModelRunner final : public ModelRunner {
 public:
  HostModelRunner(RankModel rank, const RunnerConfig& config) : stages_(std::move(rank), config) {
    if (config.record_steps && stages_.is_stage() && !stages_.ctx().on_cpu())
      recorder_.emplace(stages_.ctx(), stages_.model(), config.block_size,
                        /*keeps=*/stages_.chooses_tokens());
  }

  void launch(const proto::StepInput& input) override;
  int steps_launched() const override { return static_cast<int>(answers_.size()); }
  bool ready() override { return !answers_.empty(); }
  proto::StepOutput finish() override;
  DecoderStats decoder_stats() const override {
    return recorder_ ? recorder_->stats() : DecoderStats();
  }

 private:
  void encode(ModelStep& step);
  void decode(ModelStep& step);
  Tensor run_decoder(const ModelStep& step, const CrossWeights& weights);
  void choose(const Tensor& hidden, ModelStep& step);
  void append_tokens(const ModelStep& step);

  StepStages stages_;
  std::optional<StageRecorder> recorder_;  // of a stage on a device
  std::deque<proto::StepOutput> answers_;  // oldest first
};

void HostModelRunner::launch(const proto::StepInput& input) {
  ProfileSpan span(kStepSpan);
  const auto begun = Clock::now();
  stages_.begin_step();
  stages_.hear_tokens(input);
  ModelStep step = stages_.take_message(input);
  if (!stages_.ctx().on_cpu()) stages_.ctx().backend().begin_step();
  stages_.prepare(input, step, span);
  or_abort(stages_.group(), [&] {
    if (step.has_encoder_work()) encode(step);
    if (step.has_decoder_work()) decode(step);
    stages_.tell_tokens(step);
    // Its answer is known.
    if (!stages_.ctx().on_cpu() && stages_.chooses_tokens()) stages_.ctx().backend().synchronize();
  });
  stages_.advance(step);
  append_tokens(step);
  step.out.set_seconds(seconds_since(begun));
  stages_.end_step(step);
  answers_.push_back(std::move(step.out));
}

void HostModelRunner::encode(ModelStep& step) {
  ProfileSpan span(kEncoderSpan);
  span.say({step.batch.input.attention.encoder_start_loc.back()});
  const auto begun = Clock::now();
  stages_.pool_vectors(stages_.encode(step), step);
  // Its scratch is free again.
  if (!stages_.ctx().on_cpu()) stages_.ctx().backend().begin_step();
  step.out.set_encoder_seconds(seconds_since(begun));
}

void HostModelRunner::decode(ModelStep& step) {
  const auto begun = Clock::now();
  const CrossWeights weights = stages_.wanted_weights(step);
  const Tensor hidden = run_decoder(step, weights);
  stages_.add_weights(weights, step);
  if (!stages_.chooses_tokens()) return;
  stages_.add_prompt_logprobs(hidden, step);
  stages_.run_heads(hidden, step);
  choose(hidden, step);
  const auto& rows = step.batch.rows;
  const bool drafted =
      std::any_of(rows.begin(), rows.end(), [](const SampleRow& row) { return row.seq().drafted; });
  if (!drafted) return;
  // The draft model's steps have been measured under the same load.
  DraftCost& cost = stages_.draft_model()->cost();
  cost.add_target(static_cast<int>(step.batch.input.input_ids.size()), seconds_since(begun));
  step.out.set_draft_cost(cost.ratio());
}

Tensor HostModelRunner::run_decoder(const ModelStep& step, const CrossWeights& weights) {
  ProfileSpan span(kDecoderSpan);
  span.say({static_cast<int64_t>(step.batch.input.input_ids.size())});
  Context& ctx = stages_.ctx();
  StepPlan plan(ctx, step.batch.input, stages_.model().step_layout(), StepHalf::kDecoder);
  std::optional<StepShape> shape;
  if (recorder_ && weights.wanted.empty() && step.batch.decoder_adapters.empty())
    shape = recorder_->fill_up(plan);
  StepTensors in(ctx, plan);
  if (!ctx.on_cpu()) ctx.backend().expect_rows(in.input_ids.dim(0));
  if (!weights.wanted.empty()) in.cross_weights = &weights;
  const AdapterSet::Scope rows(stages_.adapters(), step.batch.decoder_adapters);
  if (!shape) return stages_.decode(in);
  return stages_.decode(in, [&](StageState before) {
    return recorder_->decode(in, *shape, std::move(before), stages_.cache());
  });
}

// A token for the last row of each sequence, and for the rows of its drafts; what follows a wrong
// draft is dropped.
void HostModelRunner::choose(const Tensor& hidden, ModelStep& step) {
  const std::vector<const SampleRow*> sequences = step.sampled_rows();
  const VerifiedRows rows(sequences);
  if (rows.views().empty()) return;
  ProfileSpan span(kSampleSpan);
  span.say({static_cast<int64_t>(rows.views().size())});
  const AdapterSet::Scope scope(stages_.adapters(),
                                step.batch.decoder_adapters.chosen(rows.indices()));
  std::vector<int> right(sequences.size(), -1);  // drafts: all of a sequence but the first
  for (auto& [row, output] : rows.choose(stages_.ctx(), stages_.comm(), stages_.model(), hidden)) {
    ++right[row];
    put_sample(step.out, step.sampled[row], std::move(output));
  }
  DraftModel* const drafts = stages_.draft_model();
  if (drafts == nullptr) return;
  for (size_t i = 0; i < sequences.size(); ++i) drafts->learn(sequences[i]->seq().seq_id, right[i]);
}

// Sequences go on with their tokens; those of beams come with the next step's message.
void HostModelRunner::append_tokens(const ModelStep& step) {
  if (!stages_.chooses_tokens()) return stages_.expect_tokens(step);
  const std::vector<const SampleRow*> sequences = step.sampled_rows();
  for (size_t i = 0; i < sequences.size(); ++i) {
    if (uses_beams(sequences[i]->group->params)) continue;
    const int64_t seq_id = step.sampled[i].seq_id;
    // The table's own, which the batch only reads.
    auto& group = const_cast<WorkerGroup&>(*sequences[i]->group);
    step.for_each_token(i, [&](int32_t token, bool behind_draft) {
      if (behind_draft)
        stages_.table().append_behind_draft(group, seq_id, token);
      else
        stages_.table().append_token(group, seq_id, token);
    });
  }
}

proto::StepOutput HostModelRunner::finish() {
  TANDEM_CHECK(!answers_.empty(), "no step is under way");
  proto::StepOutput out = std::move(answers_.front());
  answers_.pop_front();
  return out;
}

}  // namespace

std::unique_ptr<ModelRunner> make_host_model_runner(RankModel rank, const RunnerConfig& config) {
  return std::make_unique<HostModelRunner>(std::move(rank), config);
}

}  // namespace tandem
