// Who may send requests.
#pragma once

#include <string_view>

#include "server/http/config.h"
#include "server/http/http.h"

namespace tandem::server {

// The key of "Authorization: SCHEME key"; empty: none, or another scheme. Schemes ignore case, and
// any number of blanks may follow (RFC 9110, 11.1).
std::string_view credentials_of(const HttpRequest& request, std::string_view scheme);

// Whether the request has one of the server's keys, if the server has any. The time does not depend
// on how much of a wrong key is right.
bool has_key(const ServerConfig& config, const HttpRequest& request);
// The same of a key that stands elsewhere than in a header.
bool is_key(const ServerConfig& config, std::string_view key);
inline constexpr char kWrongKey[] =
    "the API key is missing or wrong (header \"Authorization: Bearer KEY\")";

inline constexpr char kWrongKeyInBody[] =
    "the API key is missing or wrong (api_key of the body, or the header \"Authorization: Bearer "
    "KEY\")";

}  // namespace tandem::server
