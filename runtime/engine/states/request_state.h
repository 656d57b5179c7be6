// The second half of a request's life: sampled tokens → text, stop rules, its output. One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "runtime/engine/states/sequence_output.h"
#include "runtime/request/request_processor.h"
#include "runtime/scheduling/sequence.h"

namespace tandem {

class RequestState {
 public:
  // Times in seconds of one clock. `tokenizer` outlives the state. Not movable once made: its
  // sequences refer to its parameters and its output.
  RequestState(std::string request_id, PreparedRequest request, const Tokenizer& tokenizer,
               double arrival_time, int priority = 0);
  RequestState(const RequestState&) = delete;
  RequestState& operator=(const RequestState&) = delete;

  const std::string& request_id() const { return output_.request_id(); }
  const proto::EncoderDecoderInputs& inputs() const { return output_.inputs(); }
  const proto::SamplingParams& params() const { return params_; }
  double arrival_time() const { return arrival_time_; }
  int priority() const { return priority_; }
  // All that there is so far, and it only grows. Sequence i of those that the request returns; with
  // best_of, the i-th best when all have ended, and nothing before. No sequences if hidden
  // states are pooled. With metrics once it has finished.
  const proto::RequestOutput& output() const { return output_; }
  bool finished() const { return output_.finished(); }
  int num_output_tokens() const { return num_tokens_; }  // of all that it generates; beams: rounds

  // Sequence `index` has the id first_seq_id + index; the encoder's comes behind them
  // (num_sequences()). New ones are given when a request starts anew on other workers.
  void set_first_seq_id(int64_t id) { first_seq_id_ = id; }
  int64_t first_seq_id() const { return first_seq_id_; }
  int64_t num_seq_ids() const { return int64_t{num_sequences(params_)} + 1; }
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
  // A sequence whose constraint no token could follow; then the request has failed. Null: none.
  std::optional<InputError> stuck() const { return stuck_; }
  void add_preemption() { ++num_preemptions_; }
  void check_integrity() const;

 private:
  // Sequences that have a token end when the time of the request (max_time) is over.
  void end_by_time(std::vector<Finished>& ended);
  bool pools() const { return params_.has_pooling(); }
  bool picks_best() const { return !candidates_.empty(); }
  void pick_best();
  bool add_embedding(const proto::SequenceGroupOutput& output);
  void add_prompt_logprobs(const proto::SequenceGroupOutput& output);
  void finish(double now);
  void note_stuck(size_t index);

  proto::SamplingParams params_;
  double arrival_time_, first_scheduled_ = -1, first_token_ = -1;
  int priority_, num_preemptions_ = 0, num_tokens_ = 0;
  int64_t first_seq_id_ = 0;
  proto::RequestOutput output_;                          // but for the values of frames
  google::protobuf::RepeatedField<float> frame_values_;  // which workers may need again
  // With best_of: the sequences, of which the best become outputs when all have ended.
  google::protobuf::RepeatedPtrField<proto::CompletionOutput> candidates_;
  proto::Embedding rows_;  // of spans, until all of them are there
  std::vector<SequenceOutputState> seqs_;
  std::optional<InputError> stuck_;
};

}  // namespace tandem
