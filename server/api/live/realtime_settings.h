// What a session of /v1/realtime is asked for, in OpenAI's shapes: today's (session.update) and the
// one before (transcription_session.update).
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "runtime/media/sound/live/live_formats.h"
#include "runtime/media/sound/live/live_transcriber.h"
#include "server/api/application.h"
#include "server/api/fields/json_body.h"

namespace tandem::server {

struct RealtimeSettings {
  LiveFormat format;
  LiveSettings live;
  std::string model;  // as the client calls it
  std::string lora;   // an adapter; "": the model itself
};

// What a session begins with; the query may name `model` and `language`. Throws InputError.
RealtimeSettings first_settings(const HttpRequest& request, const AppContext& app);
// `now` with what the event's `session` says; what it does not name stays. Throws InputError.
RealtimeSettings updated_settings(RealtimeSettings now, nlohmann::json session,
                                  const AppContext& app);

// As session.created and session.updated show them, and transcription_session.updated.
Json session_json(const RealtimeSettings& settings, const std::string& id);
Json transcription_session_json(const RealtimeSettings& settings, const std::string& id);

}  // namespace tandem::server
