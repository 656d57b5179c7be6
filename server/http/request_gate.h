// What a request's header decides before its body is read.
#pragma once

#include <memory>
#include <optional>

#include "server/http/body_budget.h"
#include "server/http/config.h"
#include "server/http/connection_hooks.h"
#include "server/http/http.h"
#include "server/http/request_reader.h"

namespace tandem::server {

struct RequestGate {
  const ServerConfig& config;
  ConnectionHooks& hooks;
  std::shared_ptr<BodyBudget> budget;

  // The answer to a request that does not get in; otherwise request.body_limit is set, the parser's
  // too, and request.memory is there if its body counts. parser's header is done. crowded: there
  // are too many connections.
  std::optional<HttpResponse> refusal(RequestParser& parser, HttpRequest& request,
                                      bool crowded) const;
  // The budget has no more for this body.
  HttpResponse no_memory() const;
};

}  // namespace tandem::server
