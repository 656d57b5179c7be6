#include "runtime/media/sound/transcription_params.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "base/error.h"
#include "base/json_fields.h"

namespace tandem {
namespace {

using nlohmann::json;

constexpr const char* kNames[] = {"language",          "task",
                                  "return_timestamps", "condition_on_prev_tokens",
                                  "prompt_ids",        "prompt_condition_type"};

bool is_unbuilt(const std::string& name) {
  return std::find(std::begin(kUnbuiltSpeechParams), std::end(kUnbuiltSpeechParams), name) !=
         std::end(kUnbuiltSpeechParams);
}

}  // namespace

bool TranscriptionParams::is_name(const std::string& name) {
  return is_unbuilt(name) ||
         std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

TranscriptionParams TranscriptionParams::read(const json& params) {
  TranscriptionParams out;
  if (params.is_null()) return out;
  for (const auto& [name, value] : params.items()) {
    if (value.is_null()) {
      out.off.insert(name);
    } else if (is_unbuilt(name)) {
      if (value != false)
        throw not_supported(name, "not built yet (" + describe(value) + " asked for)");
    } else if (name == "language") {
      out.language = read_string(value, name);
    } else if (name == "task") {
      out.task = read_string(value, name);
    } else if (name == "return_timestamps") {
      out.return_timestamps = read_bool(value, name);
    } else if (name == "condition_on_prev_tokens") {
      out.condition_on_prev_tokens = read_bool(value, name);
    } else if (name == "prompt_ids") {
      out.prompt_ids = read_token_ids(value, name, std::numeric_limits<int32_t>::max());
    } else if (name == "prompt_condition_type") {
      const std::string type = read_string(value, name);
      if (type != "first-segment" && type != "all-segments")
        throw invalid_request(
            name, "must be \"first-segment\" or \"all-segments\", not " + describe(value));
      out.prompt_all_segments = type == "all-segments";
    } else {
      throw invalid_request(name, "unknown parameter of speech");
    }
  }
  return out;
}

}  // namespace tandem
