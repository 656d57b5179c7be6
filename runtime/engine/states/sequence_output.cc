#include "runtime/engine/states/sequence_output.h"

#include <string>
#include <utility>
#include <vector>

#include "base/check.h"

namespace tandem {

SequenceOutputState::SequenceOutputState(proto::CompletionOutput& output,
                                         const Tokenizer& tokenizer,
                                         const proto::SamplingParams& params,
                                         std::span<const int32_t> prompt)
    : output_(&output),
      params_(&params),
      tokenizer_(&tokenizer),
      detokenizer_(tokenizer, params.skip_special_tokens()),
      matcher_(params) {
  if (!params.stop_by_tokens() || params.stop().empty()) return;
  // What HuggingFace keeps is the text of all tokens.
  if (params.include_stop_str_in_output()) matcher_ = StopStringMatcher({}, true);
  by_tokens_.emplace(std::vector<std::string>(params.stop().begin(), params.stop().end()));
  for (const int32_t id : prompt) by_tokens_->append(tokenizer.inner_text(id));
}

SequenceStatus SequenceOutputState::append(const proto::SequenceOutput& sample) {
  if (finished()) return status_;
  output_->add_token_ids(sample.token_id());
  output_->set_cumulative_logprob(output_->cumulative_logprob() + sample.logprob());
  if (params_->has_logprobs()) *output_->add_logprobs() = sample.logprobs();

  const int length = output_->token_ids_size();
  StopDecision decision = check_stop(*params_, sample.token_id(), length);
  if (by_tokens_) {
    by_tokens_->append(tokenizer_->inner_text(sample.token_id()));
    if (const std::string* stop = by_tokens_->match())
      decision = {SequenceStatus::kFinishedStopped, *stop};
  }
  const bool may_stop = by_tokens_ ? decision.status == SequenceStatus::kFinishedStopped
                                   : length > params_->min_tokens_stop();  // as vLLM
  std::string& text = *output_->mutable_text();
  text += matcher_.append(detokenizer_.append(sample.token_id()), may_stop);
  if (!matcher_.stopped() && decision.status != SequenceStatus::kRunning) {
    text += matcher_.append(detokenizer_.finish(), may_stop);
    text += matcher_.finish();
  }
  if (matcher_.stopped()) decision = {SequenceStatus::kFinishedStopped, matcher_.stop_string()};
  status_ = decision.status;
  output_->set_finish_reason(finish_reason(status_));
  output_->set_stop_reason(decision.reason);
  return status_;
}

void SequenceOutputState::end_by_time() {
  TANDEM_CHECK(!finished());
  std::string& text = *output_->mutable_text();
  const bool may_stop = output_->token_ids_size() > params_->min_tokens_stop();
  text += matcher_.append(detokenizer_.finish(), may_stop);
  text += matcher_.finish();
  status_ = SequenceStatus::kFinishedLength;
  output_->set_finish_reason(finish_reason(status_));
}

void SequenceOutputState::finish(const proto::BeamHypothesis& hypothesis) {
  TANDEM_CHECK(!finished() && output_->token_ids().empty(), "a beam search has one end");
  for (const int32_t token : hypothesis.token_ids()) {
    output_->add_token_ids(token);
    *output_->mutable_text() += detokenizer_.append(token);
  }
  TANDEM_CHECK(hypothesis.logprobs().empty() ||
               hypothesis.logprobs_size() == hypothesis.token_ids_size());
  for (int i = 0; i < hypothesis.logprobs_size(); ++i) {
    proto::TokenLogprob& logprob = *output_->add_logprobs()->add_top();  // of no rank
    logprob.set_token_id(hypothesis.token_ids(i));
    logprob.set_logprob(hypothesis.logprobs(i));
  }
  *output_->mutable_text() += detokenizer_.finish();
  output_->set_score(hypothesis.score());
  output_->set_cumulative_logprob(hypothesis.cumulative_logprob());
  status_ = hypothesis.finish_reason() == finish_reason(SequenceStatus::kFinishedStopped)
                ? SequenceStatus::kFinishedStopped
                : SequenceStatus::kFinishedLength;
  output_->set_finish_reason(finish_reason(status_));
}

}  // namespace tandem
