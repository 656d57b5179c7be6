#include "server/api/live/realtime_session.h"

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/log/log.h"
#include "base/log/log_text.h"
#include "base/seconds_since.h"
#include "base/strings/base64.h"
#include "runtime/media/sound/voice/voice_source.h"
#include "runtime/protocol/json/json_fields.h"
#include "runtime/protocol/json/json_line.h"
#include "server/http/errors.h"
#include "server/http/url.h"

namespace tandem::server {
namespace {

using nlohmann::json;

proto::Error to_error(const InputError& e) {
  proto::Error out;
  out.set_type(api_name(e.kind()));
  out.set_message(e.what());
  out.set_param(e.param());
  return out;
}

// Values of an event, at most: parsed, each takes many times its text.
constexpr int64_t kMostValues = 10'000;

json read_event(const std::string& text) {
  if (std::ranges::count_if(text, [](char c) { return c == ',' || c == '[' || c == '{'; }) >
      kMostValues)
    throw invalid_request("event", "has more than " + std::to_string(kMostValues) + " values");
  try {
    return parse_json_line(text);
  } catch (const InputError& e) {
    throw invalid_request("event", e.what());
  }
}

Json null_or(const std::string& text) { return text.empty() ? Json() : Json(text); }

}  // namespace

std::unique_ptr<LiveSlot> LiveSlot::take(AppContext& app) {
  ++app.live_sessions;
  auto slot = std::make_unique<LiveSlot>(app);
  return app.live_sessions <= app.config.max_live_sessions ? std::move(slot) : nullptr;
}

RealtimeSession::RealtimeSession(AppContext& app, std::shared_ptr<Exchange> exchange,
                                 RealtimeSettings settings, std::unique_ptr<LiveSlot> slot)
    : app_(app),
      exchange_(std::move(exchange)),
      slot_(std::move(slot)),
      id_(random_id().substr(0, 16)),
      settings_(std::move(settings)) {
  make_live();
}

void RealtimeSession::make_live() {
  live_.emplace(settings_.live, settings_.format.rate, app_.speech_times,
                [voice = app_.voice](int rate) {
                  return make_voice_meter(voice == nullptr ? nullptr : voice->weights(), rate);
                });
}

void RealtimeSession::start(bool before) {
  exchange_->on_gone([self = shared_from_this()] { self->gone(); });
  exchange_->on_ending([self = shared_from_this()] { self->end(); });
  before_ = before;
  if (before)
    send("transcription_session.created",
         {{"session", transcription_session_json(settings_, "sess_" + id_)}});
  else
    send("session.created", {{"session", session_json(settings_, "sess_" + id_)}});
}

void RealtimeSession::send(const char* type, Json fields) {
  Json event = {{"type", type}, {"event_id", "event_" + id_ + "_" + std::to_string(events_++)}};
  event.update(fields);
  exchange_->write(dump_ordered_line(event));
}

void RealtimeSession::send_error(const proto::Error& error, const std::string& event_id) {
  const bool empty = error.param() == "input_audio_buffer";
  send("error", {{"error",
                  {{"type", error.type()},
                   {"code", empty ? Json("input_audio_buffer_commit_empty") : Json()},
                   {"message", error.message()},
                   {"param", null_or(error.param())},
                   {"event_id", null_or(event_id)}}}});
}

// A message of the client's. What is wrong with it is told, and the session goes on.
void RealtimeSession::receive(const std::string& text) {
  if (ended_ || ending_) return;
  std::string event_id;
  try {
    json event = read_event(text);
    if (!event.is_object())
      throw invalid_request("event", "must be an object, not " + describe(event));
    if (const auto it = event.find("event_id"); it != event.end() && it->is_string())
      event_id = it->get<std::string>().substr(0, 512);
    handle(std::move(event));
  } catch (const InputError& e) {
    send_error(to_error(e), event_id);
  } catch (const std::exception& e) {
    log_error("/v1/realtime: {} id={}", escape_controls(e.what()), exchange_->request().id);
    exchange_->end_socket(1011, "an error of the server; its log says more");
    return;
  }
  pump();
}

void RealtimeSession::handle(json event) {
  const std::string type = read_string(event.value("type", json()), "type");
  if (type == "input_audio_buffer.append") return append(std::move(event));
  if (type == "input_audio_buffer.commit") return commit(event);
  if (type == "session.update") return update(std::move(event), false);
  if (type == "transcription_session.update") return update(std::move(event), true);
  if (type != "input_audio_buffer.clear")
    throw not_supported(
        "type",
        describe(json(type)) +
            " is no event of a transcription: session.update, transcription_session.update, "
            "input_audio_buffer.append, .commit and .clear");
  live_->clear();
  send("input_audio_buffer.cleared", Json::object());
}

void RealtimeSession::update(json event, bool before) {
  // vLLM's clients name the model beside the type.
  json session = event.value("session", json());
  if (session.is_null() && event.contains("model")) session = {{"model", event["model"]}};
  if (session.is_null()) throw invalid_request("session", "is missing");
  RealtimeSettings next = updated_settings(settings_, std::move(session), app_);
  const bool new_format = next.format != settings_.format;
  if (new_format && has_sound_)
    throw invalid_request(before ? "session.input_audio_format" : "session.audio.input.format",
                          "cannot change after sound has come");
  settings_ = std::move(next);
  if (new_format)
    make_live();
  else
    live_->set(settings_.live);
  if (before)
    send("transcription_session.updated",
         {{"session", transcription_session_json(settings_, "sess_" + id_)}});
  else
    send("session.updated", {{"session", session_json(settings_, "sess_" + id_)}});
}

void RealtimeSession::append(json event) {
  const auto it = event.find("audio");
  if (it == event.end() || !it->is_string())
    throw invalid_request("audio", "must be a text: the sound's bytes as Base64");
  const auto bytes = decode_base64(it->get_ref<const std::string&>());
  if (!bytes) throw invalid_request("audio", "is not Base64");
  event = nullptr;  // its memory
  if (bytes->size() % settings_.format.sample_bytes() != 0)
    throw invalid_request("audio", "is not of whole samples, which have 2 bytes");
  std::vector<int16_t> samples;
  decode_samples(*bytes, settings_.format.coding, samples);
  has_sound_ = has_sound_ || !samples.empty();
  live_->add(samples);
}

void RealtimeSession::commit(const json& event) {
  // vLLM's clients say so before the sound.
  if (event.value("final", json()) == false) return;
  if (!live_->commit())
    throw invalid_request("input_audio_buffer", "has less than " +
                                                    std::to_string(LiveTranscriber::kLeastMs) +
                                                    " ms of sound that is not committed");
}

// What the state of the transcription has to say, and wants.
void RealtimeSession::pump() {
  while (!ended_) {
    const bool due = live_->has_window();
    for (const LiveEvent& event : live_->events()) tell(event);
    if (!due && !under_way_) turn_.reset();
    if (!due || !has_turn()) break;
    submit(*live_->next());
  }
  if (ended_) return;
  if (ending_ && live_->idle()) return exchange_->end_socket(1001, "the server ends");
  exchange_->hold(!ending_ && live_->seconds_waiting() > kMostSeconds);
}

// Asks for it. The window is cut when it has come, with all the sound that there is then.
bool RealtimeSession::has_turn() {
  if (turn_ == nullptr)
    turn_ = app_.live_turns.ask([session = weak_from_this()] {
      const auto self = session.lock();
      if (self) self->exchange_->post([self] { self->pump(); });
    });
  return turn_->has_come();
}

std::string RealtimeSession::item_id(int64_t item) const {
  return "item_" + id_ + "_" + std::to_string(item);
}

void RealtimeSession::tell(const LiveEvent& event) {
  using Kind = LiveEvent::Kind;
  const std::string item = item_id(event.item);
  const auto transcription = [&](const char* type, Json fields) {
    Json all = {{"item_id", item}, {"content_index", 0}};
    all.update(fields);
    send(type, std::move(all));
  };
  switch (event.kind) {
    case Kind::kStarted:
      return send("input_audio_buffer.speech_started",
                  {{"audio_start_ms", event.ms}, {"item_id", item}});
    case Kind::kStopped:
      return send("input_audio_buffer.speech_stopped",
                  {{"audio_end_ms", event.ms}, {"item_id", item}});
    case Kind::kCommitted: return tell_committed(event.item);
    case Kind::kText:
      return transcription("conversation.item.input_audio_transcription.delta",
                           {{"delta", event.text}, {"partial", event.partial}});
    case Kind::kCompleted: {
      const double seconds = static_cast<double>(event.ms) / 1000;
      app_.metrics.sound_transcribed(seconds);
      return transcription(
          "conversation.item.input_audio_transcription.completed",
          {{"transcript", event.text}, {"usage", {{"type", "duration"}, {"seconds", seconds}}}});
    }
    case Kind::kFailed:
      return transcription("conversation.item.input_audio_transcription.failed",
                           {{"error",
                             {{"type", event.error.type()},
                              {"code", Json()},
                              {"message", event.error.message()},
                              {"param", null_or(event.error.param())}}}});
  }
}

// The item is in the conversation from now on. (Its transcript has events of its own.)
void RealtimeSession::tell_committed(int64_t number) {
  const Json previous = number == 0 ? Json() : Json(item_id(number - 1));
  send("input_audio_buffer.committed",
       {{"previous_item_id", previous}, {"item_id", item_id(number)}});
  Json content = Json::array({{{"type", "input_audio"}, {"transcript", nullptr}}});
  const Json fields = {{"previous_item_id", previous},
                       {"item",
                        {{"id", item_id(number)},
                         {"object", "realtime.item"},
                         {"type", "message"},
                         {"status", "completed"},
                         {"role", "user"},
                         {"content", std::move(content)}}}};
  if (before_) return send("conversation.item.created", fields);
  send("conversation.item.added", fields);
  send("conversation.item.done", fields);
}

void RealtimeSession::submit(LiveWindow window) {
  if (under_way_) app_.engine.cancel(under_way_->id);  // of sound that was cleared
  const int number = window.number;
  under_way_.emplace(UnderWay{.number = number, .id = {}, .answer = {}});
  if (!app_.enter(1)) {
    app_.metrics.request_refused("http_prompts");
    proto::Error error;
    error.set_type(api_name(ErrorKind::kOverloaded));
    error.set_message("the server has too many requests (--max-requests)");
    under_way_.reset();
    turn_.reset();
    return live_->fail(number, error);
  }
  turn_->begin(seconds_since({}));
  EngineApi::Request request;
  const LiveModel model{.times = app_.speech_times,
                        .tasks = !app_.speech_languages.empty(),
                        .prompts = app_.speech_times};
  request.prompt = live_prompt(window, live_->rate(), model, "audio");
  if (!settings_.lora.empty()) request.options.set_lora(settings_.lora);
  request.timeout = app_.config.request_timeout;
  static std::atomic<uint64_t> serial{0};
  request.id = under_way_->id = "live-" + id_ + "-" + std::to_string(serial++);
  app_.engine.submit(
      std::move(request), [self = shared_from_this(), number](proto::RequestChunk c) {
        self->exchange_->post([self, number, chunk = std::move(c)] { self->take(number, chunk); });
      });
}

void RealtimeSession::take(int number, const proto::RequestChunk& chunk) {
  const bool last = chunk.finished() || chunk.has_error();
  if (last) app_.leave(1);
  if (!under_way_ || under_way_->number != number) return;
  under_way_->answer.add(chunk);
  if (!last) return;
  report();
  const LiveAnswer answer = std::move(std::exchange(under_way_, std::nullopt)->answer);
  if (turn_ != nullptr && !answer.error()) turn_->end(seconds_since({}));
  turn_.reset();
  if (ended_) return;
  if (answer.error())
    live_->fail(number, *answer.error());
  else
    live_->take(number, answer.hypothesis());
  pump();
}

// For metrics: each window is a request.
void RealtimeSession::report() {
  const LiveAnswer& answer = under_way_->answer;
  app_.metrics.request_ended({.reason = answer.error() ? answer.error()->type() : "stop",
                              .total = seconds_since(under_way_->begun),
                              .output_tokens = answer.tokens()});
}

// The server is about to end. What has come is an item, whose text is told to its end.
void RealtimeSession::end() {
  if (ended_ || std::exchange(ending_, true)) return;
  live_->finish();
  pump();
}

// The socket has ended; an answer under way is of no use.
void RealtimeSession::gone() {
  ended_ = true;
  slot_.reset();
  turn_.reset();
  if (under_way_) app_.engine.cancel(under_way_->id);
}

}  // namespace tandem::server
