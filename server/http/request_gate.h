// What a request's header decides before its body is read.
#pragma once

#include <memory>
#include <optional>

#include "server/body_budget.h"
#include "server/config.h"
#include "server/connection_hooks.h"
#include "server/http.h"
#include "server/request_reader.h"

namespace tandem::server {

struct RequestGate {
  const ServerConfig& config;
  ConnectionHooks& hooks;
  std::shared_ptr<BodyBudget> budget;

  // The answer to a request that does not get in; otherwise request.memory is there if its body
  // counts. parser's header is done. crowded: there are too many connections.
  std::optional<HttpResponse> refusal(RequestParser& parser, HttpRequest& request,
                                      bool crowded) const;
  // The budget has no more for this body.
  HttpResponse no_memory() const;
};

}  // namespace tandem::server
