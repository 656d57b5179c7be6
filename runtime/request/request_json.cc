#include "runtime/request/request_json.h"

#include <cmath>
#include <limits>

#include "base/strings/readable_text.h"
#include "runtime/media/sound/transcript.h"
#include "runtime/protocol/json/json_fields.h"
#include "runtime/protocol/json/options_reader.h"
#include "runtime/protocol/json/prompt_reader.h"

namespace tandem {
namespace {

using nlohmann::json;

// With times of words: when each of its tokens ends, and the words.
json segment_json(const proto::SpeechSegment& segment) {
  json out = segment_to_json(segment);
  if (segment.token_timestamps().empty()) return out;
  out["token_timestamps"] = segment.token_timestamps();
  out["words"] = json::array();
  for (const proto::SpeechWord& word : segment.words())
    out["words"].push_back(json(word_to_json(word)));
  return out;
}

// Of all segments, as the pipeline's chunks; nothing where they were not asked for.
json words_json(const proto::CompletionOutput& c) {
  json out;
  for (const proto::SpeechSegment& segment : c.segments()) {
    if (segment.token_timestamps().empty()) continue;
    if (out.is_null()) out = json::array();
    for (const proto::SpeechWord& word : segment.words())
      out.push_back({{"text", word.word()}, {"start", word.start()}, {"end", word.end()}});
  }
  return out;
}

json completion_to_json(const proto::CompletionOutput& c) {
  json out = {{"index", c.index()},
              {"text", c.text()},
              {"token_ids", c.token_ids()},
              {"cumulative_logprob", c.cumulative_logprob()},
              {"finish_reason", c.finish_reason().empty() ? json() : json(c.finish_reason())}};
  if (!c.stop_reason().empty()) out["stop_reason"] = c.stop_reason();
  if (c.has_score()) out["score"] = c.score();
  for (const auto& s : c.segments()) out["segments"].push_back(segment_json(s));
  if (json words = words_json(c); !words.is_null()) out["words"] = std::move(words);
  if (c.logprobs_size() > 0) {
    json list = json::array();
    for (const auto& l : c.logprobs()) list.emplace_back(logprobs_to_json(l));
    out["logprobs"] = std::move(list);
  }
  return out;
}

}  // namespace

nlohmann::ordered_json logprobs_to_json(const proto::TokenLogprobs& logprobs) {
  auto out = nlohmann::ordered_json::object();
  for (const auto& t : logprobs.top()) {
    // -inf and NaN are not JSON.
    const json value = std::isfinite(t.logprob()) ? json(t.logprob()) : json();
    out[std::to_string(t.token_id())] = {{"logprob", value},
                                         {"rank", t.rank() > 0 ? json(t.rank()) : json()},
                                         {"decoded_token", t.decoded_token()}};
  }
  return out;
}

JsonRequest request_from_json(const json& line, const json& defaults, ReadFile read_file) {
  if (!line.is_object())
    throw InputError(ErrorKind::kInvalidRequest,
                     std::string("a request must be a JSON object, not ") + line.type_name());
  JsonRequest request;
  json params = defaults;
  for (const auto& [key, value] : line.items()) {
    if (key == "id") {
      request.id = value;
    } else if (key == "prompt" || key == "lora") {
      continue;
    } else if (key == "params") {
      if (!value.is_object() && !value.is_null())
        throw invalid_request("params", std::string("must be an object, not ") + value.type_name());
      if (value.is_object()) update_params(params, value);
    } else if (key == "priority") {
      constexpr auto kLeast = std::numeric_limits<int32_t>::min();
      constexpr auto kMost = std::numeric_limits<int32_t>::max();
      if (!value.is_null())
        request.priority = static_cast<int32_t>(read_int(value, key, kLeast, kMost));
    } else {
      throw invalid_request(key,
                            "unknown field; a request has id, prompt, params, lora and priority");
    }
  }
  if (!line.contains("prompt")) throw invalid_request("prompt", "is missing");
  request.prompt = read_prompt(line["prompt"], read_file);
  request.options = read_options(params);
  if (const auto lora = line.find("lora"); lora != line.end() && !lora->is_null())
    request.options.set_lora(read_string(*lora, "lora"));
  return request;
}

JsonRequest score_request_from_json(const json& line, const json& defaults, bool append_eos,
                                    ReadFile read_file) {
  if (!line.is_object()) return request_from_json(line);
  json rest = json::object(), sides = json::object();
  for (const auto& [key, value] : line.items()) {
    const bool side = key == "encoder_prompt" || key == "decoder_prompt" || key == "target" ||
                      key == "append_eos";
    (side ? sides : rest)[key] = value;
  }
  const auto prompt = rest.find("prompt");
  if (prompt != rest.end()) {
    if (sides.contains("encoder_prompt") || sides.contains("decoder_prompt"))
      throw invalid_request("prompt", "and encoder_prompt or decoder_prompt: give one of them");
    if (!prompt->is_object() || !prompt->contains("encoder_prompt")) {
      sides["encoder_prompt"] = std::move(*prompt);
    } else {
      for (auto& [key, value] : prompt->items()) {
        if (sides.contains(key)) throw invalid_request(key, "is given twice");
        sides[key] = std::move(value);
      }
    }
  }
  if (!sides.contains("target") || sides["target"].is_null())
    throw invalid_request("target", "is missing");
  if (!sides.contains("append_eos")) sides["append_eos"] = append_eos;
  rest["prompt"] = std::move(sides);
  return request_from_json(rest, defaults, read_file);
}

json chunk_to_json(const proto::RequestChunk& chunk, const json& id, uint64_t line) {
  json deltas = json::array();
  for (const auto& c : chunk.outputs()) {
    json delta = {{"index", c.index()}, {"text", c.text()}, {"token_ids", c.token_ids()}};
    for (const auto& l : c.logprobs()) delta["logprobs"].emplace_back(logprobs_to_json(l));
    for (const auto& s : c.segments()) delta["segments"].push_back(segment_json(s));
    if (!c.finish_reason().empty()) delta["finish_reason"] = c.finish_reason();
    if (!c.stop_reason().empty()) delta["stop_reason"] = c.stop_reason();
    deltas.push_back(std::move(delta));
  }
  return {{"id", id}, {"line", line}, {"deltas", std::move(deltas)}};
}

json result_to_json(const proto::RequestOutput& output, const json& id) {
  const auto& in = output.inputs();
  json out = {{"id", id},
              {"encoder_prompt", in.has_encoder_prompt() ? json(in.encoder_prompt()) : json()},
              {"encoder_prompt_token_ids", in.encoder_prompt_token_ids()},
              {"prompt", in.has_prompt() ? json(in.prompt()) : json()},
              {"prompt_token_ids", in.prompt_token_ids()},
              {"outputs", json::array()}};
  if (in.has_second_text()) out["text_pair"] = in.second_text();
  if (in.global_attention_size() > 0) out["global_attention"] = in.global_attention();
  for (const auto& c : output.outputs()) out["outputs"].push_back(completion_to_json(c));
  if (!output.language().empty()) out["language"] = output.language();
  if (output.warnings_size() > 0) out["warnings"] = output.warnings();
  if (output.has_embedding()) out["embedding"] = output.embedding().values();
  if (output.prompt_logprobs_size() > 0) {
    json list = json::array({nullptr});  // nothing comes before the first token
    for (const auto& l : output.prompt_logprobs()) list.emplace_back(logprobs_to_json(l));
    out["prompt_logprobs"] = std::move(list);
  }
  const auto& m = output.metrics();
  out["metrics"] = {{"queue_time", m.queue_time()},
                    {"time_to_first_token", m.time_to_first_token()},
                    {"total_time", m.total_time()},
                    {"num_preemptions", m.num_preemptions()}};
  return out;
}

json error_to_json(const InputError& error, const json& id) {
  return {{"id", id},
          {"error",
           {{"message", readable(error.what())},
            {"type", api_name(error.kind())},
            {"param", error.param().empty() ? json() : json(readable(error.param()))}}}};
}

}  // namespace tandem
