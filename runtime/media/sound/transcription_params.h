// How sound is transcribed: what a request asks for over what the model says.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/media/sound/speech_settings.h"
#include "runtime/protocol/tandem.pb.h"
#include "text/tokenizer.h"

namespace tandem {

struct TranscriptionParams {
  std::optional<std::string> language, task;
  std::optional<bool> return_timestamps;
  bool condition_on_prev_tokens = false;
  std::vector<int32_t> prompt_ids;  // before the decoder's prompt; none: nothing is
  // Behind <|startofprev|>, before those in every window; that token is the first.
  std::vector<int32_t> hotwords;
  std::vector<int32_t> prefix;  // what the first window's text begins with, without a time
  // The whole prompt of a model whose prompt says languages and what else is wanted, and the token
  // of what is spoken; else empty.
  std::vector<int32_t> whole_prompt;
  std::string spoken_language;
  bool prompt_all_segments = false;
  bool words = false;           // times of words, which needs those of segments
  bool no_speech_prob = false;  // is asked for in any case; else only for its threshold
  // Tried one after the other; 0 is greedy decoding, or beams.
  std::vector<double> temperatures = {0};
  std::optional<double> compression_ratio_threshold, logprob_threshold, no_speech_threshold;
  // faster-whisper's. clips: seconds, as of clips_of(); none: the whole sound.
  std::vector<double> clips;
  std::optional<double> hallucination_silence;  // seconds
  bool multilingual = false;                    // each window's language is found
  int detection_windows = 1;                    // that may say the language
  double detection_threshold = 0.5;             // of the first that does; else most of them do
  bool chunked = false;  // windows of one length, all at once (runtime/media/sound/speech_input.h)

  // Throws InputError naming the parameter: one that cannot be, that the model does not know, or
  // that is not built.
  static TranscriptionParams of(const proto::SpeechParams& asked, const SpeechSettings& settings,
                                const Tokenizer& tokenizer);
};

// HuggingFace's get_prompt_ids(): <|startofprev|> and the text; of a text that is longer than
// `most` tokens its end, as OpenAI's. Throws InputError naming `field` for tokens in it that are no
// text.
std::vector<int32_t> speech_prompt_ids(const std::string& text, const Tokenizer& tokenizer,
                                       size_t most, const char* field = "prompt");

}  // namespace tandem
