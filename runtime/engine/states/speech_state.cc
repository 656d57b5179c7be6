#include "runtime/engine/states/speech_state.h"

#include <utility>

#include "base/check.h"
#include "base/error.h"

namespace tandem {

SpeechState::SpeechState(const std::string& request_id,
                         std::shared_ptr<Transcription> transcription, const Tokenizer& tokenizer,
                         double arrival_time)
    : transcription_(std::move(transcription)),
      detokenizer_(tokenizer, /*skip_special=*/true),
      times_(arrival_time),
      seconds_(transcription_->seconds()) {
  output_.set_request_id(request_id);
  output_.add_outputs();
  const auto& warnings = transcription_->warnings();
  output_.mutable_warnings()->Assign(warnings.begin(), warnings.end());
}

std::vector<PartRequest> SpeechState::next() {
  if (!transcription_) return {};
  if (transcription_->done()) {  // nobody says anything
    seconds_done_ = seconds_;
    finish(times_.arrival());
    return {};
  }
  std::vector<PartRequest> out = transcription_->next();
  unanswered_ += static_cast<int>(out.size());
  if (unanswered_ == 0) throw invalid_request(kSoundField, "has no sound");
  return out;
}

void SpeechState::take(int number, const proto::RequestOutput& answer, double now) {
  TANDEM_CHECK(transcription_ != nullptr);
  --unanswered_;
  times_.answered(answer);
  transcription_->take(number, answer);
  output_.set_language(transcription_->language());
  seconds_done_ = transcription_->seconds_done();
  add_segments();
  if (output_.outputs(0).token_ids_size() > 0) times_.has_text(now);
  if (transcription_->done()) finish(now);
}

// What is certain since the last answer. Characters may go on behind a segment's end.
void SpeechState::add_segments() {
  proto::CompletionOutput& out = *output_.mutable_outputs(0);
  const auto& segments = transcription_->segments();
  for (; num_segments_ < segments.size(); ++num_segments_) {
    const proto::SpeechSegment& segment = segments[num_segments_];
    out.mutable_token_ids()->MergeFrom(segment.token_ids());
    if (transcription_->times()) *out.add_segments() = segment;
    if (transcription_->chunked()) {
      *out.mutable_text() += segment.text();
      continue;
    }
    for (const int32_t token : segment.token_ids())
      *out.mutable_text() += detokenizer_.append(token);
  }
}

void SpeechState::finish(double now) {
  const std::vector<int32_t>& prompt = transcription_->first_prompt();
  output_.mutable_inputs()->mutable_prompt_token_ids()->Assign(prompt.begin(), prompt.end());
  proto::CompletionOutput& out = *output_.mutable_outputs(0);
  if (!transcription_->chunked()) *out.mutable_text() += detokenizer_.finish();
  out.set_finish_reason(transcription_->finish_reason());
  output_.set_finished(true);
  times_.write(now, *output_.mutable_metrics());
  stop();
}

void SpeechState::stop() { transcription_.reset(); }

void SpeechState::check_integrity() const {
  TANDEM_CHECK_EQ(output_.outputs_size(), 1);
  TANDEM_CHECK_EQ(output_.has_metrics(), finished());
  TANDEM_CHECK(!finished() || transcription_ == nullptr);
  TANDEM_CHECK_GE(unanswered_, 0);
  TANDEM_CHECK_LE(seconds_done_, seconds_);
}

}  // namespace tandem
