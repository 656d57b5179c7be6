#include "launcher/speech/audio_request.h"

#include "base/error.h"
#include "base/json_fields.h"
#include "runtime/media/sound/transcription_params.h"

namespace tandem::launcher {
namespace {

using nlohmann::json;

json* object_at(json& in, const char* key) {
  if (!in.is_object()) return nullptr;
  const auto it = in.find(key);
  return it == in.end() || !it->is_object() ? nullptr : &*it;
}

void move_speech(json& from, json& to) {
  if (!from.is_object()) return;
  for (auto it = from.begin(); it != from.end();) {
    if (TranscriptionParams::is_name(it.key())) {
      to[it.key()] = std::move(*it);
      it = from.erase(it);
    } else {
      ++it;
    }
  }
}

}  // namespace

AudioLine take_audio(json& line, json& defaults) {
  AudioLine out;
  json* prompt = object_at(line, "prompt");
  if (prompt == nullptr) return out;
  json* inner = object_at(*prompt, "encoder_prompt");
  json& encoder = inner != nullptr ? *inner : *prompt;
  json* data = object_at(encoder, "multi_modal_data");
  if (data == nullptr || data->size() != 1 || !data->contains("audio")) return out;
  const std::string field = inner != nullptr ? "prompt.encoder_prompt" : "prompt";
  out.file = read_string((*data)["audio"], field + ".multi_modal_data.audio");
  if (out.file.empty())
    throw invalid_request(field + ".multi_modal_data.audio", "must be the path of a file");
  encoder.erase("multi_modal_data");
  if (!encoder.contains("prompt")) encoder["prompt"] = "";
  if (encoder["prompt"] != "")
    throw invalid_request(field + ".prompt",
                          "must be empty beside sound; text that comes before "
                          "what is said is prompt_ids");
  const auto decoder = prompt->find("decoder_prompt");
  if (inner != nullptr && decoder != prompt->end() && !decoder->is_null()) return out;
  out.speech = json::object();
  move_speech(defaults, out.speech);
  if (json* params = object_at(line, "params")) move_speech(*params, out.speech);
  return out;
}

}  // namespace tandem::launcher
