// The stages of a step that all devices share, in a runner's order. Also the state of a rank
// between steps: the model, its memory, the table of groups, the draft model. Synchronous; one
// thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/profile/profile.h"
#include "models/model.h"
#include "models/step/step_tensors.h"
#include "parallel/communicators/communicator.h"
#include "runtime/execution/batch_builder.h"
#include "runtime/execution/drafts/draft_model.h"
#include "runtime/execution/groups/sequence_table.h"
#include "runtime/execution/kv_cache.h"
#include "runtime/execution/model_runner.h"
#include "runtime/execution/ranks/unheard_tokens.h"
#include "runtime/protocol/tandem.pb.h"

namespace tandem {

// What a profile (base/profile) shows of a step. kStepSpan's values are those of say_step().
inline constexpr SpanKind kStepSpan{
    "step", "step", {"sequences", "encoder_tokens", "decoder_tokens", "drafts"}};
inline constexpr SpanKind kMessageSpan{"message", "phase"};
inline constexpr SpanKind kTakeSpan{"take", "phase", {"sources"}};
inline constexpr SpanKind kDraftsSpan{"drafts", "phase", {"sequences"}};
inline constexpr SpanKind kBatchSpan{"batch", "phase"};
inline constexpr SpanKind kEncoderSpan{"encoder", "phase", {"tokens"}};
inline constexpr SpanKind kDecoderSpan{"decoder", "phase", {"tokens"}};
inline constexpr SpanKind kDeviceSpan{"device", "phase"};  // its answer is waited for
inline constexpr SpanKind kSampleSpan{"sample", "phase", {"rows"}};

// A row whose token is wanted.
struct SampledRow {
  int output;  // index of its group in ModelStep::out
  int64_t seq_id;
};

// A step under way, filled in stage by stage.
struct ModelStep {
  std::vector<WorkerGroup*> scheduled;  // in the order of the message
  std::vector<int64_t> forgotten;       // sequences that ended, or came anew, since the last step
  Batch batch;
  std::vector<SampledRow> sampled;  // of batch.rows those with `samples`, in order
  proto::StepOutput out;            // one entry for each of `scheduled`

  bool has_encoder_work() const { return batch.input.has_encoder_work(); }
  bool has_decoder_work() const { return batch.input.has_decoder_work(); }
  // The rows of `sampled`. They point into `batch`.
  std::vector<const SampleRow*> sampled_rows() const;
  // Of the i-th row of `sampled`, whose tokens have been chosen: f(token, behind a draft).
  template <class F>
  void for_each_token(size_t i, const F& f) const {
    const auto& [output, seq_id] = sampled[i];
    const auto& samples = out.outputs(output).samples();
    auto sample = std::find_if(samples.begin(), samples.end(),
                               [&](const auto& s) { return s.seq_id() == seq_id; });
    f(sample->token_id(), false);
    while (++sample != samples.end() && sample->seq_id() == seq_id) f(sample->token_id(), true);
  }
};

// Puts the sample of a row where it belongs in `out`.
inline void put_sample(proto::StepOutput& out, const SampledRow& row,
                       proto::SequenceOutput sample) {
  sample.set_seq_id(row.seq_id);
  *out.mutable_outputs(row.output)->add_samples() = std::move(sample);
}

// Runs f. If it throws, aborts the group: the other ranks wait in a collective that this one will
// not enter.
template <class F>
decltype(auto) or_abort(Communicator& comm, F&& f) {
  try {
    return std::forward<F>(f)();
  } catch (...) {
    comm.abort();
    throw;
  }
}

class StepStages {
 public:
  StepStages(RankModel rank, const RunnerConfig& config);

  // Message: applies it to the table. Throws std::runtime_error naming the field that is wrong.
  ModelStep take_message(const proto::StepInput& input);
  // Keys and values of other ranks' encoders, block copies, drafts, batch. Swaps out, swaps in and
  // copies blocks. Has the draft model make the drafts that the message asks for. Then builds the
  // step's flat arrays, its output's entries and its sampled rows. Describes the step in `span`.
  void prepare(const proto::StepInput& input, ModelStep& step, ProfileSpan& span);
  // Encoder: hidden states [tokens, d_model] of all sources. Writes the cross-attention cache, the
  // draft model's too. Nothing on a stage without decoder layers.
  Tensor encode(ModelStep& step);
  // The decoder's last hidden states [tokens, d_model]; nothing unless the rank chooses tokens.
  // layers: runs a stage's layers; null: as they are.
  using Layers = std::function<StageState(StageState before)>;
  Tensor decode(const StepTensors& in, const Layers& layers = {});
  // Pooled vectors of the sources that ask for one, from encode()'s states. On rank 0 of those that
  // choose tokens.
  void pool_vectors(const Tensor& states, ModelStep& step);
  // What the model's head makes of the rows of the groups that want it, from the decoder's last
  // hidden states [tokens, d_model]. On rank 0.
  void run_heads(const Tensor& hidden, ModelStep& step);
  // The weights of cross-attention that groups want, for the decoder to store
  // (StepTensors::cross_weights), in the step's memory. Then, behind the decoder, to the output of
  // rank 0; all ranks take part.
  CrossWeights wanted_weights(const ModelStep& step);
  void add_weights(const CrossWeights& weights, ModelStep& step);
  // Log-probabilities of prompt tokens, from the decoder's last hidden states [tokens, d_model].
  void add_prompt_logprobs(const Tensor& hidden, ModelStep& step);
  // With stages, before take_message(): waits for tokens of steps before that this step needs.
  void hear_tokens(const proto::StepInput& input);
  // Behind the choice of tokens: the other stages may hear them.
  void tell_tokens(const ModelStep& step);
  // Behind advance(), on stages that choose no tokens: the sequences go on with unknown ones.
  void expect_tokens(const ModelStep& step);
  // Around a step. end_step() adds what the stages say of their time.
  void begin_step();
  void end_step(ModelStep& step);
  // Behind the model: chunks count as computed.
  void advance(const ModelStep& step) { table_.advance(step.scheduled); }

  Context& ctx() { return ctx_; }
  Communicator& comm() { return comm_; }  // the ranks of this rank's stage
  // All ranks, which end together.
  Communicator& group();
  bool is_stage() const { return pipeline_ != nullptr; }
  bool chooses_tokens() const { return !pipeline_ || pipeline_->is_last(); }
  Model& model() { return *model_; }
  int block_size() const { return block_size_; }
  KvCache& cache() { return pools_.device(); }
  SequenceTable& table() { return table_; }
  DraftModel* draft_model() { return draft_model_.get(); }  // null: there is none
  AdapterSet* adapters();                                   // null: there are none

 private:
  void take_encoded(const proto::StepInput& input);
  void make_room(const ModelStep& step);
  void post_encoded(const ModelStep& step);
  void make_drafts(const proto::StepInput& input, ModelStep& step);
  void build_batch(ModelStep& step);
  void find_constraint(WorkerGroup& group);
  void use_adapters(const ModelStep& step);
  // Whether the step's lists are made here: on the first rank of those that choose tokens.
  bool makes_lists() const { return comm_.rank() == 0 && chooses_tokens(); }

  Context& ctx_;
  Communicator& comm_;
  std::shared_ptr<AdapterStore> adapters_;  // outlives the model
  std::shared_ptr<Pipeline> pipeline_;      // null: there are no stages
  std::shared_ptr<EncoderOutbox> outbox_;   // null: it does not run encoders for others
  std::shared_ptr<EncoderInbox> inbox_;     // null: no other rank runs encoders for it
  std::unique_ptr<Model> model_;
  int block_size_;
  PositionPadding position_padding_;
  KvCachePools pools_;
  SequenceTable table_;
  std::unique_ptr<UnheardTokens> unheard_;  // null: this rank chooses tokens
  std::unique_ptr<DraftModel> draft_model_;
  std::shared_ptr<ConstraintStore> constraints_;
};

}  // namespace tandem
