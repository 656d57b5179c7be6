// The request that asks for a WebSocket (RFC 6455, 4.2.1).
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "server/http/http.h"

namespace tandem::server {

// The answer to a request that asks for none, or wrongly; nothing: it is one.
std::optional<HttpResponse> socket_fault(const HttpRequest& request);
// Those that the client knows, in its order.
std::vector<std::string_view> socket_protocols(const HttpRequest& request);

// OpenAI's name of a protocol that is a key, because pages cannot send headers with a WebSocket.
inline constexpr std::string_view kKeyProtocol = "openai-insecure-api-key.";

}  // namespace tandem::server
