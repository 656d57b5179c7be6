// What the decoder begins with in each window of sound: the text before, and the start with its
// language and task, as HuggingFace's generate() of Whisper puts them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/media/sound/speech_settings.h"
#include "runtime/media/sound/transcription_params.h"
#include "runtime/protocol/tandem.pb.h"

namespace tandem {

class WindowPrompt {
 public:
  // What is shared outlives it. Throws InputError naming the parameter that the model does not
  // know.
  WindowPrompt(const SpeechSettings& settings, const TranscriptionParams& params, bool timestamps);

  // Whether the language is to be found first: the likeliest one behind the start.
  bool open() const { return open_; }
  void set_language(int32_t id);
  const std::string& language() const { return language_; }  // its token; "": none is known
  // From now on windows are in that language; language() stays. Not while it is open().
  void change_language(int32_t id);
  const std::string& window_language() const { return window_language_; }

  // Of a window. before: what was said; with: whether its prompt has that; hotwords: and those.
  std::vector<int32_t> ids(std::span<const proto::SpeechSegment> before, bool with,
                           bool hotwords = true) const;
  // What the first window's text begins with: faster-whisper's prefix, behind time 0 if there are
  // times.
  std::vector<int32_t> prefix() const;
  // Of ids(), all up to the start.
  std::vector<int32_t> up_to_start(const std::vector<int32_t>& ids) const;

 private:
  void set_task();
  std::vector<int32_t> text_before(std::span<const proto::SpeechSegment> before, bool with) const;

  const SpeechSettings& settings_;
  const TranscriptionParams& params_;
  std::optional<std::string> asked_language_, asked_task_;  // of models that know several
  bool timestamps_, open_ = false;
  std::vector<std::optional<int32_t>> start_;  // and what is behind it
  std::string language_, window_language_;
};

}  // namespace tandem
