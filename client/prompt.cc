// Prompts as JSON (docs/jsonl.md).
#include <nlohmann/json.hpp>

#include "client/tandem_client.h"

namespace tandem::client {

Prompt::Prompt(const std::string& text) {
  try {
    json_ = nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    throw ClientError("invalid_request_error", "prompt: the text is not UTF-8", "prompt");
  }
}
Prompt::Prompt(const char* text) : Prompt(std::string(text)) {}

Prompt Prompt::token_ids(const std::vector<int32_t>& ids) {
  return raw_json("{\"prompt_token_ids\":" + nlohmann::json(ids).dump() + "}");
}

Prompt Prompt::pair(const Prompt& encoder, const Prompt& decoder) {
  return raw_json("{\"encoder_prompt\":" + encoder.json_ + ",\"decoder_prompt\":" + decoder.json_ +
                  "}");
}

// A pair stays one, with the target beside its two sides.
Prompt Prompt::with_target(const Prompt& source, const Prompt& target, bool append_eos) {
  const auto side = nlohmann::json::parse(source.json_, nullptr, /*allow_exceptions=*/false);
  const bool pair = side.is_object() && side.contains("encoder_prompt");
  const std::string sides = pair ? source.json_.substr(0, source.json_.rfind('}'))
                                 : "{\"encoder_prompt\":" + source.json_;
  return raw_json(sides + ",\"target\":" + target.json_ +
                  ",\"append_eos\":" + (append_eos ? "true" : "false") + "}");
}

Prompt Prompt::pooled(const Prompt& source, const std::string& pooling, bool normalize) {
  return raw_json("{\"encoder_prompt\":" + source.json_ + ",\"pooling\":" + Prompt(pooling).json_ +
                  ",\"normalize\":" + (normalize ? "true" : "false") + "}");
}

Prompt Prompt::raw_json(std::string json) {
  Prompt prompt;
  prompt.json_ = std::move(json);
  return prompt;
}

}  // namespace tandem::client
