#pragma once

#include <cstddef>
#include <memory>

#include "server/http.h"

namespace tandem::server {

// What connections tell the rest of the server; outlives them. Called on their strands.
class ConnectionHooks {
 public:
  virtual ~ConnectionHooks() = default;
  virtual void handle(const std::shared_ptr<Exchange>& exchange) = 0;
  // An answer has been sent, or given up (bytes: of the body, as far as it went).
  virtual void answered(const HttpRequest& request, int status, size_t bytes, double seconds,
                        bool complete) = 0;
};

}  // namespace tandem::server
