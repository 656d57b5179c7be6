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

std::string lower(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c | 0x20);
  return text;
}
// A host without a port that is a scheme's own. (A proxy may speak TLS for this server.)
std::string without_port(const std::string& host) {
  for (const std::string_view port : {":80", ":443"})
    if (host.ends_with(port)) return lower(host.substr(0, host.size() - port.size()));
  return lower(host);
}
// "https://example.com" → "example.com"; "": it is no page of a server.
std::string without_scheme(const std::string& origin) {
  for (const std::string_view scheme : {"http://", "https://"})
    if (origin.starts_with(scheme)) return without_port(origin.substr(scheme.size()));
  return "";
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

bool is_foreign_socket(const ServerConfig& config, const HttpRequest& request) {
  const std::string* origin = request.header("origin");
  if (origin == nullptr || allowed_origin(config, request) != nullptr) return false;
  const std::string* host = request.header("host");
  return host == nullptr || without_scheme(*origin) != without_port(*host);
}

bool is_foreign_form(const ServerConfig& config, const HttpRequest& request) {
  return is_from_foreign_page(request) && allowed_origin(config, request) == nullptr;
}

}  // namespace tandem::server
