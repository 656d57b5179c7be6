// Prompts, and the JSON that they may be given as (docs/jsonl.md).
#include <utility>

#include "base/error.h"
#include "base/file_bytes.h"
#include "client/input_errors.h"
#include "client/tandem_client.h"
#include "runtime/protocol/json/json_line.h"
#include "runtime/protocol/json/prompt_reader.h"

namespace tandem::client {

namespace {

// Where JSON would have the part: messages name it so. The first error stays.
void set_part(const Prompt& from, const std::string& field, proto::PromptPart* part,
              proto::Error& error) {
  const proto::Prompt& message = from.message();
  if (!error.type().empty()) return;
  error = from.error();
  if (message.has_decoder() || message.has_target() || message.has_pooling())
    error = to_message(invalid_request(field, "must be a text or token ids"));
  *part = message.encoder();
  part->set_field(field);
}

}  // namespace

Prompt::Prompt(const std::string& text) {
  try {
    message_ = text_prompt(text);
  } catch (const InputError&) {
    throw ClientError("invalid_request_error", "prompt: the text is not UTF-8", "prompt");
  }
}
Prompt::Prompt(const char* text) : Prompt(std::string(text)) {}

Prompt Prompt::token_ids(const std::vector<int32_t>& ids) {
  Prompt prompt;
  proto::PromptPart& part = *prompt.message_.mutable_encoder();
  part.mutable_token_ids()->mutable_ids()->Assign(ids.begin(), ids.end());
  part.set_field("prompt.prompt_token_ids");
  return prompt;
}

Prompt Prompt::frames(int width, const std::vector<float>& values) {
  Prompt prompt;
  proto::PromptPart& part = *prompt.message_.mutable_encoder();
  part.set_field("prompt.frames");
  proto::EncoderFrames& frames = *part.mutable_frames();
  frames.set_width(width);
  if (width > 0) frames.set_num_frames(static_cast<int32_t>(values.size()) / width);
  frames.mutable_values()->Add(values.begin(), values.end());
  return prompt;
}

namespace {

ClientError bad_sound(const std::string& why) {
  return ClientError("invalid_request_error", "prompt.sound: " + why, "prompt.sound");
}

}  // namespace

Prompt Prompt::sound(std::string file, const proto::SpeechParams& params) {
  if (file.empty()) throw bad_sound("has no bytes");
  if (file.size() > kMostSoundBytes)
    throw bad_sound("has " + std::to_string(file.size()) + " bytes, more than the " +
                    std::to_string(kMostSoundBytes) + " that are sent");
  Prompt prompt;
  proto::PromptPart& part = *prompt.message_.mutable_encoder();
  part.set_field("prompt.sound");
  part.mutable_sound()->set_file(std::move(file));
  *part.mutable_sound()->mutable_params() = params;
  return prompt;
}

Prompt Prompt::sound_file(const std::filesystem::path& path, const proto::SpeechParams& params) {
  std::string bytes;
  try {
    bytes = read_file_bytes(path, kMostSoundBytes, "prompt.sound");
  } catch (const InputError& error) {
    throw ClientError(api_name(error.kind()), error.what(), error.param());
  }
  return sound(std::move(bytes), params);
}

Prompt Prompt::pair(const Prompt& encoder, const Prompt& decoder) {
  Prompt prompt;
  set_part(encoder, "prompt.encoder_prompt", prompt.message_.mutable_encoder(), prompt.error_);
  set_part(decoder, "prompt.decoder_prompt", prompt.message_.mutable_decoder(), prompt.error_);
  return prompt;
}

Prompt Prompt::with_global_attention(const Prompt& source, const std::vector<int32_t>& positions) {
  Prompt prompt = source;
  auto& global = *prompt.message_.mutable_encoder()->mutable_global_attention();
  global.mutable_at()->Assign(positions.begin(), positions.end());
  return prompt;
}

// A pair stays one, with the target beside its two sides.
Prompt Prompt::with_target(const Prompt& source, const Prompt& target, bool append_eos) {
  Prompt prompt = source;
  set_part(target, "target", prompt.message_.mutable_target(), prompt.error_);
  prompt.message_.set_append_eos(append_eos);
  return prompt;
}

Prompt Prompt::pooled(const Prompt& source, const std::string& pooling, bool normalize) {
  Prompt prompt = source;
  try {
    *prompt.message_.mutable_pooling() = read_pooling(pooling, normalize);
  } catch (const InputError& error) {
    if (prompt.error_.type().empty()) prompt.error_ = to_message(error);
  }
  return prompt;
}

Prompt Prompt::raw_json(const std::string& json) {
  Prompt prompt;
  try {
    prompt.message_ = read_prompt(parse_json_line(json));
  } catch (const InputError& error) {
    prompt.error_ = to_message(error);
  }
  return prompt;
}

}  // namespace tandem::client
