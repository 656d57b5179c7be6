#include "server/api/openapi.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/json.h"
#include "server/api/fields/json_body.h"
#include "server/api/routes.h"
#include "server/schema_files.h"

namespace tandem::server {
namespace {

Json all_schemas() {
  Json all = Json::object();
  for (const std::string_view file :
       {schemas::common_json, schemas::generation_json, schemas::responses_json,
        schemas::huggingface_json, schemas::translation_json, schemas::documents_json,
        schemas::scoring_json, schemas::speech_json, schemas::tokens_json, schemas::status_json}) {
    const Json some = json_from<Json>(file);
    for (const auto& [name, schema] : some.items()) {
      TANDEM_CHECK(!all.contains(name), "two schemas have a name");
      all[name] = schema;
    }
  }
  return all;
}

Json schema_of(const char* name) {
  return {{"schema", {{"$ref", std::string("#/components/schemas/") + name}}}};
}

// Of bytes and texts that have no structure.
Json plain_schema() { return {{"schema", {{"type", "string"}}}}; }

Json request_body(const Route& route) {
  Json content = Json::object();
  if (route.has_form()) {
    content["multipart/form-data"] = schema_of(route.schemas.request);
  } else {
    content["application/json"] = schema_of(route.schemas.request);
    if (route.schemas.form)
      content["application/x-www-form-urlencoded"] = schema_of(route.schemas.request);
    if (route.kind == Route::Kind::kMayHear) content["application/octet-stream"] = plain_schema();
  }
  return {{"required", true}, {"content", content}};
}

// OpenAPI has no schema of WebSockets: this one is of the server's messages.
Json socket_answers(const Route& route) {
  return {{"101",
           {{"description", "a WebSocket"},
            {"content", {{"application/json", schema_of(route.schemas.event)}}}}},
          {"default",
           {{"description", "an error"},
            {"content", {{"application/json", schema_of(route.schemas.error)}}}}}};
}

Json answers(const Route& route) {
  if (route.live()) return socket_answers(route);
  Json content = Json::object();
  if (route.schemas.answer != nullptr)
    content["application/json"] = schema_of(route.schemas.answer);
  // OpenAPI 3.1 has no schema of streams: this one is of the data of each event.
  if (route.schemas.event != nullptr) content["text/event-stream"] = schema_of(route.schemas.event);
  std::string_view types = route.schemas.other_types;
  while (!types.empty()) {
    const size_t end = std::min(types.find(' '), types.size());
    content[std::string(types.substr(0, end))] = plain_schema();
    types.remove_prefix(std::min(end + 1, types.size()));
  }
  if (content.empty())
    return {{"204", {{"description", "done"}}},
            {"default",
             {{"description", "an error"},
              {"content", {{"application/json", schema_of(route.schemas.error)}}}}}};
  return {{"200", {{"description", "OK"}, {"content", content}}},
          {"default",
           {{"description", "an error"},
            {"content", {{"application/json", schema_of(route.schemas.error)}}}}}};
}

Json operation_of(const Route& route) {
  Json operation = {{"summary", route.summary}};
  if (route.schemas.request != nullptr) operation["requestBody"] = request_body(route);
  operation["responses"] = answers(route);
  if (route.open()) operation["security"] = Json::array();
  if (const size_t brace = route.path.find('{'); brace != route.path.npos)
    operation["parameters"] =
        Json::array({{{"name", route.path.substr(brace + 1, route.path.find('}') - brace - 1)},
                      {"in", "path"},
                      {"required", true},
                      {"schema", {{"type", "string"}}}}});
  return operation;
}

}  // namespace

std::string openapi_document(const std::string& version, const std::string& root) {
  static const Json schemas = all_schemas();
  Json paths = Json::object();
  for (const Route& route : routes()) {
    std::string method = route.method;
    for (char& c : method) c = static_cast<char>(c | 0x20);
    paths[std::string(route.path)][method] = operation_of(route);
  }
  Json document = {{"openapi", "3.1.0"},
                   {"info", {{"title", "Tandem"}, {"version", version}}},
                   {"servers", Json::array({{{"url", root.empty() ? "/" : root}}})},
                   {"security", Json::array({{{"key", Json::array()}}})},
                   {"paths", paths},
                   {"components",
                    {{"securitySchemes", {{"key", {{"type", "http"}, {"scheme", "bearer"}}}}},
                     {"schemas", schemas}}}};
  return dump_ordered_line(document);
}

}  // namespace tandem::server
