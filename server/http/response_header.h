// The header of an answer as text.
#pragma once

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

}  // namespace tandem::server
