#include "server/api/cors.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "server/http/token_chars.h"

namespace tandem::server {
namespace {

// The origin that is allowed, or "*"; null: none is, or there is no origin.
const std::string* allowed_origin(const ServerConfig& config, const HttpRequest& request) {
  const std::string* origin = request.header("origin");
  if (origin == nullptr) return nullptr;
  for (const std::string& allowed : config.allowed_origins)
    if (allowed == "*" || allowed == *origin) return &allowed;
  return nullptr;
}

bool is_method(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_token_char);
}
bool is_list_of_names(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return is_token_char(c) || c == ',' || c == ' ' || c == '\t'; });
}

}  // namespace

void allow_origin(const ServerConfig& config, const HttpRequest& request, HttpResponse& response) {
  const auto& origins = config.allowed_origins;
  const std::string* allowed = allowed_origin(config, request);
  // Caches must not give one origin's answer to another.
  if (!origins.empty() && std::find(origins.begin(), origins.end(), "*") == origins.end())
    response.headers.emplace_back("vary", "origin");
  if (allowed == nullptr) return;
  response.headers.emplace_back("access-control-allow-origin", *allowed);
  response.headers.emplace_back("access-control-expose-headers",
                                "x-request-id, retry-after, traceresponse");
}

HttpResponse options_answer(const ServerConfig& config, const HttpRequest& request,
                            const std::string& methods) {
  HttpResponse response{.status = 204, .content_type = ""};
  response.headers = {{"allow", methods + ", OPTIONS"}};
  if (allowed_origin(config, request) == nullptr) return response;
  const std::string* method = request.header("access-control-request-method");
  const std::string* names = request.header("access-control-request-headers");
  response.headers.emplace_back(
      "access-control-allow-methods",
      method != nullptr && is_method(*method) ? *method : methods + ", OPTIONS");
  if (names != nullptr && !names->empty() && is_list_of_names(*names))
    response.headers.emplace_back("access-control-allow-headers", *names);
  response.headers.emplace_back("access-control-max-age", "600");
  response.headers.emplace_back("vary",
                                "access-control-request-method, access-control-request-headers");
  return response;
}

bool is_from_foreign_page(const HttpRequest& request) {
  const std::string* site = request.header("sec-fetch-site");
  return site != nullptr && (*site == "cross-site" || *site == "same-site");
}

bool is_foreign_form(const ServerConfig& config, const HttpRequest& request) {
  return is_from_foreign_page(request) && allowed_origin(config, request) == nullptr;
}

}  // namespace tandem::server
