#include "launcher/speech/audio_request.h"

#include "base/error.h"
#include "runtime/media/image/image_file.h"
#include "runtime/protocol/json/json_fields.h"
#include "runtime/protocol/json/speech_params_reader.h"

namespace tandem::launcher {
namespace {

using nlohmann::json;

json* object_at(json& in, const char* key) {
  if (!in.is_object()) return nullptr;
  const auto it = in.find(key);
  return it == in.end() || !it->is_object() ? nullptr : &*it;
}

// Parameters of speech.
void move_speech(json& from, json& to) {
  if (!from.is_object()) return;
  for (auto it = from.begin(); it != from.end();) {
    if (is_speech_param(it.key())) {
      to[it.key()] = std::move(*it);
      it = from.erase(it);
    } else {
      ++it;
    }
  }
}

// Takes the sound out of the encoder's part. Returns its file; "": there is none.
std::string take_file(json& encoder, const std::string& field) {
  json* data = object_at(encoder, "multi_modal_data");
  if (data == nullptr || data->size() != 1 || !data->contains("audio")) return "";
  const std::string name = field + ".multi_modal_data.audio";
  std::string file = read_string((*data)["audio"], name);
  if (file.empty()) throw invalid_request(name, "must be the path of a file");
  encoder.erase("multi_modal_data");
  if (!encoder.contains("prompt")) encoder["prompt"] = "";
  if (encoder["prompt"] != "")
    throw invalid_request(field + ".prompt",
                          "must be empty beside sound; text that comes before "
                          "what is said is prompt_ids");
  return file;
}

}  // namespace

JsonRequest local_request_from_json(json line, const json& defaults) {
  json* prompt = object_at(line, "prompt");
  json* inner = prompt != nullptr ? object_at(*prompt, "encoder_prompt") : nullptr;
  std::string file;
  if (prompt != nullptr)
    file = inner != nullptr ? take_file(*inner, "prompt.encoder_prompt")
                            : take_file(*prompt, "prompt");
  if (file.empty()) return request_from_json(line, defaults, read_image_file);
  json rest = defaults, speech = json::object();
  const bool transcribed = inner == nullptr || prompt->value("decoder_prompt", json()).is_null();
  if (transcribed) {
    move_speech(rest, speech);
    if (json* params = object_at(line, "params")) move_speech(*params, speech);
  }
  JsonRequest request = request_from_json(line, rest);
  request.audio = std::move(file);
  if (transcribed) request.speech = read_speech_params(speech);
  return request;
}

}  // namespace tandem::launcher
