#include <string>

#include "base/json.h"
#include "server/api/fields/json_body.h"
#include "server/api/huggingface/huggingface.h"
#include "server/http/errors.h"

namespace tandem::server {
namespace {

struct Kind {
  int status;
  const char* error_type;
};

Kind kind_of(int status) {
  switch (status) {
    case 400: return {422, "validation"};
    case 401: return {401, "authentication"};
    case 404: return {404, "not_found"};
    case 408: return {408, "timeout"};
    case 413: return {413, "validation"};
    case 429: return {429, "overloaded"};
    case 500: return {424, "generation"};
    case 503: return {503, "unavailable"};
    default: return {status, status < 500 ? "validation" : "generation"};
  }
}

}  // namespace

bool is_huggingface_request(const HttpRequest& request) {
  const std::string_view path = request.path;
  if (path == "/") return request.method != "GET" && request.method != "HEAD";
  return path == "/generate" || path == "/generate_stream" || path == "/info" ||
         path.starts_with("/pipeline/");
}

void as_huggingface_error(const HttpRequest& request, HttpResponse& response) {
  if (response.status < 400 || !is_huggingface_request(request)) return;
  const Json body = json_or_discarded<Json>(response.body);
  if (!body.is_object() || !body.contains("error") || !body["error"].is_object()) return;
  const Kind kind = kind_of(response.status);
  response.status = kind.status;
  response.body = dump_ordered_line(
      {{"error", body["error"].value("message", "")}, {"error_type", kind.error_type}});
}

std::string huggingface_error_body(const proto::Error& error) {
  return dump_ordered_line(
      {{"error", error.message()}, {"error_type", kind_of(status_of(error.type())).error_type}});
}

}  // namespace tandem::server
