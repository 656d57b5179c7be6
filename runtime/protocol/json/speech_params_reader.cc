#include "runtime/protocol/json/speech_params_reader.h"

#include <google/protobuf/descriptor.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/json.h"
#include "runtime/protocol/json/json_fields.h"

namespace tandem {
namespace {

using nlohmann::json;
using Params = proto::SpeechParams;
using Field = google::protobuf::FieldDescriptor;

constexpr double kMaxTemperature = 1e6, kMaxSeconds = 3600;
constexpr size_t kMaxNameBytes = 256;
constexpr double kMaxClipSeconds = 1e6;
// What is not decided is kept in memory.
constexpr int kMaxSpeechMs = 60000, kMaxSpeechSeconds = 600;

const Field* field_of(const std::string& name) {
  if (name == "off" || name == "vad_if_possible") return nullptr;
  return Params::descriptor()->FindFieldByName(name);
}

// A number, or a list of them.
void read_numbers(const json& value, const std::string& name, const Field* field, Params& out) {
  const auto add = [&](const json& number) {
    Params::GetReflection()->AddDouble(&out, field, read_number(number, name, {}));
  };
  if (!value.is_array()) return add(value);
  if (value.empty()) throw invalid_request(name, "has no numbers");
  for (const json& number : value) add(number);
}

void read_ids(const json& value, const std::string& name, proto::TokenIds& out) {
  for (const int32_t id : read_token_ids(value, name, std::numeric_limits<int32_t>::max()))
    out.add_ids(id);
}

// "0,10.5" as a list; what is none stays a text, which nobody takes for numbers.
json listed(const std::string& text) {
  const bool is_flat = text.find_first_not_of("0123456789.,+-eE ") == std::string::npos;
  json list = is_flat ? json_or_discarded<json>("[" + text + "]") : json(json::value_t::discarded);
  return list.is_discarded() ? json(text) : list;
}

void read_value(const json& value, const std::string& name, const Field* field, Params& out) {
  const auto* reflection = Params::GetReflection();
  if (name == "return_timestamps" && value == "word") {  // (the pipeline's)
    out.set_return_timestamps(true);
    if (!out.has_return_token_timestamps()) out.set_return_token_timestamps(true);
  } else if (field->name() == "prompt_ids") {
    read_ids(value, name, *out.mutable_prompt_ids());
  } else if (field->name() == "prefix_ids" || (field->name() == "prefix" && value.is_array())) {
    read_ids(value, name, *out.mutable_prefix_ids());
  } else if (field->name() == "clip_timestamps" && value.is_string()) {
    if (const json list = listed(read_string(value, name)); !list.empty())
      read_numbers(list, name, field, out);
  } else if (field->is_repeated()) {
    read_numbers(value, name, field, out);
  } else if (field->cpp_type() == Field::CPPTYPE_BOOL) {
    reflection->SetBool(&out, field, read_bool(value, name));
  } else if (field->cpp_type() == Field::CPPTYPE_DOUBLE) {
    reflection->SetDouble(&out, field, read_number(value, name, {}));
  } else {
    reflection->SetString(&out, field, read_string(value, name));
  }
}

// faster-whisper's, whose names lack the prefix of ours.
void read_vad_parameters(const json& value, Params& out) {
  if (!value.is_object())
    throw invalid_request("vad_parameters", "must be an object, not " + describe(value));
  for (const auto& [name, number] : value.items()) {
    const Field* field = field_of("vad_" + name);
    if (field == nullptr || field->cpp_type() != Field::CPPTYPE_DOUBLE)
      throw invalid_request("vad_parameters", "has the unknown name " + describe(json(name)));
    if (!number.is_null()) read_value(number, "vad_parameters." + name, field, out);
  }
}

// faster-whisper's name of a prompt, as text or ids.
void read_initial_prompt(const json& value, Params& out) {
  if (value.is_null()) return;
  const std::string name = "initial_prompt";
  if (out.has_prompt() || out.has_prompt_ids())
    throw invalid_request(name, "and prompt or prompt_ids: give one of them");
  read_value(value, name, field_of(value.is_string() ? "prompt" : "prompt_ids"), out);
}

void check_numbers(const google::protobuf::RepeatedField<double>& list, const char* name, int most,
                   double highest) {
  if (list.size() > most)
    throw invalid_request(name, "has more than " + std::to_string(most) + " numbers");
  for (const double x : list)
    if (!(x >= 0 && x <= highest))
      throw invalid_request(
          name, "must be between 0 and " + describe(json(highest)) + ", not " + describe(json(x)));
}

void check_between(bool given, double value, const char* name, int least, int most) {
  if (given && !(value >= least && value <= most))
    throw invalid_request(name, "must be between " + describe(json(least)) + " and " +
                                    describe(json(most)) + ", not " + describe(json(value)));
}

// Clips come one after the other, so that no second is heard again and again.
void check_clips(const Params& p) {
  constexpr const char* kName = "clip_timestamps";
  check_numbers(p.clip_timestamps(), kName, kMaxClipTimestamps, kMaxClipSeconds);
  const auto& times = p.clip_timestamps();
  for (int i = 1; i < times.size(); ++i)
    if (times[i] < times[i - 1])
      throw invalid_request(kName, "must not decrease: " + describe(json(times[i])) +
                                       " stands behind " + describe(json(times[i - 1])));
}

void check_windows(const Params& p) {
  const double segments = p.language_detection_segments();
  check_between(p.has_language_detection_segments(), segments, "language_detection_segments", 1,
                kMaxDetectionSegments);
  if (segments != std::floor(segments))
    throw invalid_request("language_detection_segments",
                          "must be a whole number, not " + describe(json(segments)));
  check_between(p.has_language_detection_threshold(), p.language_detection_threshold(),
                "language_detection_threshold", 0, 1);
  check_between(p.has_hallucination_silence_threshold(), p.hallucination_silence_threshold(),
                "hallucination_silence_threshold", 0, static_cast<int>(kMaxSeconds));
}

void check_vad(const Params& p) {
  check_between(p.has_vad_threshold(), p.vad_threshold(), "vad_threshold", 0, 1);
  check_between(p.has_vad_neg_threshold(), p.vad_neg_threshold(), "vad_neg_threshold", 0, 1);
  check_between(p.has_vad_min_speech_duration_ms(), p.vad_min_speech_duration_ms(),
                "vad_min_speech_duration_ms", 0, kMaxSpeechMs);
  check_between(p.has_vad_max_speech_duration_s(), p.vad_max_speech_duration_s(),
                "vad_max_speech_duration_s", 1, kMaxSpeechSeconds);
  check_between(p.has_vad_min_silence_duration_ms(), p.vad_min_silence_duration_ms(),
                "vad_min_silence_duration_ms", 0, kMaxSpeechMs);
  check_between(p.has_vad_speech_pad_ms(), p.vad_speech_pad_ms(), "vad_speech_pad_ms", 0,
                kMaxSpeechMs);
}

void check_finite(bool given, double value, const char* name) {
  if (given && !std::isfinite(value)) throw invalid_request(name, "must be finite");
}

void check_size(const std::string& text, const char* name, size_t most) {
  if (text.size() > most)
    throw invalid_request(name, "is longer than " + std::to_string(most) + " bytes");
}

void check_ids(const proto::TokenIds& ids, const char* name) {
  if (ids.ids_size() > kMaxSpeechPromptIds)
    throw invalid_request(name, "has more than " + std::to_string(kMaxSpeechPromptIds) + " ids");
}

}  // namespace

bool is_speech_param(const std::string& name) {
  return name == "vad_parameters" || name == "initial_prompt" || field_of(name) != nullptr;
}

Params read_speech_params(const json& params) {
  Params out;
  if (params.is_null()) return out;
  for (const auto& [name, value] : params.items()) {
    if (name == "vad_parameters") {
      if (!value.is_null()) read_vad_parameters(value, out);
      continue;
    }
    if (name == "initial_prompt") {
      read_initial_prompt(value, out);
      continue;
    }
    const Field* field = field_of(name);
    if (field == nullptr) throw invalid_request(name, "unknown parameter of speech");
    if (value.is_null())
      out.add_off(name);
    else
      read_value(value, name, field, out);
  }
  check_speech_params(out);
  return out;
}

void check_speech_params(const Params& p) {
  check_size(p.language(), "language", kMaxNameBytes);
  check_size(p.task(), "task", kMaxNameBytes);
  check_size(p.prompt(), "prompt", kMaxSpeechPromptBytes);
  check_size(p.hotwords(), "hotwords", kMaxSpeechPromptBytes);
  check_size(p.prefix(), "prefix", kMaxSpeechPromptBytes);
  check_ids(p.prompt_ids(), "prompt_ids");
  check_ids(p.prefix_ids(), "prefix_ids");
  if (p.has_prompt() && p.has_prompt_ids())
    throw invalid_request("prompt", "and prompt_ids: give one of them");
  if (p.has_prefix() && p.has_prefix_ids())
    throw invalid_request("prefix", "and prefix_ids: give one of them");
  if (p.has_prompt_condition_type() && p.prompt_condition_type() != "first-segment" &&
      p.prompt_condition_type() != "all-segments")
    throw invalid_request("prompt_condition_type",
                          "must be \"first-segment\" or \"all-segments\", not " +
                              describe(json(p.prompt_condition_type())));
  check_numbers(p.temperature(), "temperature", kMaxTemperatures, kMaxTemperature);
  check_finite(p.has_compression_ratio_threshold(), p.compression_ratio_threshold(),
               "compression_ratio_threshold");
  check_finite(p.has_logprob_threshold(), p.logprob_threshold(), "logprob_threshold");
  check_finite(p.has_no_speech_threshold(), p.no_speech_threshold(), "no_speech_threshold");
  check_vad(p);
  check_clips(p);
  check_windows(p);
  check_numbers(p.stride_length_s(), "stride_length_s", 2, kMaxSeconds);
  if (p.has_chunk_length_s() && !(p.chunk_length_s() >= 0 && p.chunk_length_s() <= kMaxSeconds))
    throw invalid_request("chunk_length_s",
                          "must be between 0 and 3600, not " + describe(json(p.chunk_length_s())));
}

}  // namespace tandem
