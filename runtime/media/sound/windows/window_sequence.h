// A piece of sound → the requests that transcribe it, window after window: HuggingFace's
// WhisperForConditionalGeneration.generate(). A state machine without I/O.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/media/sound/log_mel.h"
#include "runtime/media/sound/segments.h"
#include "runtime/media/sound/windows/clip_times.h"
#include "runtime/media/sound/windows/language_search.h"
#include "runtime/media/sound/windows/silent_words.h"
#include "runtime/media/sound/windows/window_answer.h"
#include "runtime/media/sound/windows/window_frames.h"
#include "runtime/media/sound/windows/window_prompt.h"
#include "runtime/media/sound/words/token_times.h"
#include "runtime/protocol/part_request.h"
#include "runtime/protocol/tandem.pb.h"
#include "text/tokenizer.h"

namespace tandem {

// What all pieces of a transcription have in common.
struct SpeechTask {
  std::shared_ptr<const SpeechSettings> settings;
  TranscriptionParams params;
  proto::GenerationOptions options;  // for each window
  bool timestamps = false;
  const Tokenizer* tokenizer = nullptr;  // splits words where silence is looked for
};

class WindowSequence {
 public:
  // place: among the pieces, for seeds. Throws InputError naming the parameter.
  WindowSequence(std::shared_ptr<const SpeechTask> task, LogMel mel, int place);

  // The next requests, with numbers from `number` on; none while there are some under way, or when
  // it is done. Throws InputError for lengths that the model has no room for.
  std::vector<PartRequest> next(int& number);
  // Throws InputError if the answer has nothing to go on with.
  void take(int number, const proto::RequestOutput& output);
  bool done() const { return clip_ == clips_.size(); }

  int64_t frames_done() const { return done() ? mel_.frames : std::min(seek_, mel_.frames); }
  int64_t frames() const { return mel_.frames; }
  // Times and tokens, no text.
  const std::vector<proto::SpeechSegment>& segments() const { return segments_; }
  // With times of words: the tokens of segments(), one after the other; else empty. Seconds from
  // the piece's begin.
  const std::vector<SpokenToken>& spoken() const { return spoken_; }
  const std::string& language() const { return prompt_.language(); }
  // Of that segment's window.
  const std::string& language_of(size_t segment) const { return languages_[segment]; }
  const std::vector<int32_t>& first_prompt() const { return first_prompt_; }
  const std::string& finish_reason() const { return finish_reason_; }

 private:
  enum class Kind : uint8_t { kLanguage, kWindow, kSilence, kAlignment };

  void move_to(int64_t frame);
  int64_t window_frames() const;
  proto::Prompt prompt_of(const std::vector<int32_t>& ids) const;
  PartRequest probe(const std::vector<int32_t>& ids, std::vector<int32_t> allowed) const;
  PartRequest language_probe() const;
  void take_language(const proto::CompletionOutput& output);
  void begin_window();
  PartRequest attempt();
  void set_length(size_t prompt);
  void take_answer(const proto::CompletionOutput& output);
  void decide();
  int64_t positions_with_sound() const;
  PartRequest alignment() const;
  void begin_alignment();
  void align(const proto::Embedding& weights);
  void finish_window(bool silence);
  void add_segments(WindowSegments cut);
  void add_spoken(const WindowSegments& cut);

  std::shared_ptr<const SpeechTask> task_;
  LogMel mel_;
  WindowPrompt prompt_;
  int place_;
  std::vector<SoundClip> clips_;
  size_t clip_ = 0;  // the one that seek_ is in
  std::optional<LanguageSearch> search_;
  bool language_known_ = false;  // of the window, where each is asked for its own
  std::map<int, Kind> under_way_;
  // The window that is asked for.
  bool begun_ = false;
  size_t attempt_ = 0;           // place in the temperatures
  std::vector<int32_t> ids_;     // the prompt
  std::vector<int32_t> prefix_;  // that its text begins with
  WindowAnswer answer_;
  bool aligning_ = false;     // its tokens are settled, and are to be aligned
  std::vector<double> ends_;  // of its tokens, seconds from its begin; of words only
  bool condition_;
  bool greedy_ = false;  // beams are over: a window was sampled
  std::optional<int64_t> max_length_;
  int windows_ = 0;
  int64_t seek_ = 0;     // frames
  bool jumped_ = false;  // the window does not begin where the one before it ended
  std::optional<SilentWords> silence_;
  std::vector<proto::SpeechSegment> segments_;
  std::vector<std::string> languages_;  // of segments_
  std::vector<SpokenToken> spoken_;
  std::vector<int32_t> first_prompt_;
  std::string finish_reason_;
};

}  // namespace tandem
