// Tokens → text and stop rules, for one sequence. Off the model's critical path; one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "runtime/protocol/tandem.pb.h"
#include "runtime/sampling/sequence_status.h"
#include "runtime/sampling/stop_rules.h"
#include "text/tokenizer.h"

namespace tandem {

class SequenceOutputState {
 public:
  // All that comes is appended to `output`; text that may turn out to be part of a stop string is
  // held back. `output`, `tokenizer` and `params` outlive this.
  // `prompt`: the decoder's.
  SequenceOutputState(proto::CompletionOutput& output, const Tokenizer& tokenizer,
                      const proto::SamplingParams& params, std::span<const int32_t> prompt);

  bool finished() const { return is_finished(status_); }
  // Takes a sampled token; returns the status it leads to. Ignored once finished.
  SequenceStatus append(const proto::SequenceOutput& sample);
  // The token before was the last one, for the time that the request had is over. Not once
  // finished.
  void end_by_time();
  // The sequence is a hypothesis of a beam search, at its end.
  void finish(const proto::BeamHypothesis& hypothesis);
  const proto::CompletionOutput& output() const { return *output_; }

 private:
  proto::CompletionOutput* output_;
  const proto::SamplingParams* params_;
  const Tokenizer* tokenizer_;
  Detokenizer detokenizer_;
  StopStringMatcher matcher_;
  std::optional<TokenStopMatcher> by_tokens_;  // decides in place of `matcher_`, which cuts
  SequenceStatus status_ = SequenceStatus::kRunning;
};

}  // namespace tandem
