// The second half of a request's life: sampled tokens → text, stop rules, outputs. One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/engine/output_processor.h"
#include "runtime/request/request_processor.h"

namespace tandem {

class RequestState {
 public:
  // Times in seconds of one clock. `tokenizer` outlives the state. Not movable once made: its
  // sequences refer to its parameters.
  RequestState(std::string request_id, PreparedRequest request, const Tokenizer& tokenizer,
               double arrival_time, int priority = 0);
  RequestState(const RequestState&) = delete;
  RequestState& operator=(const RequestState&) = delete;

  const std::string& request_id() const { return request_id_; }
  const proto::EncoderDecoderInputs& inputs() const { return request_.inputs; }
  const proto::SamplingParams& params() const { return request_.params; }
  double arrival_time() const { return arrival_time_; }
  int priority() const { return priority_; }
  // What the request returns: sequence i; with best_of, the i-th best when all have ended, and
  // nothing before. None if the encoder's output is pooled.
  int num_outputs() const { return pools() ? 0 : request_.params.n(); }
  const proto::CompletionOutput& output_of(int i) const;
  bool output_finished(int i) const;
  const std::vector<proto::TokenLogprobs>& prompt_logprobs() const { return prompt_logprobs_; }
  // The pooled output; null before it has come, or if tokens are generated.
  const proto::Embedding* embedding() const { return embedding_ ? &*embedding_ : nullptr; }
  bool finished() const;
  int num_output_tokens() const;  // of all that it generates; of beams, the rounds

  // Sequence `index` has the id first_seq_id + index; the encoder's comes behind them
  // (num_sequences()). New ones are given when a request starts anew on other workers.
  void set_first_seq_id(int64_t id) { first_seq_id_ = id; }
  int64_t first_seq_id() const { return first_seq_id_; }
  int64_t num_seq_ids() const { return int64_t{num_sequences(request_.params)} + 1; }
  // Not another request's that had the same id, nor of workers before.
  bool owns(int64_t seq_id) const {
    return seq_id >= first_seq_id_ && seq_id - first_seq_id_ < num_seq_ids();
  }

  // What the request is to the scheduler, with the tokens that it has so far. A beam search starts
  // anew.
  proto::AddRequest add_request() const;

  struct Finished {
    int64_t seq_id;
    SequenceStatus status;
  };
  // Takes a step's output. Returns the sequences that ended with it. What is not this request's
  // (owns()), and samples of sequences that have ended, are passed over.
  std::vector<Finished> apply(const proto::SequenceGroupOutput& output, double scheduled_at,
                              double now);
  // The end of a beam search: until then there is no output.
  void finish_beams(const proto::BeamResult& result, double now);
  void add_preemption() { ++num_preemptions_; }

  proto::RequestMetrics metrics(double now) const;
  // Everything so far.
  proto::RequestOutput output(double now) const;

 private:
  bool pools() const { return request_.params.has_pooling(); }
  bool picks_best() const { return seqs_.size() > static_cast<size_t>(request_.params.n()); }
  void pick_best();
  void add_prompt_logprobs(const proto::SequenceGroupOutput& output);

  std::string request_id_;
  PreparedRequest request_;
  double arrival_time_, first_scheduled_ = -1, first_token_ = -1;
  int priority_, num_preemptions_ = 0, beam_rounds_ = 0;
  int64_t first_seq_id_ = 0;
  std::vector<SequenceOutputState> seqs_;
  std::vector<proto::CompletionOutput> best_;  // with best_of: n, empty until all have ended
  std::vector<proto::TokenLogprobs> prompt_logprobs_;
  std::optional<proto::Embedding> embedding_;
};

// The scheduler's view of a request. Throws InputError if a field makes no sense.
std::unique_ptr<SequenceGroup> make_sequence_group(const proto::AddRequest& request);

}  // namespace tandem
