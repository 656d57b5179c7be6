#include "server/api/live/realtime_settings.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "runtime/media/sound/live/live_rate.h"
#include "runtime/protocol/json/json_fields.h"
#include "server/api/generation/generation_request.h"
#include "server/http/url.h"
#include "text/language_names.h"

namespace tandem::server {
namespace {

using nlohmann::json;

constexpr size_t kMostPrompt = 16 * 1024;  // bytes: it is read again with each window
constexpr int kMostPaddingMs = 5000, kMostSilenceMs = 60000;

// Each of these has a field's whole name, and its value, if it is there and not null.
template <class Use>
void use(const json& object, const char* name, const std::string& where, const Use& f) {
  if (const auto it = object.find(name); it != object.end() && !it->is_null())
    f(*it, where + "." + name);
}

void check_object(const json& value, const std::string& name) {
  if (!value.is_object()) throw invalid_request(name, "expected an object, not " + describe(value));
}

void refuse(const json& object, const char* name, const std::string& where, const char* why) {
  use(object, name, where, [&](const json& value, const std::string& field) {
    if (!value.empty()) throw not_supported(field, why);
  });
}

LiveFormat pcm(const json& value, const std::string& field) {
  LiveFormat out;
  use(value, "rate", field, [&](const json& rate, const std::string& name) {
    out.rate = static_cast<int>(read_int(rate, name, LiveRate::kLeast, LiveRate::kMost));
    if (!LiveRate::takes(out.rate))
      throw invalid_request(name, "must be a multiple of " + std::to_string(LiveRate::kMultiple) +
                                      ", such as 16000, 24000 and 44100");
  });
  return out;
}

LiveFormat format_of(const json& value, const std::string& field) {
  const bool object = value.is_object();
  const std::string name =
      read_string(object ? value.value("type", json("audio/pcm")) : value, field);
  if (name == "audio/pcm" || name == "pcm16") return object ? pcm(value, field) : LiveFormat{};
  if (name == "audio/pcmu" || name == "g711_ulaw") return {LiveCoding::kMuLaw, 8000};
  if (name == "audio/pcma" || name == "g711_alaw") return {LiveCoding::kALaw, 8000};
  throw not_supported(field,
                      "there are audio/pcm (pcm16), audio/pcmu (g711_ulaw) and audio/pcma "
                      "(g711_alaw), not " +
                          describe(json(name)));
}

void set_turns(const json& value, const std::string& field, RealtimeSettings& out) {
  if (value.is_null()) return out.live.turns.reset();
  check_object(value, field);
  const std::string type = read_string(value.value("type", json("server_vad")), field + ".type");
  if (type != "server_vad")
    throw not_supported(field + ".type",
                        "there is server_vad, or null, not " + describe(json(type)));
  TurnOptions turns = out.live.turns.value_or(TurnOptions());
  use(value, "threshold", field, [&](const json& number, const std::string& name) {
    turns.threshold = read_number(number, name, {.lo = 0, .hi = 1});
  });
  const auto set_ms = [&](const char* key, int least, int most, int& to) {
    use(value, key, field, [&](const json& number, const std::string& name) {
      to = static_cast<int>(read_int(number, name, least, most));
    });
  };
  set_ms("prefix_padding_ms", 0, kMostPaddingMs, turns.prefix_padding_ms);
  set_ms("silence_duration_ms", 0, kMostSilenceMs, turns.silence_duration_ms);
  out.live.turns = turns;
}

void set_language(const json& value, const std::string& field, const AppContext& app,
                  RealtimeSettings& out) {
  const std::string name = read_string(value, field);
  const std::string code = name.empty() ? "" : language_code(name);
  const auto& known = app.speech_languages;
  const bool fits =
      name.empty() ||
      (known.empty() ? code == "en" : std::find(known.begin(), known.end(), code) != known.end());
  if (!fits)
    throw invalid_request(
        field, "the model hears no " + describe(json(name)) + " (speech_languages of /v1/models)");
  out.live.language = name;
}

void set_transcription(const json& value, const std::string& field, const AppContext& app,
                       RealtimeSettings& out) {
  check_object(value, field);
  use(value, "model", field, [&](const json& model, const std::string& name) {
    json body = {{"model", read_string(model, name)}};
    out.lora.clear();
    out.model = check_model(app.config, body, out.lora);
  });
  use(value, "language", field, [&](const json& language, const std::string& name) {
    set_language(language, name, app, out);
  });
  use(value, "prompt", field, [&](const json& prompt, const std::string& name) {
    out.live.prompt = read_string(prompt, name);
    if (!out.live.prompt.empty() && !app.speech_times)
      throw not_supported(name, "this model takes no text that was said before");
    if (out.live.prompt.size() > kMostPrompt)
      throw invalid_request(name, "has " + std::to_string(out.live.prompt.size()) +
                                      " bytes; at most " + std::to_string(kMostPrompt));
  });
  refuse(value, "keywords", field, "say such words in `prompt`");
  refuse(value, "languages", field, "one of them is what `language` names");
}

constexpr const char* kNoNoise = "this server does not reduce noise";
constexpr const char* kNoInclude = "there are no log-probabilities of transcriptions";

// The shape of today.
void set_input(const json& input, const std::string& where, const AppContext& app,
               RealtimeSettings& out) {
  check_object(input, where);
  use(input, "format", where,
      [&](const json& value, const std::string& field) { out.format = format_of(value, field); });
  refuse(input, "noise_reduction", where, kNoNoise);
  use(input, "transcription", where, [&](const json& value, const std::string& field) {
    set_transcription(value, field, app, out);
  });
  if (input.contains("turn_detection"))
    set_turns(input["turn_detection"], where + ".turn_detection", out);
}

Json turns_json(const RealtimeSettings& settings) {
  if (!settings.live.turns) return nullptr;
  const TurnOptions& turns = *settings.live.turns;
  return {{"type", "server_vad"},
          {"threshold", turns.threshold},
          {"prefix_padding_ms", turns.prefix_padding_ms},
          {"silence_duration_ms", turns.silence_duration_ms}};
}

Json format_json(const LiveFormat& format) {
  if (format.coding == LiveCoding::kMuLaw) return {{"type", "audio/pcmu"}};
  if (format.coding == LiveCoding::kALaw) return {{"type", "audio/pcma"}};
  return {{"type", "audio/pcm"}, {"rate", format.rate}};
}

Json transcription_json(const RealtimeSettings& settings) {
  Json out = {{"model", settings.model}};
  if (!settings.live.language.empty()) out["language"] = settings.live.language;
  if (!settings.live.prompt.empty()) out["prompt"] = settings.live.prompt;
  return out;
}

}  // namespace

RealtimeSettings first_settings(const HttpRequest& request, const AppContext& app) {
  RealtimeSettings out;
  json body = {{"model", query_field(request.query, "model")}};
  out.model = check_model(app.config, body, out.lora);
  if (const std::string intent = query_field(request.query, "intent");
      !intent.empty() && intent != "transcription")
    throw not_supported("intent", "this server transcribes; intent=transcription");
  set_language(query_field(request.query, "language"), "language", app, out);
  return out;
}

RealtimeSettings updated_settings(RealtimeSettings now, json session, const AppContext& app) {
  const std::string where = "session";
  check_object(session, where);
  use(session, "type", where, [&](const json& type, const std::string& field) {
    if (type != "transcription")
      throw not_supported(field, "this server transcribes: it is \"transcription\"");
  });
  refuse(session, "include", where, kNoInclude);
  use(session, "audio", where, [&](const json& audio, const std::string& field) {
    check_object(audio, field);
    use(audio, "input", field,
        [&](const json& input, const std::string& name) { set_input(input, name, app, now); });
  });
  // The shape before, and what other servers take there.
  use(session, "model", where, [&](const json& model, const std::string&) {
    set_transcription({{"model", model}}, where, app, now);
  });
  use(session, "input_audio_format", where,
      [&](const json& value, const std::string& field) { now.format = format_of(value, field); });
  refuse(session, "input_audio_noise_reduction", where, kNoNoise);
  use(session, "input_audio_transcription", where,
      [&](const json& value, const std::string& field) {
        set_transcription(value, field, app, now);
      });
  if (session.contains("turn_detection"))
    set_turns(session["turn_detection"], where + ".turn_detection", now);
  return now;
}

Json session_json(const RealtimeSettings& settings, const std::string& id) {
  Json input = {{"format", format_json(settings.format)},
                {"noise_reduction", nullptr},
                {"transcription", transcription_json(settings)},
                {"turn_detection", turns_json(settings)}};
  return {{"id", id},
          {"object", "realtime.transcription_session"},
          {"type", "transcription"},
          {"audio", {{"input", std::move(input)}}},
          {"include", nullptr}};
}

Json transcription_session_json(const RealtimeSettings& settings, const std::string& id) {
  const LiveCoding coding = settings.format.coding;
  const char* format = coding == LiveCoding::kMuLaw  ? "g711_ulaw"
                       : coding == LiveCoding::kALaw ? "g711_alaw"
                                                     : "pcm16";
  // (OpenAI's type has a secret, which a session over a WebSocket does not need.)
  return {{"id", id},
          {"object", "realtime.transcription_session"},
          {"client_secret", {{"value", ""}, {"expires_at", 0}}},
          {"input_audio_format", format},
          {"input_audio_transcription", transcription_json(settings)},
          {"turn_detection", turns_json(settings)}};
}

}  // namespace tandem::server
