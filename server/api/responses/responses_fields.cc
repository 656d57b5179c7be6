#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "server/api/responses/responses.h"

namespace tandem::server {
namespace {

using nlohmann::json;

constexpr RefusedField kUnsupportedFields[] = {
    {"previous_response_id", "[]", "nothing is stored; send the whole conversation as input"},
    {"conversation", "[]", "nothing is stored; send the whole conversation as input"},
    {"store", "[false]", "nothing is stored; leave it out, or say false"},
    {"background", "[false]", "nothing is stored, so nobody could fetch the answer later"},
    {"prompt", "[]", "the server has no templates by name; --prompt-template is for all requests"},
    {"tools", "[[]]", "this kind of model calls no tools"},
    {"tool_choice", R"(["none", "auto"])", "this kind of model calls no tools"},
    {"max_tool_calls", "[]", "this kind of model calls no tools"},
    {"context_management", "[[]]", "conversations are not compacted"},
    {"moderation", "[]", "nothing is moderated"}};

// About accounting, or hints for models that reason.
constexpr const char* kFieldsWithoutEffect[] = {"reasoning", "prompt_cache_options"};

void refuse_foreign(json& body) {
  refuse_fields(body, kUnsupportedFields);
  for (const char* name : kFieldsWithoutEffect) body.erase(name);
  for (const char* name : {"n", "num_return_sequences", "best_of"})
    if (body.contains(name) && !body[name].is_null() && body[name] != 1)
      throw not_supported(name, "a response has one text");
  for (const char* name : {"messages", "logprobs", "echo"})
    if (body.contains(name)) throw invalid_request(name, "is not a field of this request");
}

// {"format": {"type": "json_schema", "schema": …}, "verbosity": …}: the format is what a chat's
// response_format is, with the schema's fields beside the type.
void take_text(json& body, FieldNames& names) {
  if (body.contains("response_format"))
    throw invalid_request("response_format", "is text.format in this request");
  auto text = take(body, "text");
  if (!text) return;
  if (!text->is_object()) throw invalid_request("text", "expected an object");
  auto format = take(*text, "format");
  take(*text, "verbosity");
  if (!text->empty())
    throw invalid_request("text." + text->begin().key(), "is not a field of this request");
  if (!format) return;
  names.add("response_format", "text.format");
  body["response_format"] = std::move(*format);
}

void take_input_truncation(json& body, FieldNames& names) {
  const std::string how = take_string(body, "truncation").value_or("disabled");
  if (how != "disabled" && how != "auto")
    throw invalid_request("truncation", "expected auto or disabled");
  if (how == "disabled") return;
  body.emplace("truncate_prompt_tokens", -1);
  names.add("truncate_prompt_tokens", "truncation");
}

void take_logprobs(json& body) {
  const auto top = take_int(body, "top_logprobs", 0, 100);
  const json include = take(body, "include").value_or(json::array());
  if (!include.is_array()) throw invalid_request("include", "expected a list");
  for (const json& one : include)
    if (one != "message.output_text.logprobs")
      throw not_supported(
          "include", "there is message.output_text.logprobs, not " +
                         one.dump(-1, ' ', false, json::error_handler_t::replace).substr(0, 60));
  if (include.empty() && !top) return;
  body["logprobs"] = true;
  body["top_logprobs"] = top.value_or(0);
}

// A part of an item's content → a chat's.
json chat_part(const json& part, const std::string& field) {
  const json type = part.is_object() ? part.value("type", json()) : json();
  if (type == "input_text" || type == "output_text" || type == "text")
    return {{"type", "text"}, {"text", part.value("text", json())}};
  if (type != "input_image")
    throw not_supported(field, "parts of other types than input_text, output_text and input_image");
  if (part.contains("file_id") && !part["file_id"].is_null())
    throw not_supported(field, "file_id: nothing is stored; send image_url");
  return {{"type", "image_url"}, {"image_url", {{"url", part.value("image_url", json())}}}};
}

// instructed: whether instructions take the place of its system's message.
json chat_message(const json& item, const std::string& field, bool instructed) {
  if (!item.is_object()) throw invalid_request(field, "expected an item");
  const json type = item.value("type", json("message"));
  if (type != "message")
    throw not_supported(field + ".type", "only \"message\"; this kind of model calls no tools");
  json message = {{"role", item.value("role", json())}};
  if (instructed && (message["role"] == "system" || message["role"] == "developer"))
    message["role"] = "assistant";
  if (!item.contains("content")) return message;
  const json& content = item["content"];
  message["content"] = content;
  if (!content.is_array()) return message;
  message["content"] = json::array();
  for (const json& part : content)
    message["content"].push_back(chat_part(part, field + ".content"));
  return message;
}

json chat_messages(const json& input, const std::optional<std::string>& instructions) {
  json messages = json::array();
  if (input.is_string()) {
    messages.push_back({{"role", "user"}, {"content", input}});
  } else if (input.is_array() && !input.empty()) {
    for (size_t i = 0; i < input.size(); ++i)
      messages.push_back(
          chat_message(input[i], "input[" + std::to_string(i) + "]", instructions.has_value()));
  } else {
    throw invalid_request("input", "expected a text or a list of items");
  }
  if (instructions) messages.push_back({{"role", "system"}, {"content", *instructions}});
  return messages;
}

// "messages[2].content" is "input[2].content" to the client; of one text, "input".
std::string input_field(const std::string& field, bool list) {
  constexpr std::string_view kMessages = "messages";
  if (!field.starts_with(kMessages)) return field;
  return list ? "input" + field.substr(kMessages.size()) : "input";
}

GenerationRequest parse_as_chat(json body, const ServerConfig& config, bool list) {
  try {
    GenerationRequest r = parse_chat(std::move(body), config);
    proto::PromptPart& encoder = *r.prompts.front().mutable_encoder();
    encoder.set_field(input_field(encoder.field(), list));
    return r;
  } catch (const InputError& error) {
    const std::string field = input_field(error.param(), list), message = error.what();
    const bool named = !error.param().empty() && message.starts_with(error.param());
    throw InputError(error.kind(), named ? field + message.substr(error.param().size()) : message,
                     field);
  }
}

// A schema is text by now, which has its properties in the client's order (keep_order_of_schemas).
Json repeated_format(const json& text) {
  const json format = text.is_object() ? text.value("format", json()) : json();
  if (!format.is_object()) return {{"type", "text"}};
  Json out = format;
  if (out.contains("schema") && out["schema"].is_string())
    out["schema"] = json_from<Json>(out["schema"].get<std::string>());
  return out;
}

Json repeated_of(const json& body) {
  Json out = Json::object();
  for (const char* name : {"instructions", "max_output_tokens", "metadata", "temperature", "top_p",
                           "user", "safety_identifier", "prompt_cache_key", "truncation"})
    out[name] = body.contains(name) ? Json(body[name]) : Json();
  out["parallel_tool_calls"] = body.value("parallel_tool_calls", json()) != false;
  out["top_logprobs"] =
      body.value("top_logprobs", json()).is_null() ? Json(0) : Json(body["top_logprobs"]);
  out["text"] = {{"format", repeated_format(body.value("text", json()))}};
  if (out["metadata"].is_null()) out["metadata"] = Json::object();
  if (out["truncation"].is_null()) out["truncation"] = "disabled";
  return out;
}

void check_repeated(const json& body) {
  const auto has = [&](const char* name) { return body.contains(name) && !body[name].is_null(); };
  for (const char* name : {"user", "safety_identifier", "prompt_cache_key"})
    if (has(name) && !body[name].is_string()) throw invalid_request(name, "expected a string");
  if (has("parallel_tool_calls") && !body["parallel_tool_calls"].is_boolean())
    throw invalid_request("parallel_tool_calls", "expected true or false");
  if (!has("metadata")) return;
  const json& metadata = body["metadata"];
  if (!metadata.is_object() || std::any_of(metadata.begin(), metadata.end(),
                                           [](const json& value) { return !value.is_string(); }))
    throw invalid_request("metadata", "expected an object whose values are strings");
}

}  // namespace

ResponseRequest parse_response(json body, const ServerConfig& config) {
  ResponseRequest out;
  check_repeated(body);
  out.repeated = repeated_of(body);
  refuse_foreign(body);
  FieldNames names;
  take_text(body, names);
  take_input_truncation(body, names);
  take_logprobs(body);
  const auto input = take(body, "input");
  if (!input) throw invalid_request("input", "is missing");
  const auto instructions = take_string(body, "instructions");
  body["messages"] = chat_messages(*input, instructions);
  if (auto most = take(body, "max_output_tokens")) {
    for (const char* same : {"max_tokens", "max_completion_tokens", "max_new_tokens"})
      if (body.contains(same))
        throw invalid_request("max_output_tokens",
                              std::string("says the same as ") + same + "; give one of them");
    body["max_tokens"] = std::move(*most);
    names.add("max_tokens", "max_output_tokens");
  }
  names.add("prompt", "input");
  names.add("messages", "input");
  out.generation =
      names.around([&] { return parse_as_chat(std::move(body), config, input->is_array()); });
  names.add(out.generation.names);
  out.generation.names = std::move(names);
  out.generation.list_field = "input";
  return out;
}

}  // namespace tandem::server
