// OpenAI's shape of errors.
#pragma once

#include <string>

#include "base/error.h"
#include "runtime/protocol/tandem.pb.h"
#include "server/http/http.h"

namespace tandem::server {

// The HTTP status of an error by its type (InputError's api_name(), or a client library's).
int status_of(const std::string& type);
// {"error": {"message", "type", "param", "code"}}. code is the status unless OpenAI has a name for
// it. 429 and 503 have Retry-After: `retry_after` rounded to whole seconds, at least 1.
HttpResponse error_response(int status, const std::string& message, const std::string& type,
                            const std::string& param = {}, double retry_after = 0);
// The type that goes with the status.
HttpResponse error_response(int status, const std::string& message);
HttpResponse error_response(const InputError& error);
HttpResponse error_response(const proto::Error& error);
HttpResponse too_many_requests(int limit, double retry_after);
// The JSON alone.
std::string error_body(const proto::Error& error);

}  // namespace tandem::server
