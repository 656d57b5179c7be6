#include "runtime/request_json.h"

#include <cmath>
#include <limits>

namespace tandem {
namespace {

using nlohmann::json;

constexpr int kMaxDepth = 64;

// As vLLM's: {token id: {"logprob", "rank", "decoded_token"}}, the token itself and the top k.
json logprobs_to_json(const proto::TokenLogprobs& logprobs, const Tokenizer* tokenizer) {
  json out = json::object();
  for (const auto& t : logprobs.top()) {
    // -inf and NaN are not JSON.
    const json value = std::isfinite(t.logprob()) ? json(t.logprob()) : json();
    out[std::to_string(t.token_id())] = {
        {"logprob", value},
        {"rank", t.rank()},
        {"decoded_token", t.has_decoded_token() || tokenizer == nullptr
                              ? t.decoded_token()
                              : tokenizer->decode({t.token_id()}, false)}};
  }
  return out;
}

json completion_to_json(const proto::CompletionOutput& c, const Tokenizer* tokenizer) {
  json out = {{"index", c.index()},
              {"text", c.text()},
              {"token_ids", c.token_ids()},
              {"cumulative_logprob", c.cumulative_logprob()},
              {"finish_reason", c.finish_reason().empty() ? json() : json(c.finish_reason())}};
  if (!c.stop_reason().empty()) out["stop_reason"] = c.stop_reason();
  if (c.has_score()) out["score"] = c.score();
  if (c.logprobs_size() > 0) {
    json list = json::array();
    for (const auto& l : c.logprobs()) list.push_back(logprobs_to_json(l, tokenizer));
    out["logprobs"] = std::move(list);
  }
  return out;
}

int32_t priority_of(const json& value) {
  using Limits = std::numeric_limits<int32_t>;
  const bool fits = value.is_number_unsigned()
                        ? value.get<uint64_t>() <= uint64_t{Limits::max()}
                        : value.is_number_integer() && value.get<int64_t>() >= Limits::min();
  if (!fits) throw invalid_request("priority", "must be an integer of 32 bits");
  return value.get<int32_t>();
}

}  // namespace

json parse_json_line(std::string_view line) {
  bool too_deep = false;
  const auto depth_limit = [&](int depth, json::parse_event_t, json&) {
    if (depth > kMaxDepth) too_deep = true;
    return depth <= kMaxDepth;  // deeper parts are dropped, not stored
  };
  json value;
  try {
    value = json::parse(line, depth_limit);
  } catch (const json::exception& e) {
    std::string what = e.what();
    const size_t colon = what.find("] ");
    if (colon != std::string::npos) what = what.substr(colon + 2);
    throw InputError(ErrorKind::kInvalidRequest, "not valid JSON: " + what);
  }
  if (too_deep)
    throw InputError(ErrorKind::kInvalidRequest,
                     "JSON is nested deeper than " + std::to_string(kMaxDepth) + " levels");
  return value;
}

JsonRequest request_from_json(const json& line) {
  if (!line.is_object())
    throw InputError(ErrorKind::kInvalidRequest,
                     std::string("a request must be a JSON object, not ") + line.type_name());
  JsonRequest request;
  for (const auto& [key, value] : line.items()) {
    if (key == "id") {
      request.id = value;
    } else if (key == "prompt") {
      request.prompt = value;
    } else if (key == "params") {
      if (!value.is_object() && !value.is_null())
        throw invalid_request("params", std::string("must be an object, not ") + value.type_name());
      if (value.is_object()) request.params = value;
    } else if (key == "priority") {
      request.priority = priority_of(value);
    } else {
      throw invalid_request(key, "unknown field; a request has id, prompt, params and priority");
    }
  }
  if (!line.contains("prompt")) throw invalid_request("prompt", "is missing");
  return request;
}

json result_to_json(const proto::RequestOutput& output, const json& id,
                    const Tokenizer* tokenizer) {
  const auto& in = output.inputs();
  json out = {{"id", id},
              {"encoder_prompt", in.has_encoder_prompt() ? json(in.encoder_prompt()) : json()},
              {"encoder_prompt_token_ids", in.encoder_prompt_token_ids()},
              {"prompt", in.has_prompt() ? json(in.prompt()) : json()},
              {"prompt_token_ids", in.prompt_token_ids()},
              {"outputs", json::array()}};
  for (const auto& c : output.outputs()) out["outputs"].push_back(completion_to_json(c, tokenizer));
  if (output.prompt_logprobs_size() > 0) {
    json list = json::array({nullptr});  // nothing comes before the first token
    for (const auto& l : output.prompt_logprobs()) list.push_back(logprobs_to_json(l, tokenizer));
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
           {{"message", error.what()},
            {"type", api_name(error.kind())},
            {"param", error.param().empty() ? json() : json(error.param())}}}};
}

std::string dump_line(const json& value) {
  return value.dump(-1, ' ', /*ensure_ascii=*/false, json::error_handler_t::replace);
}

}  // namespace tandem
