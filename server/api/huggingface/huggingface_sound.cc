#include "server/api/huggingface/huggingface_sound.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/strings/base64.h"
#include "server/api/fields/json_body.h"
#include "server/api/huggingface/huggingface.h"
#include "server/api/speech/sound_form.h"
#include "server/http/body/form.h"

namespace tandem::server {
namespace {

using nlohmann::json;

// names: gets the client's names of the fields.
SoundForm read_json(const HttpRequest& request, FieldNames& names) {
  json body = parse_body(request);
  const auto inputs = take_string(body, "inputs");
  if (!inputs) throw invalid_request("inputs", "is missing; expected a file of sound in Base64");
  const auto bytes = decode_base64(*inputs);
  if (!bytes || bytes->empty())
    throw invalid_request("inputs", "expected a file of sound in Base64");
  SoundForm form{.file = MediaSource::of_bytes(*bytes, "inputs"),
                 .fields = take_parameters(body, "parameters", "parameters.", names)};
  for (const char* more : {"generation_parameters", "generate_kwargs", "generate_parameters"})
    unfold(form.fields, more, names);
  names.add("file", "inputs");
  take(body, "options");
  if (take_bool(body, "stream").value_or(false))
    throw not_supported("stream", "is for /v1/audio/transcriptions");
  if (auto model = take(body, "model")) form.fields["model"] = std::move(*model);
  refuse_rest(body);
  return form;
}

SoundForm read_file(const HttpRequest& request, FieldNames& names) {
  if (request.form->parts.size() == 1 && request.form->parts.front().file)
    names.add("file", "body");
  return read_sound_form(request);
}

}  // namespace

SpeechRequest parse_recognition(const HttpRequest& request, const AppContext& app) {
  if (app.speech_tasks.empty())
    throw not_supported("model", app.config.model_names.front() + " reads no sound");
  FieldNames names;
  SoundForm form = names.around(
      [&] { return request.form ? read_file(request, names) : read_json(request, names); });
  return names.around([&] {
    json& fields = form.fields;
    for (const char* name : {"stream", "response_format", "timestamp_granularities"})
      if (fields.contains(name)) throw not_supported(name, "is for /v1/audio/transcriptions");
    const std::string task = take_string(fields, "task").value_or("transcribe");
    if (task != "transcribe" && task != "translate")
      throw invalid_request("task", "expected transcribe or translate");
    const bool words =
        fields.contains("return_timestamps") && fields["return_timestamps"] == "word";
    names.add("return_token_timestamps", "parameters.return_timestamps");
    if (words) fields["return_timestamps"] = fields["return_token_timestamps"] = true;
    const bool times = fields.contains("return_timestamps") && fields["return_timestamps"] == true;
    SpeechRequest r =
        parse_speech(std::move(form),
                     task == "translate" ? SpeechTask::kTranslate : SpeechTask::kTranscribe, app);
    r.is_huggingface = true;
    r.words = words;
    r.segments = times && !words;
    names.add(r.names);
    r.names = names;
    return r;
  });
}

}  // namespace tandem::server
