#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "server/http/http.h"

namespace tandem::server {

// The decision on a request, from its header alone.
struct Admission {
  std::optional<HttpResponse> refusal;  // the answer; its body is not read
  bool takes_body = true;               // otherwise a small one is read and counts for nothing
  bool audio = false;                   // its body may be as large as a file of sound
  bool form = false;                    // its body is a form with a file
  bool file = false;                    // with form: what is no form is the file itself
  bool open = false;                    // for everybody, also when there are too many connections
};

// Callbacks of connections; outlives them. Called on their strands.
class ConnectionHooks {
 public:
  virtual ~ConnectionHooks() = default;
  // Before the body is read. Not called for invalid HTTP, which is refused.
  virtual Admission admit(const HttpRequest& head) = 0;
  // A whole request that was admitted.
  virtual void handle(const std::shared_ptr<Exchange>& exchange) = 0;
  // An answer has been sent, or given up (bytes: of the body, as far as it went).
  virtual void answered(const HttpRequest& request, int status, size_t bytes, double seconds,
                        bool complete) = 0;
};

}  // namespace tandem::server
