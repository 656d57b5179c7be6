#include "server/http/errors.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/strings/readable_text.h"
#include "runtime/request/request_json.h"

namespace tandem::server {
namespace {

const char* type_of(int status) {
  switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 408: return "timeout_error";
    case 429: return "overloaded_error";
    case 501:
    case 505: return "not_supported_error";
    case 503: return "unavailable_error";
    default: return status < 500 ? "invalid_request_error" : "internal_error";
  }
}

// code: OpenAI's; empty: the status stands for it.
std::string body_of(int status, const std::string& message, const std::string& type,
                    const std::string& param, const std::string& code) {
  using nlohmann::ordered_json;
  ordered_json error = {{"message", readable(message)}, {"type", type}};
  error["param"] = param.empty() ? ordered_json() : ordered_json(readable(param));
  error["code"] = code.empty() ? ordered_json(status) : ordered_json(code);
  return dump_ordered_line({{"error", error}});
}

HttpResponse response_of(int status, std::string body, double retry_after) {
  HttpResponse response{.status = status, .body = std::move(body)};
  if (status == 429 || status == 503) {
    const double seconds = std::clamp(std::ceil(retry_after), 1.0, 86400.0);
    response.headers.emplace_back("retry-after", std::to_string(static_cast<int>(seconds)));
  }
  if (status == 401) response.headers.emplace_back("www-authenticate", "Bearer");
  return response;
}

// OpenAI's codes come with OpenAI's type.
std::string type_of(const proto::Error& error) {
  return error.code().empty() ? error.type() : "invalid_request_error";
}

}  // namespace

int status_of(const std::string& type) {
  if (type == "invalid_request_error" || type == "not_supported_error" || type == "resource_error")
    return 400;
  if (type == "not_found_error") return 404;
  if (type == "overloaded_error") return 429;
  if (type == "unavailable_error" || type == "connection_error") return 503;
  if (type == "timeout_error") return 408;
  if (type == "cancelled") return 499;
  return 500;
}

std::string error_body(const proto::Error& error) {
  return body_of(status_of(error.type()), error.message(), type_of(error), error.param(),
                 error.code());
}

HttpResponse error_response(int status, const std::string& message, const std::string& type,
                            const std::string& param, double retry_after) {
  return response_of(status, body_of(status, message, type, param, {}), retry_after);
}

HttpResponse error_response(int status, const std::string& message) {
  return error_response(status, message, type_of(status));
}

HttpResponse too_many_requests(int limit, double retry_after) {
  return error_response(429,
                        "the server has as many requests as it takes (" + std::to_string(limit) +
                            "); try again later",
                        type_of(429), {}, retry_after);
}

HttpResponse error_response(const InputError& error) {
  const std::string type = api_name(error.kind());
  return error_response(status_of(type), error.what(), type, error.param());
}

HttpResponse error_response(const proto::Error& error) {
  return response_of(status_of(error.type()), error_body(error), error.retry_after());
}

}  // namespace tandem::server
