#include "server/http/request_gate.h"

#include <memory>
#include <string>
#include <utility>

#include "server/api/errors.h"

namespace tandem::server {
namespace {

constexpr size_t kMaxIgnoredBody = 4096;  // of a request that takes none

}  // namespace

std::optional<HttpResponse> RequestGate::refusal(RequestParser& parser, HttpRequest& request,
                                                 bool crowded) const {
  Admission admission = hooks.admit(request);
  if (crowded && !admission.open)
    return error_response(503, "the server has as many connections as it takes (" +
                                   std::to_string(config.max_connections) + "); try again later");
  if (admission.refusal) return std::move(admission.refusal);
  if (parser.is_done()) return std::nullopt;
  const auto length = parser.content_length();
  if (!admission.takes_body) {
    parser.body_limit(request.body_limit = kMaxIgnoredBody);
    if (length && *length > kMaxIgnoredBody)
      return error_response(413, request.method + " " + request.path + " takes no body");
    return std::nullopt;
  }
  request.body_limit = admission.audio ? config.largest_body() : config.max_body_bytes;
  parser.body_limit(request.body_limit);
  if (length && *length > request.body_limit)
    return error_response(
        413, "the body is larger than " + std::to_string(request.body_limit) + " bytes");
  request.memory = std::make_shared<BodyShare>(budget);
  if (length && !budget->has_room_for(*length)) return no_memory();
  return std::nullopt;
}

HttpResponse RequestGate::no_memory() const {
  return error_response(429,
                        "the bodies of requests under way take all the memory that the server "
                        "has for them (--max-body-memory, " +
                            std::to_string(budget->all()) + " bytes); try again later");
}

}  // namespace tandem::server
