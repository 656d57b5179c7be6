#include "server/api/openapi.h"

#include <string_view>

#include "base/json.h"
#include "server/api/json_body.h"
#include "server/api/routes.h"

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
    "src_lang": {"description": "language of the source, by HuggingFace's name (also: source_lang)",
      "type": "string"},
    "tgt_lang": {"description": "language of the output (also: target_lang)", "type": "string"},
    "task": {"description": "one of the model's task_specific_params", "type": "string"},
    "split": {"description": "computes a long text in parts", "default": "none",
      "enum": ["auto", "sentences", "paragraphs", "none"]},
    "merge": {"enum": ["join", "summary"], "default": "join"},
    "decoder_prompt": {"oneOf": [{"type": "string"},
      {"type": "array", "items": {"type": "integer"}}]},
    "priority": {"type": "integer"}, "timeout": {"type": "number", "exclusiveMinimum": 0},
    "logit_bias": {"description": "token id to -100 … 100", "type": "object",
      "additionalProperties": {"type": "number", "minimum": -100, "maximum": 100}},
    "bad_words": {"description": "texts that are not generated", "type": "array",
      "items": {"type": "string"}},
    "bad_words_ids": {"description": "the same as token ids", "type": "array",
      "items": {"type": "array", "items": {"type": "integer"}}},
    "allowed_token_ids": {"description": "nothing else is generated", "type": "array",
      "items": {"type": "integer"}, "minItems": 1},
    "prompt_logprobs": {"description": "of the decoder's prompt, and the k most likely tokens",
      "type": ["integer", "null"], "minimum": 0, "maximum": 100},
    "add_special_tokens": {"description": "around texts", "type": "boolean", "default": true},
    "cache_salt": {"description": "what is cached is shared with requests of the same salt",
      "type": "string", "minLength": 1},
    "global_attention": {"description": "of a model that has it: positions of the encoder's tokens",
      "type": ["array", "null"], "items": {"type": "integer", "minimum": 0}},
    "request_id": {"description": "the answer's id ends with it, unless there is an x-request-id",
      "type": "string"},
    "return_tokens_as_token_ids": {"description": "token_id:5 for a token's text in logprobs",
      "type": "boolean"},
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
  "TranslationRequest": {"type": "object", "required": ["text"], "properties": {
    "model": {"type": "string"},
    "text": {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
    "source_lang": {"description": "of the texts, by HuggingFace's name or a language's code",
      "type": "string"},
    "target_lang": {"description": "of the translations", "type": "string"},
    "task": {"description": "one of the model's task_specific_params", "type": "string"},
    "tag_handling": {"description": "the texts are markup, which stays", "enum": ["html", "xml"]},
    "glossary_id": {"type": "string"},
    "num_beams": {"type": "integer", "minimum": 1},
    "max_new_tokens": {"type": "integer", "minimum": 1},
    "priority": {"type": "integer"}, "timeout": {"type": "number", "exclusiveMinimum": 0}}},
  "DocumentRequest": {"type": "object", "required": ["file"], "additionalProperties": true,
    "properties": {
    "file": {"description": "text, Markdown, HTML, XML or subtitles, by the ending of its name",
      "type": "string", "format": "binary"},
    "source_lang": {"type": "string"}, "target_lang": {"type": "string"}}},
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
    "add_special_tokens": {"type": "boolean", "default": true},
    "global_attention": {"type": ["array", "null"], "items": {"type": "integer", "minimum": 0}},
    "src_lang": {"type": "string"}, "task": {"type": "string"},
    "priority": {"type": "integer"}, "timeout": {"type": "number", "exclusiveMinimum": 0}}},
  "ScoreRequest": {"type": "object", "required": ["text_1", "text_2"], "properties": {
    "model": {"type": "string"},
    "text_1": {"description": "one text for all of text_2, or one for each (also: queries, data_1)",
      "oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
    "text_2": {"description": "texts (also: documents, items, data_2)",
      "oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
    "pooling": {"enum": ["mean", "cls", "last"], "default": "mean"},
    "truncate_prompt_tokens": {"type": "integer", "minimum": -1},
    "add_special_tokens": {"type": "boolean", "default": true},
    "global_attention": {"type": ["array", "null"], "items": {"type": "integer", "minimum": 0}},
    "src_lang": {"type": "string"}, "task": {"type": "string"},
    "priority": {"type": "integer"}, "timeout": {"type": "number", "exclusiveMinimum": 0}}},
  "TargetScoreRequest": {"type": "object", "required": ["prompt", "target"], "properties": {
    "model": {"type": "string"},
    "prompt": {"description": "the source, or one for each target", "oneOf": [{"type": "string"},
      {"type": "array", "items": {"type": "string"}}]},
    "target": {"description": "targets", "oneOf": [{"type": "string"},
      {"type": "array", "items": {"type": "string"}}]},
    "append_eos": {"type": "boolean", "default": true},
    "src_lang": {"type": "string"}, "tgt_lang": {"type": "string"}, "task": {"type": "string"},
    "priority": {"type": "integer"}, "timeout": {"type": "number", "exclusiveMinimum": 0}}},
  "SpeechRequest": {"type": "object", "required": ["file"], "additionalProperties": true,
    "properties": {
    "file": {"description": "WAV, FLAC, Ogg, MP3, AIFF, …", "type": "string", "format": "binary"},
    "model": {"type": "string"},
    "language": {"description": "what is spoken, as de or german; otherwise it is found out",
      "type": "string"},
    "prompt": {"description": "said before, as text: names, a style", "type": "string"},
    "response_format": {"enum": ["json", "text", "srt", "verbose_json", "vtt"], "default": "json"},
    "timestamp_granularities[]": {"type": "array", "items": {"enum": ["segment", "word"]}},
    "temperature": {"type": "number", "minimum": 0},
    "stream": {"type": "boolean", "default": false},
    "max_completion_tokens": {"description": "of a window of sound", "type": "integer",
      "minimum": 1},
    "seed": {"type": "integer"}, "priority": {"type": "integer"},
    "timeout": {"type": "number", "exclusiveMinimum": 0}}},
  "TokenizeRequest": {"type": "object", "required": ["prompt"], "properties": {
    "prompt": {"type": "string"}, "add_special_tokens": {"type": "boolean", "default": true},
    "src_lang": {"description": "language of the text", "type": "string"},
    "return_token_strs": {"type": "boolean", "default": false}}},
  "DetokenizeRequest": {"type": "object", "required": ["tokens"], "properties": {
    "tokens": {"type": "array", "items": {"type": "integer"}},
    "skip_special_tokens": {"type": "boolean", "default": false}}}
})json";

const char* body_of(std::string_view path) {
  if (path == "/v1/completions") return "CompletionRequest";
  if (path == "/v1/chat/completions") return "ChatCompletionRequest";
  if (path == "/v1/translate" || path == "/v2/translate") return "TranslationRequest";
  if (path == "/v1/embeddings") return "EmbeddingRequest";
  if (path == "/score" || path == "/v1/score") return "ScoreRequest";
  if (path == "/v1/target_scores") return "TargetScoreRequest";
  if (path == "/tokenize") return "TokenizeRequest";
  if (path == "/detokenize") return "DetokenizeRequest";
  return nullptr;
}

Json content(const Json& schema, const char* type = "application/json") {
  return {{type, {{"schema", schema}}}};
}
Json reference(const std::string& name) { return {{"$ref", "#/components/schemas/" + name}}; }

}  // namespace

std::string openapi_document(const std::string& version, const std::string& root) {
  Json paths = Json::object();
  for (const Route& route : routes()) {
    Json operation = {{"summary", route.summary}};
    if (route.has_form())
      operation["requestBody"] = {
          {"required", true},
          {"content", content(reference(route.hears() ? "SpeechRequest" : "DocumentRequest"),
                              "multipart/form-data")}};
    else if (const char* body = body_of(route.path))
      operation["requestBody"] = {{"required", true}, {"content", content(reference(body))}};
    operation["responses"] = {
        {"200", {{"description", "OK"}}},
        {"default", {{"description", "an error"}, {"content", content(reference("Error"))}}}};
    if (route.open()) operation["security"] = Json::array();
    for (const char* name : {"model", "id"})
      if (route.path.find("{" + std::string(name) + "}") != route.path.npos)
        operation["parameters"] = Json::array({{{"name", name},
                                                {"in", "path"},
                                                {"required", true},
                                                {"schema", {{"type", "string"}}}}});
    std::string method = route.method;
    for (char& c : method) c = static_cast<char>(c | 0x20);
    paths[std::string(route.path)][method] = operation;
  }
  Json document = {{"openapi", "3.1.0"},
                   {"info", {{"title", "Tandem"}, {"version", version}}},
                   {"servers", Json::array({{{"url", root.empty() ? "/" : root}}})},
                   {"security", Json::array({{{"key", Json::array()}}})},
                   {"paths", paths},
                   {"components",
                    {{"securitySchemes", {{"key", {{"type", "http"}, {"scheme", "bearer"}}}}},
                     {"schemas", Json::parse(kSchemas)}}}};
  return dump_ordered_line(document);
}

}  // namespace tandem::server
