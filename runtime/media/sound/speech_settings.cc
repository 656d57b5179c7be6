#include "runtime/media/sound/speech_settings.h"

#include <algorithm>
#include <cctype>
#include <limits>

#include "base/error.h"
#include "base/strings/nearest_name.h"
#include "base/strings/printable.h"
#include "models/config/decoder_prompt.h"
#include "models/config/limits.h"
#include "runtime/protocol/json/json_fields.h"
#include "text/language_names.h"

namespace tandem {
namespace {

using nlohmann::json;

// Reads keys of the generation settings, and says which one is wrong.
class Reader {
 public:
  explicit Reader(const ModelConfig& config) : config_(config) {}

  // f(value), where there is one.
  template <class F>
  void with(const char* key, const F& f) const {
    take(config_.generation, "generation_config.json", key, f);
  }
  // The same, else of config.json.
  template <class F>
  void with_either(const char* key, const F& f) const {
    if (!take(config_.generation, "generation_config.json", key, f))
      take(config_.raw, "config.json", key, f);
  }
  // Of config.json alone.
  template <class F>
  void with_config(const char* key, const F& f) const {
    take(config_.raw, "config.json", key, f);
  }
  int32_t id(const json& value, const char* key) const {
    return static_cast<int32_t>(read_int(value, key, 0, config_.vocab_size - 1));
  }
  void ids(const char* key, std::map<std::string, int32_t>& out) const {
    with(key, [&](const json& value) {
      if (!value.is_object()) throw invalid_request(key, "must be an object");
      for (const auto& [name, token] : value.items()) {
        if (name.empty()) throw invalid_request(key, "has an empty name");
        out[name] = id(token, key);
      }
    });
  }
  void optional_id(const char* key, std::optional<int32_t>& out) const {
    with(key, [&](const json& value) { out = id(value, key); });
  }
  void flag(const char* key, std::optional<bool>& out) const {
    with(key, [&](const json& value) { out = read_bool(value, key); });
  }
  void number(const char* key, std::optional<double>& out) const {
    with(key, [&](const json& value) { out = read_number(value, key, {}); });
  }
  void text(const char* key, std::optional<std::string>& out) const {
    with(key, [&](const json& value) { out = read_string(value, key); });
  }

 private:
  template <class F>
  bool take(const json& from, const char* file, const char* key, const F& f) const {
    const auto it = from.find(key);
    if (it == from.end() || it->is_null()) return false;
    try {
      f(*it);
    } catch (const InputError& error) {
      throw invalid_model((config_.directory / file).string(), error.what());
    }
    return true;
  }

  const ModelConfig& config_;
};

void read_forced_prompt(const Reader& in, SpeechSettings& out) {
  in.with_either("forced_decoder_ids", [&](const json& list) {
    const auto wrong = [] {
      return invalid_request("forced_decoder_ids", "must be a list of [place, id]");
    };
    if (!list.is_array()) throw wrong();
    for (const json& pair : list) {
      if (!pair.is_array() || pair.size() != 2) throw wrong();
      std::optional<int32_t> id;
      if (!pair[1].is_null()) id = in.id(pair[1], "forced_decoder_ids");
      out.forced_prompt.emplace_back(
          read_int(pair[0], "forced_decoder_ids", 0, std::numeric_limits<int32_t>::max()), id);
    }
  });
}

// The model's last but one suppressed id, which HuggingFace takes where prev_sot_token_id is
// missing.
void read_prev_start(const Reader& in, SpeechSettings& out) {
  in.with("suppress_tokens", [&](const json& list) {
    if (list.is_array() && list.size() >= 2)
      out.prev_start = in.id(list[list.size() - 2], "suppress_tokens");
  });
  in.optional_id("prev_sot_token_id", out.prev_start);
}

void read_alignment(const Reader& in, const ModelConfig& config, SpeechSettings& out) {
  in.with("alignment_heads", [&](const json& list) {
    const char* const key = "alignment_heads";
    if (!list.is_array()) throw invalid_request(key, "must be a list of [layer, head]");
    for (const json& pair : list) {
      if (!pair.is_array() || pair.size() != 2)
        throw invalid_request(key, "must be a list of [layer, head]");
      out.alignment_heads.emplace_back(
          static_cast<int32_t>(read_int(pair[0], key, 0, config.decoder_layers - 1)),
          static_cast<int32_t>(read_int(pair[1], key, 0, config.decoder_attention_heads - 1)));
    }
  });
  in.with_config("median_filter_width", [&](const json& value) {
    constexpr int kWidest = 255;
    out.median_filter_width = static_cast<int>(read_int(value, "median_filter_width", 1, kWidest));
    if (out.median_filter_width % 2 == 0)
      throw invalid_request("median_filter_width", "must be odd: a median has a middle");
  });
}

int64_t fewest_frames(const FrameLimits& frames) {
  int64_t count = 1;
  while (frames.length_of(count) < 1) ++count;
  return count;
}

int64_t most_frames(const FrameLimits& frames, int64_t positions) {
  int64_t count = positions;
  while (frames.length_of(count + 1) <= positions) ++count;
  return count;
}

void read_clip_options(const ModelConfig& config, const FrameLimits& frames, SpeechSettings& out) {
  ClipOptions& clip =
      out.clip.emplace(ClipOptions::load(config.directory, *frames.sound, frames.width));
  clip.fewest = fewest_frames(frames);
  if (clip.spectrum) clip.fewest = std::max(clip.fewest, clip.spectrum->fewest_frames());
  clip.most = out.window_frames;
  out.mel = {.bins = clip.bins(), .sampling_rate = clip.sampling_rate, .hop_length = clip.hop()};
}

}  // namespace

bool SpeechSettings::has_speech(const ModelConfig& config) {
  const ModelLimits limits = limits_of(config);
  return limits.frames && limits.frames->sound;
}

SpeechSettings SpeechSettings::load(const ModelConfig& config) {
  if (!has_speech(config))
    throw not_supported("audio", "the model hears nothing: " + printable(config.model_type));
  SpeechSettings out;
  const ModelLimits limits = limits_of(config);
  const int64_t positions = limits.encoder_positions.value_or(1);
  out.window_frames = most_frames(*limits.frames, positions);
  out.frames_per_position = std::max<int64_t>(out.window_frames / positions, 1);
  out.decoder_positions = limits.decoder_positions.value_or(std::numeric_limits<int>::max());
  if (limits.frames->sound == SoundInput::kLogMel)
    out.mel = LogMelOptions::load(config.directory);
  else
    read_clip_options(config, *limits.frames, out);
  if (out.mel.bins != limits.frames->width)
    throw invalid_model((config.directory / "preprocessor_config.json").string(),
                        "feature_size is " + std::to_string(out.mel.bins) + ", but the model has " +
                            std::to_string(limits.frames->width) + " num_mel_bins");
  out.vocab_size = config.vocab_size;
  out.decoder_start = config.decoder_start_token_id;
  out.end_tokens.assign(config.eos_token_id.begin(), config.eos_token_id.end());
  out.prompt_tokens = speech_prompt(config);
  const Reader in(config);
  in.ids("lang_to_id", out.languages);
  in.ids("task_to_id", out.tasks);
  in.flag("is_multilingual", out.multilingual);
  in.flag("return_timestamps", out.return_timestamps);
  in.flag("condition_on_prev_tokens", out.condition_on_prev_tokens);
  in.optional_id("no_timestamps_token_id", out.no_timestamps);
  in.text("language", out.language);
  in.text("task", out.task);
  in.with("max_length", [&](const json& value) {
    out.max_length = read_int(value, "max_length", 1, std::numeric_limits<int32_t>::max());
  });
  read_prev_start(in, out);
  read_forced_prompt(in, out);
  in.number("compression_ratio_threshold", out.compression_ratio_threshold);
  in.number("logprob_threshold", out.logprob_threshold);
  in.number("no_speech_threshold", out.no_speech_threshold);
  in.flag("return_token_timestamps", out.return_token_timestamps);
  read_alignment(in, config, out);
  return out;
}

LogMel SpeechSettings::frames_of(AudioFile& file, const std::string& field) const {
  return clip ? read_clip(file, *clip, field) : read_log_mel(file, mel);
}

int32_t SpeechSettings::language_id(const std::string& name) const {
  if (languages.empty())
    throw not_supported("language",
                        "generation_config.json has no lang_to_id: the model takes no "
                        "language");
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (const auto it = languages.find(lower); it != languages.end()) return it->second;
  const auto it = languages.find("<|" + language_code(name) + "|>");
  if (it != languages.end()) return it->second;
  std::vector<std::string> names;
  for (const auto& [token, id] : languages) {
    const std::string code = language_code_of_token(token);
    names.push_back(code);
    names.push_back(language_name(code));
  }
  throw invalid_request(
      "language", in_quotes(name) + " is not a language of this model" + suggestion(lower, names));
}

int32_t SpeechSettings::task_id(const std::string& name) const {
  if (tasks.empty())
    throw not_supported("task", "generation_config.json has no task_to_id: the model takes none");
  const auto it = tasks.find(name);
  if (it == tasks.end())
    throw invalid_request("task", in_quotes(name) + " is not transcribe or translate");
  return it->second;
}

std::string SpeechSettings::language_of(int32_t id) const {
  for (const auto& [token, known] : languages)
    if (known == id) return token;
  return {};
}

}  // namespace tandem
