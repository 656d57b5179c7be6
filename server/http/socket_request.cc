#include "server/http/socket_request.h"

#include <algorithm>
#include <string>

#include "base/strings/base64.h"
#include "server/http/errors.h"
#include "server/http/token_chars.h"

namespace tandem::server {
namespace {

// The elements of a header that is a list (RFC 9110, 5.6.1), of all lines with its name.
std::vector<std::string_view> elements(const HttpRequest& request, std::string_view name) {
  std::vector<std::string_view> out;
  for (const auto& [key, value] : request.headers) {
    if (key != name) continue;
    for (std::string_view rest = value; !rest.empty();) {
      const size_t end = std::min(rest.find(','), rest.size());
      std::string_view one = rest.substr(0, end);
      rest.remove_prefix(std::min(end + 1, rest.size()));
      while (!one.empty() && is_blank(one.front())) one.remove_prefix(1);
      while (!one.empty() && is_blank(one.back())) one.remove_suffix(1);
      if (!one.empty()) out.push_back(one);
    }
  }
  return out;
}

bool has(const HttpRequest& request, std::string_view name, std::string_view wanted) {
  const auto same = [](char a, char b) { return (a | 0x20) == (b | 0x20); };
  for (const std::string_view one : elements(request, name))
    if (std::equal(one.begin(), one.end(), wanted.begin(), wanted.end(), same)) return true;
  return false;
}

}  // namespace

std::optional<HttpResponse> socket_fault(const HttpRequest& request) {
  const std::string* version = request.header("sec-websocket-version");
  const std::string* key = request.header("sec-websocket-key");
  const bool upgrades =
      has(request, "upgrade", "websocket") && has(request, "connection", "upgrade");
  if (request.method != "GET" || !upgrades || version == nullptr || *version != "13") {
    HttpResponse answer =
        error_response(426, request.path + " is a WebSocket, of version 13; ask for an upgrade");
    answer.headers = {{"upgrade", "websocket"}, {"sec-websocket-version", "13"}};
    return answer;
  }
  const auto bytes = key == nullptr ? std::nullopt : decode_base64(*key);
  if (!bytes || bytes->size() != 16)
    return error_response(400, "Sec-WebSocket-Key must be 16 bytes as Base64");
  return std::nullopt;
}

std::vector<std::string_view> socket_protocols(const HttpRequest& request) {
  return elements(request, "sec-websocket-protocol");
}

}  // namespace tandem::server
