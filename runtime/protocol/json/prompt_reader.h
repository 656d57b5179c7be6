// JSON → Prompt. It is read once, where it comes in.
//
// A prompt is a string, {"prompt": string}, {"prompt_token_ids": [int]} (also "prompt_tokens", or
// the list alone), or a pair {"encoder_prompt": P, "decoder_prompt": P} of those. A single one is
// the encoder's. The encoder's object may have "global_attention": [positions], or, of models that
// read images, be {"multi_modal_data": {"image": …}} with an empty "prompt" or none. A pair may
// have a "target": P, which is scored; nothing is generated. The score includes an end token unless
// "append_eos" is false. {"encoder_prompt": P, "pooling": "mean", "cls" or "last", "normalize":
// bool} asks for the encoder's output. {"encoder_prompt": P, "task": "classify" or "answer"} asks
// for the head's output; its P may be {"prompt": string, "text_pair": string, "truncation":
// "longest_first" or "only_first"}.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

#include "runtime/protocol/json/media_reader.h"
#include "runtime/protocol/tandem.pb.h"

namespace tandem {

// Throws InputError naming the field: wrong type, unknown or missing key, empty list of ids, files
// that are not to be had (media_reader.h). Ids are not compared with a vocabulary.
proto::Prompt read_prompt(const nlohmann::json& prompt, ReadFile read_file = nullptr);
// Bytes of a file of sound in a prompt, at most.
inline constexpr size_t kMaxSoundBytes = size_t{1} << 30;
// What read_prompt() would refuse, of a prompt that somebody else may have made.
void check_prompt(const proto::Prompt& prompt);
// A string, a list of ids, or an object with either; `field` is what messages call it.
proto::PromptPart read_prompt_part(const nlohmann::json& value, const std::string& field,
                                   ReadFile read_file = nullptr);
// kind: "mean", "cls" or "last"; normalize: a bool, or null for yes.
proto::Pooling read_pooling(const nlohmann::json& kind, const nlohmann::json& normalize);
// A text for the encoder. Throws InputError (field) if it is not UTF-8.
proto::Prompt text_prompt(const std::string& text, const std::string& field = "prompt");

}  // namespace tandem
