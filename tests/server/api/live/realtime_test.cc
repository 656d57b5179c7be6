// Sessions of /v1/realtime without sockets and without an engine.
#include <gtest/gtest.h>

#include "tests/support/network/live_server.h"

namespace tandem::realtime_test {
namespace {

using nlohmann::json;
using server::Headers;
using test::FakeExchange;
using test::LiveServer;

std::vector<std::string> types(const std::vector<json>& events) {
  std::vector<std::string> out;
  for (const json& event : events) out.push_back(event.at("type"));
  return out;
}
using Types = std::vector<std::string>;
const std::string kDelta = "conversation.item.input_audio_transcription.delta";
const std::string kCompleted = "conversation.item.input_audio_transcription.completed";
const std::string kFailed = "conversation.item.input_audio_transcription.failed";
const Types kCommitted = {"input_audio_buffer.committed", "conversation.item.added",
                          "conversation.item.done"};

TEST(Realtime, OpensForWhoMay) {
  LiveServer s;
  auto e = s.open();
  EXPECT_EQ(e->status(), 101);
  const auto created = s.news();
  ASSERT_EQ(types(created), Types{"session.created"});
  const json& session = created[0]["session"];
  EXPECT_EQ(session["type"], "transcription");
  EXPECT_EQ(session["audio"]["input"]["format"], json({{"type", "audio/pcm"}, {"rate", 24000}}));
  EXPECT_EQ(session["audio"]["input"]["turn_detection"]["silence_duration_ms"], 500);
  EXPECT_EQ(session["audio"]["input"]["transcription"]["model"], "model");
  s.open("?model=alias&intent=transcription&language=de", {{"openai-beta", "realtime=v1"}});
  const auto before = s.news();
  ASSERT_EQ(types(before), Types{"transcription_session.created"});
  EXPECT_EQ(before[0]["session"]["input_audio_transcription"],
            json({{"model", "alias"}, {"language", "de"}}));
  EXPECT_EQ(s.open("", {{"sec-websocket-protocol", "openai-insecure-api-key.x, realtime"}})
                ->header("sec-websocket-protocol")
                ->c_str(),
            std::string("realtime"));
  EXPECT_EQ(s.open("?model=other")->status(), 404);
  EXPECT_EQ(s.open("?intent=conversation")->status(), 400);
  EXPECT_EQ(s.open("?language=xx")->error_param(), "language");
  EXPECT_EQ(s.ask("GET", "/v1/realtime")->status(), 426);
  EXPECT_EQ(*s.exchanges.back()->header("upgrade"), "websocket");
  EXPECT_EQ(s.ask("POST", "/v1/realtime")->status(), 405);
  Headers odd = test::kUpgrade;
  odd.back().second = "short";
  EXPECT_EQ(s.ask("GET", "/v1/realtime", "", odd)->status(), 400);
  test::FakeServer text;
  EXPECT_EQ(text.ask("GET", "/v1/realtime", "", test::kUpgrade)->status(), 400)
      << "it reads no sound";
}

TEST(Realtime, ChecksOrigins) {
  LiveServer s;
  EXPECT_EQ(s.open("", {{"origin", "https://elsewhere"}})->status(), 403);
  EXPECT_EQ(s.open("", {{"origin", "null"}})->status(), 403);
  EXPECT_EQ(s.open("", {{"origin", "http://here"}})->status(), 403) << "another port";
  EXPECT_EQ(s.open("", {{"origin", "http://HERE:8000"}})->status(), 101);
  s.config.allowed_origins = {"https://elsewhere"};
  EXPECT_EQ(s.open("", {{"origin", "https://elsewhere"}})->status(), 101);
  EXPECT_EQ(s.open("", {{"origin", "https://elsewhere.evil"}})->status(), 403);
}

TEST(Realtime, ChecksKeys) {
  LiveServer s;
  s.config.api_keys = {"right"};
  EXPECT_EQ(s.open()->status(), 401);
  EXPECT_EQ(s.open("", {{"authorization", "Bearer right"}})->status(), 101);
  EXPECT_EQ(
      s.open("", {{"sec-websocket-protocol", "realtime, openai-insecure-api-key.right"}})->status(),
      101);
  EXPECT_EQ(
      s.open("", {{"sec-websocket-protocol", "realtime, openai-insecure-api-key.wrong"}})->status(),
      401);
}

// Words are settled when two windows agree, and the item ends with the commit.
TEST(Realtime, TranscribesWhatIsCommitted) {
  LiveServer s;
  s.open();
  EXPECT_EQ(types(s.update({{"turn_detection", nullptr}})),
            (Types{"session.created", "session.updated"}));
  EXPECT_EQ(types(s.append(1)), Types{});
  ASSERT_EQ(s.engine.requests.size(), 1u);
  EXPECT_TRUE(s.sound().params().return_timestamps());
  EXPECT_EQ(s.sound().params().task(), "transcribe");
  EXPECT_EQ(s.sound().file().size(), 44u + 48000u);
  auto events = s.hear(" And so my");
  ASSERT_EQ(types(events), Types{kDelta});
  EXPECT_EQ(events[0]["delta"], "");
  EXPECT_EQ(events[0]["partial"], "And so my");
  EXPECT_EQ(types(s.append(0.3)), Types{}) << "too little to ask again";
  EXPECT_EQ(s.engine.requests.size(), 1u);
  s.append(0.3);
  ASSERT_EQ(s.engine.requests.size(), 2u);
  events = s.hear(" And so, my fellow.");
  ASSERT_EQ(types(events), Types{kDelta});
  EXPECT_EQ(events[0]["delta"], "And so, my");
  EXPECT_EQ(events[0]["partial"], " fellow.");
  EXPECT_EQ(types(s.append(0.2)), Types{});
  events = s.tell({{"type", "input_audio_buffer.commit"}});
  ASSERT_EQ(types(events), kCommitted);
  EXPECT_EQ(events[0]["previous_item_id"], nullptr);
  EXPECT_EQ(events[1]["item"]["id"], events[0]["item_id"]);
  EXPECT_EQ(events[1]["item"]["role"], "user");
  EXPECT_EQ(events[1]["item"], events[2]["item"]);
  const json first = events[0]["item_id"];
  events = s.hear(" And so my fellow Americans.");
  ASSERT_EQ(types(events), (Types{kDelta, kCompleted}));
  EXPECT_EQ(events[1]["transcript"], "And so, my fellow Americans.");
  EXPECT_EQ(events[1]["usage"], json({{"type", "duration"}, {"seconds", 1.8}}));
  s.append(1);
  EXPECT_EQ(s.sound().params().prompt(), " And so my fellow Americans.");
  events = s.tell({{"type", "input_audio_buffer.commit"}});
  ASSERT_EQ(types(events), kCommitted);
  for (const json& event : events) EXPECT_EQ(event["previous_item_id"], first);
  EXPECT_EQ(s.context.prompts_under_way, 1);
  s.exchanges.back()->gone();
  s.exchanges.back()->run_posted();
  EXPECT_EQ(s.engine.cancelled.size(), 1u) << "nobody waits for it";
  EXPECT_EQ(s.context.prompts_under_way, 0);
  EXPECT_EQ(s.context.live_sessions, 0);
}

// Without a network speech is what is loud.
TEST(Realtime, FindsTurns) {
  LiveServer s;
  s.open();
  s.update({{"turn_detection",
             {{"type", "server_vad"}, {"prefix_padding_ms", 100}, {"silence_duration_ms", 200}}}});
  s.append(1, 3);
  EXPECT_TRUE(s.engine.requests.empty()) << "silence";
  auto events = s.append(1, 8000);
  ASSERT_EQ(types(events), Types{"input_audio_buffer.speech_started"});
  EXPECT_NEAR(events[0]["audio_start_ms"].get<double>(), 900, 64);
  EXPECT_EQ(s.engine.requests.size(), 1u);
  events = s.append(0.6, 3);
  ASSERT_EQ(types(events), (Types{"input_audio_buffer.speech_stopped", kCommitted[0], kCommitted[1],
                                  kCommitted[2]}));
  EXPECT_NEAR(events[0]["audio_end_ms"].get<double>(), 2200, 64);
  s.hear(" Guten", 1);
  events = s.hear(" Guten Tag.", 1.3);
  ASSERT_EQ(types(events), (Types{kDelta, kCompleted}));
  EXPECT_EQ(events[1]["transcript"], "Guten Tag.");
  EXPECT_EQ(s.engine.requests.size(), 2u);
}

TEST(Realtime, RefusesWhatItCannotRead) {
  LiveServer s;
  s.open();
  s.news();
  const auto param_of = [&](const std::string& text) {
    const auto events = s.tell_text(text);
    EXPECT_EQ(types(events), Types{"error"}) << text;
    const json error = events.at(0)["error"];
    EXPECT_TRUE(error["message"].is_string());
    return error["param"].is_string() ? error["param"].get<std::string>() : "";
  };
  EXPECT_EQ(param_of("{"), "event");
  EXPECT_EQ(param_of("[]"), "event");
  EXPECT_EQ(param_of("{}"), "type");
  EXPECT_EQ(param_of(R"({"type": "response.create"})"), "type");
  EXPECT_EQ(param_of(R"({"type": "input_audio_buffer.append"})"), "audio");
  EXPECT_EQ(param_of(R"({"type": "input_audio_buffer.append", "audio": "*"})"), "audio");
  EXPECT_EQ(param_of(R"({"type": "input_audio_buffer.append", "audio": "AA=="})"), "audio");
  EXPECT_EQ(param_of(R"({"type": "input_audio_buffer.commit"})"), "input_audio_buffer");
  EXPECT_EQ(param_of(R"({"type": "session.update"})"), "session");
  const auto param_of_input = [&](const std::string& input) {
    return param_of(R"({"type": "session.update", "session": {"audio": {"input": )" + input +
                    "}}}");
  };
  const std::string in = "session.audio.input.";
  EXPECT_EQ(param_of_input(R"({"format": {"type": "audio/mp3"}})"), in + "format");
  EXPECT_EQ(param_of_input(R"({"format": {"type": "audio/pcm", "rate": 44101}})"),
            in + "format.rate");
  EXPECT_EQ(param_of_input(R"({"format": {"rate": 1e9}})"), in + "format.rate");
  EXPECT_EQ(param_of_input(R"({"turn_detection": {"type": "semantic_vad"}})"),
            in + "turn_detection.type");
  EXPECT_EQ(param_of_input(R"({"turn_detection": {"threshold": 2}})"),
            in + "turn_detection.threshold");
  EXPECT_EQ(param_of_input(R"({"noise_reduction": {"type": "near_field"}})"),
            in + "noise_reduction");
  EXPECT_EQ(param_of_input(R"({"transcription": {"language": "xx"}})"),
            in + "transcription.language");
  EXPECT_EQ(param_of_input(R"({"transcription": {"model": "other"}})"), "model");
  EXPECT_EQ(param_of(R"({"type": "session.update", "session": {"type": "realtime"}})"),
            "session.type");
  const auto named = s.tell({{"type", "x"}, {"event_id", "mine"}});
  EXPECT_EQ(named[0]["error"]["event_id"], "mine");
  EXPECT_EQ(s.exchanges.back()->close_code, 0) << "the session goes on";
  EXPECT_EQ(types(s.tell({{"type", "input_audio_buffer.clear"}})),
            Types{"input_audio_buffer.cleared"});
}

TEST(Realtime, Formats) {
  for (const char* format : {"pcm16", "g711_ulaw", "g711_alaw"}) {
    LiveServer s;
    s.open("", {{"openai-beta", "realtime=v1"}});
    s.tell({{"type", "transcription_session.update"},
            {"session",
             {{"input_audio_format", format},
              {"turn_detection", nullptr},
              {"input_audio_transcription", {{"language", "de"}, {"prompt", "Names."}}}}}});
    const size_t rate = std::string(format) == "pcm16" ? 24000 : 8000;
    s.tell({{"type", "input_audio_buffer.append"},
            {"audio", encode_base64(std::string(rate * (rate == 8000 ? 1 : 2), '\x55'))}});
    ASSERT_EQ(s.engine.requests.size(), 1u);
    EXPECT_EQ(s.sound().file().size(), 44 + rate * 2);
    EXPECT_EQ(s.sound().params().language(), "de");
    EXPECT_EQ(s.sound().params().prompt(), "Names.");
    const auto events = s.update({{"format", {{"type", "audio/pcm"}, {"rate", 16000}}}});
    EXPECT_EQ(types(events), Types{"error"}) << "sound has come";
    EXPECT_EQ(types(s.tell({{"type", "input_audio_buffer.commit"}})),
              (Types{"input_audio_buffer.committed", "conversation.item.created"}));
  }
}

// A client that sends faster than the engine computes waits.
TEST(Realtime, HoldsBackWhatIsTooMuch) {
  LiveServer s;
  s.open();
  s.update({{"turn_detection", nullptr}});
  for (int i = 0; i < 4; ++i) s.append(16);
  EXPECT_TRUE(s.exchanges.back()->held);
  EXPECT_EQ(s.engine.requests.size(), 1u);
  s.hear(" a");
  EXPECT_EQ(s.engine.requests.size(), 2u);
  s.hear(" b", 20);
  EXPECT_FALSE(s.exchanges.back()->held);
}

TEST(Realtime, ErrorsOfTheEngine) {
  LiveServer s;
  s.open();
  s.update({{"turn_detection", nullptr}});
  s.append(1);
  s.engine.fail(0, "overloaded_error");
  s.exchanges.back()->run_posted();
  EXPECT_EQ(types(s.news()), Types{}) << "it may pass";
  EXPECT_EQ(types(s.append(0.6)), Types{});
  ASSERT_EQ(s.engine.requests.size(), 2u);
  s.engine.fail(1, "resource_error");
  s.exchanges.back()->run_posted();
  EXPECT_EQ(types(s.news()), Types{kFailed});
  EXPECT_EQ(types(s.append(1)), Types{});
  EXPECT_EQ(types(s.tell({{"type", "input_audio_buffer.commit"}})), kCommitted);
  s.append(1);
  EXPECT_EQ(s.engine.requests.size(), 3u) << "the next item has its chance";
}

// A second of each is a second, to the sample, for the model at 16 kHz.
TEST(Realtime, RatesOfRecordings) {
  for (const int rate : {11025, 22050, 44100}) {
    LiveServer s;
    s.open();
    const auto updated = s.update(
        {{"turn_detection", nullptr}, {"format", {{"type", "audio/pcm"}, {"rate", rate}}}});
    EXPECT_EQ(updated.back()["session"]["audio"]["input"]["format"]["rate"], rate);
    s.tell({{"type", "input_audio_buffer.append"},
            {"audio", encode_base64(std::string(static_cast<size_t>(rate) * 2, '\x01'))}});
    ASSERT_EQ(s.engine.requests.size(), 1u);
    s.hear(" a");
    s.tell({{"type", "input_audio_buffer.commit"}});
    ASSERT_EQ(s.engine.requests.size(), 2u) << "the last samples";
    EXPECT_EQ(s.sound().file().size(), 44u + 32000u);
    EXPECT_EQ(s.hear(" a").back()["usage"]["seconds"], 1);
  }
}

// What has been heard is settled and told before the socket ends; what comes later is not heard.
TEST(Realtime, TheServerEnds) {
  LiveServer s;
  const auto idle = s.open(), busy = s.open();
  s.update({{"turn_detection", nullptr}});
  s.append(1);
  s.hear(" And so");
  s.context.ending = true;
  EXPECT_EQ(s.open()->status(), 503);
  s.exchanges.pop_back();
  idle->ending();
  EXPECT_EQ(idle->close_code, 1001) << "nothing is open";
  s.append(0.4);
  s.news();
  busy->ending();
  EXPECT_EQ(types(s.news()), kCommitted);
  EXPECT_EQ(busy->close_code, 0);
  EXPECT_EQ(types(s.append(1)), Types{});
  const auto events = s.hear(" And so my");
  ASSERT_EQ(types(events), (Types{kDelta, kCompleted}));
  EXPECT_EQ(events[1]["transcript"], "And so my");
  EXPECT_EQ(events[1]["usage"]["seconds"], 1.4);
  EXPECT_EQ(busy->close_code, 1001);
}

// Also if the engine takes nothing any more.
TEST(Realtime, TheServerEndsWithoutAnAnswer) {
  LiveServer s;
  const auto e = s.open();
  s.update({{"turn_detection", nullptr}});
  s.append(1);
  s.news();
  e->ending();
  s.engine.fail(0, "unavailable_error");
  e->run_posted();
  EXPECT_EQ(types(s.news()).back(), kFailed);
  EXPECT_EQ(e->close_code, 1001);
}

TEST(Realtime, ClearedSoundIsForgotten) {
  LiveServer s;
  s.open();
  s.update({{"turn_detection", nullptr}});
  s.append(1);
  s.tell({{"type", "input_audio_buffer.clear"}});
  s.append(1);
  ASSERT_EQ(s.engine.requests.size(), 2u);
  s.exchanges.back()->run_posted();
  EXPECT_EQ(s.engine.cancelled, std::vector<std::string>{s.engine.requests[0].id});
  EXPECT_EQ(s.context.prompts_under_way, 1);
  s.news();
  EXPECT_EQ(s.hear(" b").at(0)["partial"], "b");
}

}  // namespace
}  // namespace tandem::realtime_test
