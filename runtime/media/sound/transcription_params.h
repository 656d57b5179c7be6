// How sound is transcribed: the parameters beside those of generation, under HuggingFace's names.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace tandem {

struct TranscriptionParams {
  std::optional<std::string> language, task;
  std::optional<bool> return_timestamps, condition_on_prev_tokens;
  std::vector<int32_t> prompt_ids;  // before the decoder's prompt; none: nothing is
  bool prompt_all_segments = false;
  std::set<std::string> off;  // by name: also what the model says of them does not hold

  // `params`: an object with such names, or null. Throws InputError naming the parameter.
  static TranscriptionParams read(const nlohmann::json& params);
  static bool is_name(const std::string& name);
};

// Thresholds of other temperatures, times of words.
inline constexpr const char* kUnbuiltSpeechParams[] = {"compression_ratio_threshold",
                                                       "logprob_threshold", "no_speech_threshold",
                                                       "return_token_timestamps"};

}  // namespace tandem
