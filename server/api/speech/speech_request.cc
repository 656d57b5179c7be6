#include "server/api/speech/speech_request.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "runtime/protocol/json/options_reader.h"
#include "runtime/protocol/json/speech_params_reader.h"
#include "server/api/fields/json_body.h"
#include "server/api/generation/generation_request.h"
#include "text/language_names.h"

namespace tandem::server {
namespace {

using nlohmann::json;

constexpr const char* kGranularities = "timestamp_granularities";

// OpenAI's and vLLM's fields that say nothing about the answer, and those that ask for what there
// is not.
constexpr const char* kIgnoredSpeechFields[] = {"user", "stream_include_usage"};
constexpr std::pair<const char*, const char*> kRefusedSpeechFields[] = {
    {"include", "there are no log-probabilities of transcriptions"},
    {"keywords", "say such words in `hotwords`"},
    {"languages", "one of them is what `language` names"},
    {"known_speaker_names", "this kind of model tells no speakers apart"},
    {"known_speaker_references", "this kind of model tells no speakers apart"},
    {"stream_continuous_usage_stats", "the usage comes with the last event"},
    {"vllm_xargs", "there are no plugins that would read them"}};

// OpenAI's names in `server_vad`, and those of the parameters.
constexpr std::pair<const char*, const char*> kVadNumbers[] = {
    {"threshold", "vad_threshold"},
    {"prefix_padding_ms", "vad_speech_pad_ms"},
    {"silence_duration_ms", "vad_min_silence_duration_ms"}};

bool is_off(const json& value) {
  return value == false || value == "" || (value.is_structured() && value.empty());
}

// Where sound is cut is the engine's; both strategies ask for silence to be cut out, by an engine
// that can.
void take_chunking(json& fields, SpeechRequest& r) {
  const auto strategy = take(fields, "chunking_strategy");
  if (!strategy) return;
  const json type = strategy->is_object() ? strategy->value("type", json()) : json();
  if (*strategy != "auto" && type != "server_vad")
    throw not_supported(
        "chunking_strategy",
        "there is \"auto\" and {\"type\": \"server_vad\"}, not " + strategy->dump().substr(0, 60));
  if (fields.contains("vad_filter")) return;
  fields["vad_filter"] = r.vad_if_possible = true;
  if (!strategy->is_object()) return;
  for (const auto& [theirs, ours] : kVadNumbers)
    if (const auto it = strategy->find(theirs); it != strategy->end() && !fields.contains(ours))
      fields[ours] = *it;
}

void take_foreign(json& fields, SpeechTask task, SpeechRequest& r) {
  for (const char* name : kIgnoredSpeechFields) fields.erase(name);
  for (const auto& [name, why] : kRefusedSpeechFields)
    if (const auto value = take(fields, name); value && !is_off(*value))
      throw not_supported(name, why);
  take_chunking(fields, r);
  if (const auto to = take_string(fields, "to_language"); to && !to->empty()) {
    if (task != SpeechTask::kTranslate || language_code(*to) != "en")
      throw not_supported("to_language", "translations are into English");
  }
}

void take_format(json& fields, SpeechRequest& r) {
  r.stream = take_bool(fields, "stream").value_or(false);
  const std::string name = take_string(fields, "response_format").value_or("json");
  if (name == "diarized_json")
    throw not_supported("response_format", "this kind of model tells no speakers apart");
  const auto format = transcript_format(name);
  if (!format)
    throw invalid_request("response_format",
                          "expected json, text, srt, verbose_json, vtt or tsv, not " +
                              json_text(json(name.substr(0, 40))));
  r.format = *format;
  const bool subtitles = needs_times(r.format) && r.format != TranscriptFormat::kVerboseJson;
  if (r.stream && subtitles)
    throw not_supported("response_format",
                        name + " is not streamed; verbose_json has each segment's times");
  r.segments = needs_times(r.format);
  if (r.segments) r.times_field = "response_format";
}

// Elements of a list, each of which may be a text, or a list as JSON.
json granularities(const json& list) {
  json out = json::array();
  for (const json& one : list) {
    json inner;
    if (one.is_string() && one.get_ref<const std::string&>().starts_with('['))
      inner = json_or_discarded<json>(one.get_ref<const std::string&>());
    if (inner.is_array())
      out.insert(out.end(), inner.begin(), inner.end());
    else if (one != "")
      out.push_back(one);
  }
  return out;
}

// What a word list of OpenAI's asks for.
void take_granularities(json& fields, SpeechRequest& r) {
  auto list = take(fields, kGranularities);
  if (!list) return;
  bool segments = false;
  for (const json& one : granularities(*list)) {
    if (one != "segment" && one != "word")
      throw invalid_request(kGranularities,
                            "expected segment or word, not " + json_text(one).substr(0, 40));
    (one == "word" ? r.words : segments) = true;
  }
  if (r.words && r.format != TranscriptFormat::kVerboseJson && !r.stream)
    throw invalid_request(kGranularities, "word needs \"response_format\": \"verbose_json\"");
  // (The other formats have no place for segments, or have them anyway.)
  if (r.format != TranscriptFormat::kVerboseJson && !r.stream) return;
  if (!segments && !r.words) return;
  r.segments = segments;
  r.times_field = kGranularities;
}

// The names that OpenAI's and vLLM's clients use → HuggingFace's.
void translate_names(json& fields, FieldNames& names) {
  if (const auto most = take(fields, "max_completion_tokens")) {
    for (const char* same : {"max_new_tokens", "max_tokens"})
      if (fields.contains(same))
        throw invalid_request("max_completion_tokens",
                              std::string("says the same as ") + same + "; give one of them");
    fields["max_tokens"] = *most;
    names.add("max_tokens", "max_completion_tokens");
  }
  const bool has_n = fields.contains("n");
  const int64_t n = take_int(fields, "n", 1, kMaxSequences).value_or(1);
  if (take_bool(fields, "use_beam_search").value_or(false)) {
    if (fields.contains("num_beams"))
      throw invalid_request("use_beam_search", "says the same as num_beams; give one of them");
    names.add("num_beams", has_n ? "n" : "use_beam_search");
    fields["num_beams"] = n;
  } else if (n != 1) {
    throw not_supported("n", "a transcription is one sequence");
  }
  for (const char* name : {"language", "prompt", "hotwords", "prefix", "initial_prompt",
                           "clip_timestamps"})  // some clients send all that they have
    if (fields.contains(name) && fields[name] == "") fields.erase(name);
}

void set_task(json& fields, SpeechTask task, const AppContext& app, SpeechRequest& r) {
  r.task = task == SpeechTask::kTranslate ? "translate" : "transcribe";
  if (const auto given = take_string(fields, "task"); given && *given != r.task)
    throw invalid_request("task",
                          "is " + r.task + " here; /v1/audio/" +
                              (task == SpeechTask::kTranslate ? "transcriptions" : "translations") +
                              " is for the other one");
  const auto& tasks = app.speech_tasks;
  if (std::find(tasks.begin(), tasks.end(), r.task) == tasks.end())
    throw not_supported("model", app.config.model_names.front() + " does not " + r.task);
  // A model of one language has no token for it, nor for what is done with it.
  if (!app.speech_languages.empty()) fields["task"] = r.task;
}

void set_times(json& fields, SpeechRequest& r) {
  if (r.words) fields["return_token_timestamps"] = true;
  if (r.times_field.empty()) {
    r.segments =
        r.stream && fields.contains("return_timestamps") && fields["return_timestamps"] == true;
    return;
  }
  const json& given = fields.emplace("return_timestamps", true).first.value();
  if (given != true)
    throw invalid_request("return_timestamps", "must be true: " + r.times_field + " needs times");
}

// What is left of the fields: parameters of speech, and of generation.
void read_params(json fields, SpeechRequest& r) {
  // OpenAI's segments have it always.
  if (r.segments) fields.emplace("no_speech_prob", true);
  json speech = json::object();
  for (auto it = fields.begin(); it != fields.end();) {
    if (!is_speech_param(it.key())) {
      ++it;
      continue;
    }
    speech[it.key()] = std::move(*it);
    it = fields.erase(it);
  }
  try {
    r.params = read_speech_params(speech);
    if (r.vad_if_possible) r.params.set_vad_if_possible(true);
  } catch (const InputError& e) {
    const std::string field = r.field_of(e.param()), message = e.what();
    throw InputError(e.kind(), field + message.substr(e.param().size()), field);
  }
  r.options = r.names.around([&] { return read_options(fields); });
}

}  // namespace

std::string SpeechRequest::field_of(const std::string& param) const {
  if (is_huggingface) return names.of(param.starts_with("prompt.") ? "file" : param);
  if (param == "return_token_timestamps" && words) return kGranularities;
  if (param == "return_timestamps" && !times_field.empty()) return times_field;
  if (param == "task") return "model";  // which task is the route's to say
  if (param.starts_with("prompt.")) return "file";
  return names.of(param);
}

SpeechRequest parse_speech(SoundForm form, SpeechTask task, const AppContext& app) {
  json& fields = form.fields;
  SpeechRequest r;
  r.file = std::move(form.file);
  std::string lora;
  check_model(app.config, fields, lora);
  const Urgency urgency = take_urgency(fields, app.config);
  r.priority = urgency.priority;
  r.timeout = urgency.timeout;
  take_foreign(fields, task, r);
  take_format(fields, r);
  take_granularities(fields, r);
  translate_names(fields, r.names);
  set_task(fields, task, app, r);
  set_times(fields, r);
  read_params(std::move(fields), r);
  set_lora(lora, r.options);
  return r;
}

}  // namespace tandem::server
