#include "server/openapi.h"

#include <string_view>

#include "server/json_body.h"
#include "server/routes.h"

namespace tandem::server {
namespace {

// Schemas of bodies. Generation parameters besides those named are docs/parameters.md's.
constexpr const char* kSchemas = R"json({
  "Error": {"type": "object", "required": ["error"], "properties": {"error": {"type": "object",
    "required": ["message", "type", "param", "code"], "properties": {
      "message": {"type": "string"}, "type": {"type": "string"},
      "param": {"type": ["string", "null"]}, "code": {"type": "integer"}}}}},
  "Usage": {"type": "object", "properties": {"prompt_tokens": {"type": "integer"},
    "completion_tokens": {"type": "integer"}, "total_tokens": {"type": "integer"}}},
  "GenerationParameters": {"type": "object", "additionalProperties": true, "properties": {
    "model": {"type": "string"}, "stream": {"type": "boolean", "default": false},
    "stream_options": {"type": "object", "properties": {"include_usage": {"type": "boolean"},
      "continuous_usage_stats": {"type": "boolean"}}},
    "max_tokens": {"type": "integer", "minimum": 1}, "n": {"type": "integer", "minimum": 1},
    "temperature": {"type": "number", "minimum": 0}, "top_p": {"type": "number"},
    "top_k": {"type": "integer"}, "num_beams": {"type": "integer", "minimum": 1},
    "length_penalty": {"type": "number"}, "no_repeat_ngram_size": {"type": "integer"},
    "seed": {"type": "integer"}, "stop": {"oneOf": [{"type": "string"},
      {"type": "array", "items": {"type": "string"}}]},
    "decoder_prompt": {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "integer"}}]},
    "priority": {"type": "integer"}, "timeout": {"type": "number", "exclusiveMinimum": 0},
    "return_token_ids": {"type": "boolean"}}},
  "CompletionRequest": {"allOf": [{"$ref": "#/components/schemas/GenerationParameters"},
    {"type": "object", "required": ["prompt"], "properties": {
      "prompt": {"description": "the encoder's input: a text, token ids, or a list of either",
        "oneOf": [{"type": "string"}, {"type": "array"}]},
      "echo": {"type": "boolean"}, "logprobs": {"type": ["integer", "null"]}}}]},
  "ChatCompletionRequest": {"allOf": [{"$ref": "#/components/schemas/GenerationParameters"},
    {"type": "object", "required": ["messages"], "properties": {
      "messages": {"type": "array", "items": {"type": "object", "required": ["role", "content"],
        "properties": {"role": {"enum": ["system", "developer", "user", "assistant"]},
          "content": {"oneOf": [{"type": "string"}, {"type": "array"}]}}}},
      "logprobs": {"type": "boolean"}, "top_logprobs": {"type": "integer"}}}]},
  "EmbeddingRequest": {"type": "object", "required": ["input"], "properties": {
    "model": {"type": "string"},
    "input": {"description": "a text, token ids, or a list of either",
      "oneOf": [{"type": "string"}, {"type": "array"}]},
    "encoding_format": {"enum": ["float", "base64"], "default": "float"},
    "dimensions": {"description": "none but the model's own", "type": "integer"},
    "user": {"type": "string"},
    "pooling": {"enum": ["mean", "cls", "last"], "default": "mean"},
    "normalize": {"type": "boolean", "default": true},
    "truncate_prompt_tokens": {"type": "integer", "minimum": -1},
    "priority": {"type": "integer"}, "timeout": {"type": "number", "exclusiveMinimum": 0}}},
  "ScoreRequest": {"type": "object", "required": ["text_1", "text_2"], "properties": {
    "text_1": {"description": "the source, or one for each target", "oneOf": [{"type": "string"},
      {"type": "array", "items": {"type": "string"}}]},
    "text_2": {"description": "targets", "oneOf": [{"type": "string"},
      {"type": "array", "items": {"type": "string"}}]}, "append_eos": {"type": "boolean", "default": true}}},
  "TokenizeRequest": {"type": "object", "required": ["prompt"], "properties": {
    "prompt": {"type": "string"}, "add_special_tokens": {"type": "boolean", "default": true},
    "return_token_strs": {"type": "boolean", "default": false}}},
  "DetokenizeRequest": {"type": "object", "required": ["tokens"], "properties": {
    "tokens": {"type": "array", "items": {"type": "integer"}},
    "skip_special_tokens": {"type": "boolean", "default": false}}}
})json";

const char* body_of(std::string_view path) {
  if (path == "/v1/completions") return "CompletionRequest";
  if (path == "/v1/chat/completions") return "ChatCompletionRequest";
  if (path == "/v1/embeddings") return "EmbeddingRequest";
  if (path == "/score" || path == "/v1/score") return "ScoreRequest";
  if (path == "/tokenize") return "TokenizeRequest";
  if (path == "/detokenize") return "DetokenizeRequest";
  return nullptr;
}

Json content(const Json& schema) { return {{"application/json", {{"schema", schema}}}}; }
Json reference(const std::string& name) { return {{"$ref", "#/components/schemas/" + name}}; }

}  // namespace

std::string openapi_document(const std::string& version) {
  Json paths = Json::object();
  for (const Route& route : routes()) {
    Json operation = {{"summary", route.summary}};
    if (const char* body = body_of(route.path))
      operation["requestBody"] = {{"required", true}, {"content", content(reference(body))}};
    operation["responses"] = {
        {"200", {{"description", "OK"}}},
        {"default", {{"description", "an error"}, {"content", content(reference("Error"))}}}};
    if (route.open) operation["security"] = Json::array();
    if (route.path.find("{model}") != route.path.npos)
      operation["parameters"] = Json::array({{{"name", "model"},
                                              {"in", "path"},
                                              {"required", true},
                                              {"schema", {{"type", "string"}}}}});
    paths[std::string(route.path)][std::string(route.method) == "GET" ? "get" : "post"] = operation;
  }
  Json document = {{"openapi", "3.1.0"},
                   {"info", {{"title", "Tandem"}, {"version", version}}},
                   {"security", Json::array({{{"key", Json::array()}}})},
                   {"paths", paths},
                   {"components",
                    {{"securitySchemes", {{"key", {{"type", "http"}, {"scheme", "bearer"}}}}},
                     {"schemas", Json::parse(kSchemas)}}}};
  return dump(document);
}

}  // namespace tandem::server
