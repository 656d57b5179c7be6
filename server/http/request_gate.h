// The decisions on a request's header, before its body is read.
#pragma once

#include <memory>
#include <optional>

#include "server/http/body/request_body.h"
#include "server/http/config.h"
#include "server/http/connections/connection_hooks.h"
#include "server/http/http.h"
#include "server/http/request_reader.h"

namespace tandem::server {

struct RequestGate {
  const ServerConfig& config;
  ConnectionHooks& hooks;
  BodyPlaces places;

  // The answer to a refused request. If admitted, sets the reader's bound for the body, and `body`
  // as its destination; null: the body is dropped. REQUIRES: the reader's header is done. crowded:
  // there are too many connections.
  std::optional<HttpResponse> refusal(RequestReader& reader, const HttpRequest& request,
                                      bool crowded, std::unique_ptr<RequestBody>& body) const;
};

}  // namespace tandem::server
