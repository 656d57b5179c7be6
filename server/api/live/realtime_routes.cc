#include "server/api/cors.h"
#include "server/api/live/realtime_session.h"
#include "server/api/routes.h"
#include "server/http/errors.h"
#include "server/http/socket_request.h"

namespace tandem::server {
namespace {

// Browsers need one of the protocols that they offer to be chosen. The others are keys.
Headers protocol_header(const HttpRequest& request) {
  for (const std::string_view protocol : socket_protocols(request))
    if (protocol == "realtime") return {{"sec-websocket-protocol", "realtime"}};
  return {};
}

bool wants_shape_before(const HttpRequest& request) {
  const std::string* beta = request.header("openai-beta");
  if (beta != nullptr && beta->find("realtime=v1") != beta->npos) return true;
  for (const std::string_view protocol : socket_protocols(request))
    if (protocol == "openai-beta.realtime-v1") return true;
  return false;
}

}  // namespace

void get_realtime(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  const HttpRequest& request = exchange->request();
  if (auto fault = socket_fault(request)) return exchange->respond(std::move(*fault));
  if (is_foreign_socket(app.config, request))
    return exchange->respond(
        error_response(403, "pages of other origins may not open a WebSocket (--allowed-origins)"));
  RealtimeSettings settings = first_settings(request, app);
  if (app.ending) return exchange->respond(error_response(503, "the server is shutting down"));
  auto slot = LiveSlot::take(app);
  if (slot == nullptr) {
    app.metrics.request_refused("live_sessions");
    return exchange->respond(error_response(
        429, "the server has as many live sessions as it takes (" +
                 std::to_string(app.config.max_live_sessions) + ", --max-live-sessions)"));
  }
  const bool before = wants_shape_before(request);
  const auto session =
      std::make_shared<RealtimeSession>(app, exchange, std::move(settings), std::move(slot));
  exchange->start_socket({.status = 101, .headers = protocol_header(request)},
                         [session](std::string text) { session->receive(text); });
  session->start(before);
}

}  // namespace tandem::server
