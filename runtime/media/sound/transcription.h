// One sound → the requests that transcribe it, one after the other: HuggingFace's
// WhisperForConditionalGeneration.generate(). A state machine without I/O: whoever drives it sends
// what next() says to an engine, and hands take() what comes back.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/media/sound/log_mel.h"
#include "runtime/media/sound/segments.h"
#include "runtime/media/sound/speech_settings.h"
#include "runtime/media/sound/transcription_params.h"
#include "runtime/protocol/tandem.pb.h"
#include "text/tokenizer.h"

namespace tandem {

// Frames [begin, begin + settings.window_frames) of a sound; behind its end zeros. Of a clip all.
proto::EncoderFrames window_of(const LogMel& mel, const SpeechSettings& settings, int64_t begin);

class Transcription {
 public:
  // `options`: of generation, for each window. What is shared outlives the transcription. Throws
  // InputError naming the parameter that the model does not know, or that is not built.
  Transcription(std::shared_ptr<const SpeechSettings> settings, LogMel mel,
                TranscriptionParams params, proto::GenerationOptions options);

  struct Request {
    proto::Prompt prompt;
    proto::GenerationOptions options;
  };
  // The next request, whose answer take() must have before the next call; nothing: done. Throws
  // InputError for lengths that the model has no room for.
  std::optional<Request> next();
  // Throws InputError if the answer has no tokens to go on with.
  void take(const proto::RequestOutput& output);

  // Seconds of sound that are done, and that there are.
  double seconds_done() const;
  double seconds() const { return mel_.seconds; }
  const std::vector<proto::SpeechSegment>& segments() const { return segments_; }
  // All of it as one answer: the tokens of all segments, without prompts and ends; the first
  // window's prompt. Texts are without times.
  proto::RequestOutput result(const Tokenizer& tokenizer) const;

 private:
  Request detection() const;
  Request window();
  void begin_prompt();
  void set_task();
  std::vector<int32_t> prompt() const;
  std::vector<int32_t> text_before() const;
  void set_length(size_t prompt, proto::GenerationOptions& options);
  SpeechWindow current() const;

  std::shared_ptr<const SpeechSettings> settings_;
  LogMel mel_;
  TranscriptionParams params_;
  proto::GenerationOptions options_;
  bool timestamps_ = false, detect_ = false, condition_ = false;
  std::vector<std::optional<int32_t>> init_;  // the decoder's prompt behind the text before
  std::optional<int64_t> max_length_;         // of the window before
  int64_t seek_ = 0;                          // frames
  std::vector<proto::SpeechSegment> segments_;
  std::vector<int32_t> first_prompt_;
  std::string language_, finish_reason_;
  proto::RequestMetrics metrics_;
};

}  // namespace tandem
