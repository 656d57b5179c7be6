// Speech recognition as HuggingFace's endpoints have it, without sockets and without an engine.
#include <gtest/gtest.h>

#include "base/json.h"
#include "tests/support/network/speech_server.h"

namespace tandem {
namespace {

using nlohmann::json;
using test::SpeechServer;

constexpr const char* kTask = "/pipeline/automatic-speech-recognition";

std::shared_ptr<test::FakeExchange> ask(SpeechServer& s, const std::string& path,
                                        const std::string& parameters) {
  return s.ask("POST", path, R"({"inputs": "UklGRg==", "parameters": )" + parameters + "}",
               {{"content-type", "application/json"}});
}

TEST(Recognition, TextAlone) {
  for (const char* path : {kTask, "/"}) {
    SpeechServer s;
    const auto e = ask(s, path, "{}");
    ASSERT_EQ(s.engine.requests.size(), 1u) << e->head->body;
    EXPECT_EQ(s.file(), "RIFF");
    s.say_all(true);
    EXPECT_EQ(e->json(), json({{"text", " Guten Tag, Welt. "}}));
  }
}

TEST(Recognition, Times) {
  SpeechServer s;
  const auto e = ask(s, kTask, R"({"return_timestamps": true, "task": "translate",
                                   "generation_parameters": {"num_beams": 2}, "language": "de"})");
  ASSERT_EQ(s.engine.requests.size(), 1u) << e->head->body;
  EXPECT_EQ(s.sound().params().task(), "translate");
  EXPECT_TRUE(s.sound().params().return_timestamps());
  EXPECT_EQ(s.engine.requests[0].options.num_beams(), 2);
  s.say_all(true);
  const json chunks = json_from<json>(R"([{"text": " Guten Tag,", "timestamp": [0.0, 2.0]},
                                      {"text": " Welt. ", "timestamp": [2.0, 3.2]}])");
  EXPECT_EQ(e->json()["chunks"], chunks);
}

TEST(Recognition, TimesOfWords) {
  SpeechServer s;
  const auto e = ask(s, kTask, R"({"return_timestamps": "word"})");
  ASSERT_EQ(s.engine.requests.size(), 1u) << e->head->body;
  EXPECT_TRUE(s.sound().params().return_timestamps());
  EXPECT_TRUE(s.sound().params().return_token_timestamps());
  s.say_all(true);
  const json chunks = json_from<json>(R"([{"text": " Guten Tag,", "timestamp": [0.0, 2.0]},
                                      {"text": " Welt. ", "timestamp": [2.0, 3.2]}])");
  EXPECT_EQ(e->json()["chunks"], chunks);  // (each text is one word to the fake engine)
}

TEST(Recognition, FormsAndFiles) {
  SpeechServer s;
  s.send({{"language", "de"}}, kTask, "RIFX");
  ASSERT_EQ(s.engine.requests.size(), 1u);
  EXPECT_EQ(s.file(), "RIFX");
  EXPECT_EQ(s.sound().params().language(), "de");
  // What the connection is told before it reads the body.
  const auto admit = [&](const char* path, const char* type) {
    server::HttpRequest head;
    head.method = "POST";
    head.path = path;
    if (type != nullptr) head.headers = {{"content-type", type}};
    return s.application.admit(head);
  };
  for (const char* path : {kTask, "/"}) {
    EXPECT_TRUE(admit(path, "audio/flac").audio && admit(path, "audio/flac").file) << path;
    EXPECT_TRUE(admit(path, nullptr).file) << path;
    EXPECT_FALSE(admit(path, "application/json").audio) << path;
  }
  EXPECT_FALSE(admit("/v1/audio/transcriptions", "audio/flac").file);
  s.context.speech_tasks.clear();
  EXPECT_FALSE(admit("/", "audio/flac").audio) << "a model of texts";
}

TEST(Recognition, Refusals) {
  const struct {
    const char *body, *field;
  } cases[] = {
      {R"({})", "inputs"},
      {R"({"inputs": "no base64!"})", "inputs"},
      {R"({"inputs": ""})", "inputs"},
      {R"({"inputs": "UklGRg==", "stream": true})", "stream"},
      {R"({"inputs": "UklGRg==", "x": 1})", "x"},
      {R"({"inputs": "UklGRg==", "parameters": {"return_timestamps": "sentence"}})",
       "parameters.return_timestamps"},
      {R"({"inputs": "UklGRg==", "parameters": {"task": "sing"}})", "parameters.task"},
      {R"({"inputs": "UklGRg==", "parameters": {"response_format": "srt"}})",
       "parameters.response_format"},
      {R"({"inputs": "UklGRg==", "parameters": {"generation_parameters": {"num_beams": "x"}}})",
       "parameters.generation_parameters.num_beams"}};
  for (const auto& c : cases) {
    SpeechServer s;
    const auto e = s.ask("POST", kTask, c.body, {{"content-type", "application/json"}});
    ASSERT_EQ(e->status(), 422) << c.body;
    const std::string error = e->json()["error"];
    EXPECT_EQ(error.substr(0, std::string(c.field).size() + 1), std::string(c.field) + ":")
        << error;
  }
  SpeechServer s;
  const auto e = ask(s, kTask, "{}");
  s.engine.fail(0, "invalid_request_error", "file");
  e->run_posted();
  EXPECT_EQ(e->json()["error"], "inputs: because");
  EXPECT_EQ(
      s.ask("POST", "/", test::sound_form({}),
            {{"content-type", "multipart/form-data; boundary=b"}, {"sec-fetch-site", "cross-site"}})
          ->status(),
      403)
      << "pages of others send no files";
  test::FakeServer text;
  EXPECT_EQ(text.ask("POST", kTask, R"({"inputs": "UklGRg=="})")->status(), 422);
}

}  // namespace
}  // namespace tandem
