#include "runtime/media/sound/live/live_request.h"

#include <algorithm>

#include "runtime/media/sound/live/live_formats.h"

namespace tandem {

proto::Prompt live_prompt(const LiveWindow& window, int rate, const LiveModel& model,
                          const std::string& field) {
  proto::Prompt prompt;
  proto::PromptPart& encoder = *prompt.mutable_encoder();
  encoder.set_field(field);
  encoder.mutable_sound()->set_file(wav_file(window.samples, rate));
  proto::SpeechParams& params = *encoder.mutable_sound()->mutable_params();
  if (!window.language.empty()) params.set_language(window.language);
  if (model.tasks) params.set_task("transcribe");
  if (model.times) params.set_return_timestamps(true);
  // A text with what looks like a token would be refused.
  if (model.prompts && !window.prompt.empty() && window.prompt.find("<|") == std::string::npos)
    params.set_prompt(window.prompt);
  return prompt;
}

void LiveAnswer::add(const proto::RequestChunk& chunk) {
  if (!chunk.language().empty()) language_ = chunk.language();
  if (chunk.has_progress()) seconds_ = chunk.progress().seconds();
  for (const proto::CompletionChunk& news : chunk.outputs()) {
    if (news.index() != 0) continue;
    tokens_ += news.token_ids_size();
    output_.mutable_text()->append(news.text());
    for (int i = std::max(0, output_.segments_size() - news.segment_offset());
         i < news.segments_size(); ++i)
      *output_.add_segments() = news.segments(i);
  }
  if (chunk.has_error()) error_ = chunk.error();
  ended_ = chunk.finished() || chunk.has_error();
}

LiveHypothesis LiveAnswer::hypothesis() const {
  LiveHypothesis out{.language = language_, .segments = {}};
  for (const proto::SpeechSegment& segment : output_.segments())
    out.segments.push_back({segment.text(), segment.start(), segment.end()});
  if (out.segments.empty() && !output_.text().empty())
    out.segments.push_back({output_.text(), 0, seconds_});
  return out;
}

}  // namespace tandem
