#include "server/http/request_gate.h"

#include <memory>
#include <string>
#include <utility>

#include "server/http/errors.h"

namespace tandem::server {
namespace {

constexpr size_t kMaxIgnoredBody = 4096;  // of a request that takes none

}  // namespace

std::optional<HttpResponse> RequestGate::refusal(RequestReader& reader, const HttpRequest& request,
                                                 bool crowded,
                                                 std::unique_ptr<RequestBody>& body) const {
  Admission admission = hooks.admit(request);
  if (crowded && !admission.open)
    return error_response(503, "the server has as many connections as it takes (" +
                                   std::to_string(config.max_connections) +
                                   ", --max-connections); try again later");
  if (admission.refusal) return std::move(admission.refusal);
  if (const std::string* expected = request.header("expect"))
    if (reader.version() >= 11 && !reader.expects_continue())
      return error_response(417, "Expect: " + expected->substr(0, 80) + " is not understood");
  if (reader.done()) return std::nullopt;
  const auto length = reader.content_length();
  if (!admission.takes_body) {
    reader.bound_body(kMaxIgnoredBody);
    if (length && *length > kMaxIgnoredBody)
      return error_response(413, request.method + " " + request.path + " takes no body");
    return std::nullopt;
  }
  const BodyBound bound = admission.audio ? BodyBound{config.max_audio_bytes, "--max-audio-size"}
                                          : BodyBound{config.max_body_bytes, "--max-body-size"};
  reader.bound_body(bound.bytes, bound.flag);
  if (length && *length > bound.bytes) return too_large(bound);
  if (length && !admission.form && !places.memory->has_room_for(*length))
    return no_memory(*places.memory);
  if (length && admission.form && !places.disk->has_room_for(*length))
    return *length > places.disk->all() ? too_large({places.disk->all(), "--max-upload-disk"})
                                        : no_disk(*places.disk);
  try {
    body = std::make_unique<RequestBody>(request, admission.form, bound, places, length,
                                         admission.file);
  } catch (BodyRefused& refused) {
    return refused.take_answer();
  }
  reader.read_into(body.get());
  return std::nullopt;
}

}  // namespace tandem::server
