// Permissions of browser pages of other origins
// (https://fetch.spec.whatwg.org/#http-cors-protocol).
#pragma once

#include "server/http/config.h"
#include "server/http/http.h"

namespace tandem::server {

// Lets the page that asks read the answer, if its origin is allowed.
void allow_origin(const ServerConfig& config, const HttpRequest& request, HttpResponse& response);

// The answer to OPTIONS. For an allowed origin it echoes the requested method and headers, because
// "*" would not include Authorization. methods: the route's, "GET, POST".
HttpResponse options_answer(const ServerConfig& config, const HttpRequest& request,
                            const std::string& methods);

// Whether a browser sends this for another site's page.
bool is_from_foreign_page(const HttpRequest& request);
// The same of a page whose origin is not allowed. Browsers send forms without asking the server.
bool is_foreign_form(const ServerConfig& config, const HttpRequest& request);

// Whether a page of another origin than this server's, which is not allowed, opens a WebSocket.
// Browsers let every page do so, and name its origin; other programs name none.
bool is_foreign_socket(const ServerConfig& config, const HttpRequest& request);

}  // namespace tandem::server
