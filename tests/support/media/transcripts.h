// Transcriptions as tests ask for them and compare them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/media/sound/transcription.h"
#include "runtime/protocol/tandem.pb.h"
#include "text/tokenizer.h"

namespace tandem::testing {

// Several kinds of transcriptions.
inline proto::SpeechParams speech_params(int kind) {
  proto::SpeechParams out;
  if (kind % 4 == 1) out.set_language("de");
  if (kind % 4 == 2) out.set_condition_on_prev_tokens(true);
  if (kind % 4 == 3) {
    out.set_chunk_length_s(1);
    out.set_return_timestamps(true);
  }
  if (kind % 8 >= 4) out.set_return_token_timestamps(true);
  return out;
}

// All that a transcription says, put together at its end: what comes piece by piece from an engine
// is compared with it.
inline proto::RequestOutput answer_of(const Transcription& transcription,
                                      const Tokenizer& tokenizer) {
  proto::RequestOutput out;
  out.set_finished(true);
  const std::vector<int32_t>& prompt = transcription.first_prompt();
  out.mutable_inputs()->mutable_prompt_token_ids()->Assign(prompt.begin(), prompt.end());
  out.set_language(transcription.language());
  proto::CompletionOutput& answer = *out.add_outputs();
  for (const proto::SpeechSegment& segment : transcription.segments()) {
    answer.mutable_token_ids()->MergeFrom(segment.token_ids());
    if (transcription.chunked()) answer.mutable_text()->append(segment.text());
    if (transcription.times()) *answer.add_segments() = segment;
  }
  if (!transcription.chunked())
    answer.set_text(tokenizer.decode({answer.token_ids().begin(), answer.token_ids().end()},
                                     /*skip_special=*/true));
  answer.set_finish_reason(transcription.finish_reason());
  return out;
}

// All of an output that a worker's death, a batch or another way to the engine must not change.
inline std::string said(const proto::RequestOutput& output) {
  std::string out = output.language() + ": " + output.outputs(0).text() + " (" +
                    output.outputs(0).finish_reason() + ")";
  for (const auto& segment : output.outputs(0).segments()) {
    out += "\n" + std::to_string(segment.start()) + " " + std::to_string(segment.end()) + " " +
           segment.text() + " ";
    for (const int id : segment.token_ids()) out += " " + std::to_string(id);
    for (const double time : segment.token_timestamps()) out += " " + std::to_string(time);
    for (const auto& word : segment.words())
      out += " [" + word.word() + " " + std::to_string(word.start()) + " " +
             std::to_string(word.end()) + " " + std::to_string(word.probability()) + "]";
  }
  for (const int id : output.outputs(0).token_ids()) out += " " + std::to_string(id);
  for (const int id : output.inputs().prompt_token_ids()) out += " <" + std::to_string(id);
  return out;
}

}  // namespace tandem::testing
