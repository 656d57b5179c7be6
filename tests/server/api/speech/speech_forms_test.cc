// Forms as clients of many kinds write them, and times as players read them.
#include <gtest/gtest.h>

#include "base/json.h"
#include "tests/support/network/speech_server.h"

namespace tandem {
namespace {

using nlohmann::json;
using test::kTranscriptions;
using test::SpeechServer;
using Fields = test::FormFields;

// As clients of many languages write lists and objects.
TEST(Speech, WaysToWriteLists) {
  const Fields forms[] = {
      {{"timestamp_granularities[]", "segment"}},
      {{"timestamp_granularities", "segment"}},
      {{"timestamp_granularities", "[\"segment\"]"}},
      {{"timestamp_granularities[]", "[\"segment\"]"}},
      {{"timestamp_granularities[0]", "segment"}},
      {{"timestamp_granularities", "segment"}, {"timestamp_granularities", "segment"}}};
  for (const auto& fields : forms)
    for (const char* format : {"verbose_json", "json", "text"}) {
      SpeechServer s;
      Fields all = fields;
      all.emplace_back("response_format", format);
      const auto e = s.send(all);
      ASSERT_EQ(s.engine.requests.size(), 1u) << e->head->body;
      const bool verbose = std::string(format) == "verbose_json";
      EXPECT_EQ(s.sound().params().return_timestamps(), verbose) << "json has no place for them";
      s.say_all(verbose);
      EXPECT_EQ(e->status(), 200);
      if (verbose) {
        EXPECT_EQ(e->json()["segments"].size(), 2u);
      }
    }
  SpeechServer s;
  s.send({{"chunking_strategy[type]", "server_vad"},
          {"chunking_strategy[threshold]", "0.5"},
          {"chunking_strategy[prefix_padding_ms]", "300"}});
  EXPECT_EQ(s.sound().params().vad_threshold(), 0.5);
  EXPECT_EQ(s.sound().params().vad_speech_pad_ms(), 300);
  EXPECT_TRUE(s.sound().params().vad_if_possible());
  s.send({{"chunking_strategy", "{\"type\": \"server_vad\"}"}});
  EXPECT_EQ(s.engine.requests.size(), 2u);
}

// faster-whisper's parameters: texts stay texts whatever they look like, ids are lists.
TEST(Speech, PartsOfASoundInForms) {
  SpeechServer s;
  s.send({{"prefix", "2026"},
          {"initial_prompt", "[music]"},
          {"clip_timestamps", "0,10.5,20"},
          {"multilingual", "True"},
          {"language_detection_segments", "3"},
          {"language_detection_threshold", "0.7"},
          {"max_new_tokens", "5"}});
  ASSERT_EQ(s.engine.requests.size(), 1U);
  const proto::SpeechParams params = s.sound().params();
  EXPECT_EQ(params.prefix(), "2026");
  EXPECT_EQ(params.prompt(), "[music]");
  ASSERT_EQ(params.clip_timestamps_size(), 3);
  EXPECT_EQ(params.clip_timestamps(1), 10.5);
  EXPECT_TRUE(params.multilingual());
  EXPECT_EQ(params.language_detection_segments(), 3);
  EXPECT_EQ(params.language_detection_threshold(), 0.7);
  SpeechServer lists;
  lists.send({{"prefix", "[5, 6]"}, {"initial_prompt", "[7]"}, {"clip_timestamps", "[1, 2]"}});
  EXPECT_EQ(lists.sound().params().prefix_ids().ids_size(), 2);
  EXPECT_EQ(lists.sound().params().prompt_ids().ids_size(), 1);
  EXPECT_EQ(lists.sound().params().clip_timestamps_size(), 2);
  SpeechServer wrong;
  EXPECT_EQ(wrong.send({{"clip_timestamps", "2,1"}})->error_param(), "clip_timestamps");
  EXPECT_EQ(wrong.send({{"clip_timestamps", "soon"}})->error_param(), "clip_timestamps");
  EXPECT_EQ(wrong.send({{"language_detection_segments", "many"}})->error_param(),
            "language_detection_segments");
  EXPECT_EQ(wrong.send({{"hallucination_silence_threshold", "-1"}})->error_param(),
            "hallucination_silence_threshold");
}

TEST(Speech, AFileInAnotherField) {
  SpeechServer s;
  const server::Headers type{{"content-type", "multipart/form-data; boundary=b"}};
  const auto part = [](const std::string& head, const std::string& content) {
    return "--b\r\nContent-Disposition: form-data; " + head + "\r\n\r\n" + content + "\r\n";
  };
  const std::string wrong =
      part("name=\"model\"", "model") + part("name=\"audio\"; filename=\"a.wav\"", "RIFF\xff");
  auto e = s.ask("POST", kTranscriptions, wrong + "--b--\r\n", type);
  EXPECT_EQ(e->error_param(), "file");
  const std::string message = e->json()["error"]["message"];
  EXPECT_NE(message.find("\"audio\""), std::string::npos) << message;
  e = s.ask("POST", kTranscriptions,
            part("name=\"sound\"", std::string(10000, '\xff')) + "--b--\r\n", type);
  EXPECT_EQ(e->error_param(), "file");
  EXPECT_NE(e->head->body.find("sound"), std::string::npos);
  e = s.ask("POST", kTranscriptions,
            part("name=\"file\"; filename=\"b.wav\"", "RIFF") + wrong + "--b--\r\n", type);
  EXPECT_EQ(e->error_param(), "audio") << e->head->body;
}

// Times that the model says behind the end, or before what it said last.
TEST(Speech, TimesAreInOrderAndWithinTheSound) {
  for (const bool stream : {false, true}) {
    SpeechServer s;
    const auto e =
        s.send({{"response_format", "verbose_json"}, {"stream", stream ? "true" : "false"}});
    proto::RequestChunk chunk;
    chunk.mutable_progress()->set_seconds(3.2);
    SpeechServer::add(chunk, 0, "a", 0, 2, true);
    *chunk.mutable_outputs(0)->add_segments() = chunk.outputs(0).segments(0);
    chunk.mutable_outputs(0)->mutable_segments(1)->set_start(1.5);
    chunk.mutable_outputs(0)->mutable_segments(1)->set_end(29.98);
    chunk.set_finished(true);
    s.say(chunk);
    json segments = json::array();
    if (!stream) segments = e->json()["segments"];
    for (const std::string& event : e->events())
      if (event.find("text.segment") != event.npos) segments.push_back(json_from<json>(event));
    ASSERT_EQ(segments.size(), 2u);
    EXPECT_EQ(segments[0]["start"], 0);
    EXPECT_EQ(segments[0]["end"], 2);
    EXPECT_EQ(segments[1]["start"], 2);
    EXPECT_EQ(segments[1]["end"], 3.2);
    EXPECT_TRUE(segments[1]["no_speech_prob"].is_number());
  }
}

}  // namespace
}  // namespace tandem
