#include "runtime/media/sound/transcription_params.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include "base/error.h"
#include "base/strings/printable.h"
#include "runtime/media/sound/windows/clip_times.h"
#include "runtime/protocol/json/speech_params_reader.h"
#include "text/language_names.h"
#include "text/unicode/python_space.h"

namespace tandem {
namespace {

using Ids = std::vector<int32_t>;

// What a request says, else the model, unless it is switched off.
class Choice {
 public:
  explicit Choice(const proto::SpeechParams& asked) : asked_(asked) {}

  bool is_off(const char* name) const {
    return std::find(asked_.off().begin(), asked_.off().end(), name) != asked_.off().end();
  }
  template <class T>
  std::optional<T> of(const char* name, bool given, const T& value,
                      const std::optional<T>& model) const {
    if (given) return value;
    return is_off(name) ? std::nullopt : model;
  }

 private:
  const proto::SpeechParams& asked_;
};

// Times of words, and of segments where nothing is said of them.
void set_words(const proto::SpeechParams& asked, const SpeechSettings& s, const Choice& choice,
               TranscriptionParams& out) {
  const char* const name = "return_token_timestamps";
  out.words = choice
                  .of(name, asked.has_return_token_timestamps(), asked.return_token_timestamps(),
                      s.return_token_timestamps)
                  .value_or(false);
  if (!out.words) return;
  if (s.alignment_heads.empty())
    throw not_supported(name,
                        "generation_config.json has no alignment_heads: the model says no times "
                        "of words");
  if (asked.has_return_timestamps() && !asked.return_timestamps())
    throw invalid_request(name, "needs return_timestamps: words are parts of segments");
  out.return_timestamps = true;
}

void set_thresholds(const proto::SpeechParams& asked, const SpeechSettings& s, const Choice& choice,
                    TranscriptionParams& out) {
  out.compression_ratio_threshold =
      choice.of("compression_ratio_threshold", asked.has_compression_ratio_threshold(),
                asked.compression_ratio_threshold(), s.compression_ratio_threshold);
  out.logprob_threshold = choice.of("logprob_threshold", asked.has_logprob_threshold(),
                                    asked.logprob_threshold(), s.logprob_threshold);
  out.no_speech_threshold = choice.of("no_speech_threshold", asked.has_no_speech_threshold(),
                                      asked.no_speech_threshold(), s.no_speech_threshold);
  if (!asked.temperature().empty())
    out.temperatures.assign(asked.temperature().begin(), asked.temperature().end());
  if (!out.no_speech_threshold) return;
  if (!out.logprob_threshold)
    throw invalid_request("no_speech_threshold",
                          "needs logprob_threshold: a window is silent where both say so");
  if (!s.no_timestamps || *s.no_timestamps == 0)
    throw not_supported("no_speech_threshold",
                        "generation_config.json has no no_timestamps_token_id: the model has no "
                        "token for silence");
}

// " text", as ids. Throws InputError naming `field` for tokens in it that are no text.
Ids speech_text_ids(const std::string& text, const Tokenizer& tokenizer, const char* field) {
  check_utf8(text, field);
  std::string spaced = " ";
  spaced += stripped(text);
  Ids ids = tokenizer.encode(spaced, /*add_special=*/false);
  const std::optional<int32_t> end = tokenizer.token_to_id("<|endoftext|>");
  for (const int32_t id : ids)
    if (tokenizer.is_special(id) || (end && id >= *end))
      throw invalid_request(
          field, "must be text only, without the token " + printable(tokenizer.token_bytes(id)));
  return ids;
}

// faster-whisper's: of a long list the beginning stays.
Ids hotword_ids(const std::string& words, const Tokenizer& tokenizer, size_t most) {
  Ids out = speech_prompt_ids(words, tokenizer, std::numeric_limits<size_t>::max(), "hotwords");
  if (out.size() > most + 1) out.resize(most + 1);
  return out;
}

// faster-whisper's: of a long one the beginning stays.
Ids prefix_ids(const proto::SpeechParams& asked, const SpeechSettings& s,
               const Tokenizer& tokenizer, size_t most) {
  Ids out;
  if (!stripped(asked.prefix()).empty()) {
    out = speech_text_ids(asked.prefix(), tokenizer, "prefix");
  } else {
    for (const int32_t id : asked.prefix_ids().ids()) {
      if (id < 0 || id >= s.first_timestamp() || id >= s.vocab_size || tokenizer.is_special(id))
        throw invalid_request("prefix_ids", "must be ids of text, not " + std::to_string(id));
      out.push_back(id);
    }
  }
  if (out.size() > most) out.resize(most);
  if (!out.empty() && (s.clip || !s.prompt_tokens.empty()))
    throw not_supported(asked.has_prefix() ? "prefix" : "prefix_ids",
                        "the model's prompt takes no text");
  return out;
}

// What faster-whisper has beyond HuggingFace.
void set_windows(const proto::SpeechParams& asked, const SpeechSettings& s,
                 TranscriptionParams& out) {
  if (names_clips(asked)) {
    if (s.clip) throw not_supported("clip_timestamps", "the model hears a clip as a whole");
    if (out.chunked)
      throw invalid_request("clip_timestamps", "and chunk_length_s: give one of them");
    out.clips.assign(asked.clip_timestamps().begin(), asked.clip_timestamps().end());
  }
  if (asked.has_hallucination_silence_threshold()) {
    const char* const name = "hallucination_silence_threshold";
    if (!out.words)
      throw invalid_request(name, "needs return_token_timestamps: it looks at times of words");
    if (out.chunked) throw invalid_request(name, "and chunk_length_s: give one of them");
    out.hallucination_silence = asked.hallucination_silence_threshold();
  }
  const bool finds = asked.multilingual() || asked.has_language_detection_segments() ||
                     asked.has_language_detection_threshold();
  if (finds && s.multilingual != false && s.languages.empty())
    throw not_supported(asked.multilingual() ? "multilingual" : "language_detection_segments",
                        "the model finds no languages");
  // (A model of one language knows it; faster-whisper's says so in its log, and goes on.)
  out.multilingual = asked.multilingual() && s.multilingual != false;
  if (asked.has_language_detection_segments())
    out.detection_windows = static_cast<int>(asked.language_detection_segments());
  if (asked.has_language_detection_threshold())
    out.detection_threshold = asked.language_detection_threshold();
}

std::string language_token(const std::string& name) {
  if (name.starts_with("<|") && name.ends_with("|>")) return name;
  const std::string code = language_code(name);
  return "<|" + (code.empty() ? name : code) + "|>";
}

// English where nothing is said. To translate is to write English.
void set_whole_prompt(const SpeechSettings& s, const Tokenizer& tokenizer,
                      TranscriptionParams& out) {
  const std::string language = out.language.value_or("en"), task = out.task.value_or("transcribe");
  if (task != "transcribe" && task != "translate")
    throw invalid_request("task", in_quotes(task) + " is not transcribe or translate");
  const bool translates = task == "translate";
  const auto& tokens = s.prompt_tokens;
  if (translates && std::find(tokens.begin(), tokens.end(), "$target") == tokens.end())
    throw not_supported("task", "the model does not translate");
  out.spoken_language = language_token(language);
  for (const std::string& token : tokens) {
    const bool source = token == "$source" || (token == "$target" && !translates);
    const std::string name = source               ? out.spoken_language
                             : token == "$target" ? language_token("en")
                                                  : token;
    const std::optional<int32_t> id = tokenizer.token_to_id(name);
    if (!id && source)
      throw invalid_request("language", in_quotes(language) + " is not a language of this model");
    if (!id) throw invalid_model("tokenizer", "has no token " + printable(name));
    out.whole_prompt.push_back(*id);
  }
}

}  // namespace

Ids speech_prompt_ids(const std::string& text, const Tokenizer& tokenizer, size_t most,
                      const char* field) {
  const std::optional<int32_t> start = tokenizer.token_to_id("<|startofprev|>");
  if (!start) throw not_supported(field, "the model's tokenizer has no <|startofprev|>");
  Ids ids = speech_text_ids(text, tokenizer, field);
  if (ids.size() > most) ids.erase(ids.begin(), ids.end() - static_cast<long>(most));
  ids.insert(ids.begin(), *start);
  return ids;
}

TranscriptionParams TranscriptionParams::of(const proto::SpeechParams& asked,
                                            const SpeechSettings& settings,
                                            const Tokenizer& tokenizer) {
  check_speech_params(asked);
  const Choice choice(asked);
  TranscriptionParams out;
  out.language = choice.of("language", asked.has_language(), asked.language(), settings.language);
  out.task = choice.of("task", asked.has_task(), asked.task(), settings.task);
  if (settings.multilingual == false && out.task) {
    if (*out.task != "transcribe")
      throw not_supported("task", "the model knows one language; it does not translate");
    out.task.reset();  // which it does anyway, without a token for it
  }
  if (!settings.prompt_tokens.empty()) set_whole_prompt(settings, tokenizer, out);
  out.return_timestamps = choice.of("return_timestamps", asked.has_return_timestamps(),
                                    asked.return_timestamps(), settings.return_timestamps);
  set_words(asked, settings, choice, out);
  out.condition_on_prev_tokens =
      choice
          .of("condition_on_prev_tokens", asked.has_condition_on_prev_tokens(),
              asked.condition_on_prev_tokens(), settings.condition_on_prev_tokens)
          .value_or(false);
  out.prompt_all_segments = asked.prompt_condition_type() == "all-segments";
  if (out.prompt_all_segments && !out.condition_on_prev_tokens)
    throw invalid_request("prompt_condition_type", "all-segments needs condition_on_prev_tokens");
  out.prompt_ids.assign(asked.prompt_ids().ids().begin(), asked.prompt_ids().ids().end());
  const auto most = static_cast<size_t>(std::max(settings.decoder_positions / 2 - 1, 1));
  if (!asked.prompt().empty()) out.prompt_ids = speech_prompt_ids(asked.prompt(), tokenizer, most);
  if (!stripped(asked.hotwords()).empty())
    out.hotwords = hotword_ids(asked.hotwords(), tokenizer, most);
  out.prefix = prefix_ids(asked, settings, tokenizer, most);
  out.chunked = asked.chunk_length_s() > 0;
  set_windows(asked, settings, out);
  out.no_speech_prob = asked.no_speech_prob() && settings.no_timestamps.value_or(0) > 0;
  set_thresholds(asked, settings, choice, out);
  return out;
}

}  // namespace tandem
