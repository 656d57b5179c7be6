// Tokens → text and stop rules, for one sequence. Off the model's critical path; one thread.
#pragma once

#include <string>
#include <vector>

#include "runtime/protocol/tandem.pb.h"
#include "runtime/sampling/stop_rules.h"
#include "runtime/scheduling/sequence.h"
#include "text/tokenizer.h"

namespace tandem {

class SequenceOutputState {
 public:
  // `tokenizer` and `params` outlive this.
  SequenceOutputState(int index, const Tokenizer& tokenizer, const proto::SamplingParams& params);

  bool finished() const { return is_finished(status_); }
  // Takes a sampled token; returns the status it leads to. Ignored once finished.
  SequenceStatus append(const proto::SequenceOutput& sample);
  // The sequence is a hypothesis of a beam search, at its end.
  void finish(const proto::BeamHypothesis& hypothesis);
  // All so far; text that may turn out to be part of a stop string is held back.
  const proto::CompletionOutput& output() const { return output_; }

 private:
  const proto::SamplingParams* params_;
  Detokenizer detokenizer_;
  StopStringMatcher matcher_;
  proto::CompletionOutput output_;
  SequenceStatus status_ = SequenceStatus::kRunning;
};

}  // namespace tandem
