// What a model of speech says of its prompts: generation_config.json's keys for them.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/config/config.h"
#include "runtime/media/sound/clip.h"
#include "runtime/media/sound/log_mel.h"
#include "runtime/media/sound/voice/voice_source.h"

namespace tandem {

struct SpeechSettings {
  LogMelOptions mel;                // of a clip: bins, rate and hop of its frames
  std::optional<ClipOptions> clip;  // it hears whole clips instead of windows of spectrograms
  int64_t window_frames = 0;        // that the encoder reads at once
  int64_t frames_per_position = 1;
  int decoder_positions = 0;
  int vocab_size = 0;
  int decoder_start = -1;
  std::vector<int32_t> end_tokens;
  std::vector<std::string> prompt_tokens;           // speech_prompt() of the model
  std::map<std::string, int32_t> languages, tasks;  // "<|en|>", "transcribe" → ids
  std::optional<bool> multilingual;
  std::optional<int32_t> no_timestamps, prev_start;
  // Of old files: (place in the decoder's prompt, id or nothing).
  std::vector<std::pair<int64_t, std::optional<int32_t>>> forced_prompt;
  // Defaults of requests.
  std::optional<bool> return_timestamps, return_token_timestamps, condition_on_prev_tokens;
  std::optional<std::string> language, task;
  std::optional<int64_t> max_length;
  std::optional<double> compression_ratio_threshold, logprob_threshold, no_speech_threshold;
  // Of times of words: (layer, head) of the decoder's cross-attention, whose weights follow the
  // sound; none: the model has no such times.
  std::vector<std::pair<int32_t, int32_t>> alignment_heads;
  int median_filter_width = 7;
  // Finds speech for requests that want no silence; null: nothing does.
  std::shared_ptr<const VoiceSource> voice;

  // Throws InputError naming the file and the key; also where the model hears nothing.
  static SpeechSettings load(const ModelConfig& config);
  // Whether its encoder reads sound, and tokens say what was said.
  static bool has_speech(const ModelConfig& config);

  // What the model hears of a file. Throws InputError naming `field`.
  LogMel frames_of(AudioFile& file, const std::string& field) const;

  // Ids from there on are times; beyond all ids where the model has none.
  int32_t first_timestamp() const {
    return no_timestamps ? *no_timestamps + 1 : std::numeric_limits<int32_t>::max();
  }
  // "de", "german" or "<|de|>" → its token's id. Throws InputError naming `language`.
  int32_t language_id(const std::string& name) const;
  // The same of a task.
  int32_t task_id(const std::string& name) const;
  std::string language_of(int32_t id) const;  // its token, or nothing
};

}  // namespace tandem
