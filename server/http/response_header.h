// The header of an answer as text.
#pragma once

#include <ctime>
#include <string>
#include <string_view>

#include "server/http/http.h"

namespace tandem::server {

// What every header begins with, whatever the status.
constexpr std::string_view kFirstBytes = "HTTP/1.";

// version: 10 or 11. streaming: chunks follow, if the client knows them; else the body's length is
// given.
std::string header_text(const HttpResponse& head, const HttpRequest& request, int version,
                        bool keep_alive, bool streaming);
// The whole answer, without its body if the request is HEAD.
std::string answer_text(const HttpResponse& answer, const HttpRequest& request, int version,
                        bool keep_alive);

// "Sun, 06 Nov 1994 08:49:37 GMT" (RFC 9110, 5.6.7).
std::string http_date(std::time_t time);

}  // namespace tandem::server
