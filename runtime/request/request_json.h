// The JSONL contract of `tandem generate --jsonl`: a request a line in, a result a line out.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/error.h"
#include "runtime/protocol/json/media_reader.h"
#include "runtime/protocol/tandem.pb.h"

namespace tandem {

struct JsonRequest {
  nlohmann::json id;  // null where it is absent
  proto::Prompt prompt;
  proto::GenerationOptions options;
  int32_t priority = 0;  // smaller is served first
  // A file of sound instead of the prompt's encoder part: the command line's only, which reads it
  // (launcher/speech/audio_request.h). `speech`: how it is transcribed; none: it is one window, and
  // the decoder's prompt is the request's own.
  std::string audio = {};
  std::optional<proto::SpeechParams> speech = {};
};

// {"id": any, "prompt": P, "params": {…}, "lora": name, "priority": 0}. P is
// runtime/protocol/json/prompt_reader.h's, params runtime/protocol/json/options_reader.h's;
// `defaults` are params under those of the line. Throws InputError naming the field. read_file: for
// the paths of files in prompts; without it there are none.
JsonRequest request_from_json(const nlohmann::json& line,
                              const nlohmann::json& defaults = nlohmann::json::object(),
                              ReadFile read_file = nullptr);
// A line of `tandem score`: as above, with "target": P and "append_eos" beside or in the prompt.
// "encoder_prompt" and "decoder_prompt" may replace "prompt". append_eos: the default for lines
// without it.
JsonRequest score_request_from_json(const nlohmann::json& line,
                                    const nlohmann::json& defaults = nlohmann::json::object(),
                                    bool append_eos = true, ReadFile read_file = nullptr);

nlohmann::json result_to_json(const proto::RequestOutput& output, const nlohmann::json& id);
// News of a request that goes on: {"id", "line", "deltas": [{"index", "text", "token_ids", …}]}.
// line: where it stood in the input, from 1.
nlohmann::json chunk_to_json(const proto::RequestChunk& chunk, const nlohmann::json& id,
                             uint64_t line);
// As vLLM's: {token id: {"logprob", "rank", "decoded_token"}}, the token itself and the top k.
nlohmann::ordered_json logprobs_to_json(const proto::TokenLogprobs& logprobs);
// {"id", "error": {"message", "type", "param"}}
nlohmann::json error_to_json(const InputError& error, const nlohmann::json& id);

}  // namespace tandem
