// /v1/audio/transcriptions and /v1/audio/translations without sockets and without an engine.
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/json.h"
#include "tests/support/network/speech_server.h"

namespace tandem {
namespace {

using nlohmann::json;
using test::FakeServer;
using test::kTranscriptions;
using test::kTranslations;
using test::sound_form;
using test::SpeechServer;
using Fields = test::FormFields;

TEST(Speech, AnswersInJson) {
  SpeechServer s;
  const std::string file("RI\0\r\n--\r\nFF", 11);
  const auto e = s.send({{"model", "alias"}, {"language", "de"}}, kTranscriptions, file);
  ASSERT_EQ(s.engine.requests.size(), 1u);
  EXPECT_EQ(s.file(), file);
  EXPECT_EQ(s.engine.requests[0].prompt.encoder().field(), "file");
  EXPECT_EQ(s.sound().params().ShortDebugString(), "language: \"de\" task: \"transcribe\"");
  s.say_all(false);
  ASSERT_EQ(e->status(), 200) << e->head->body;
  EXPECT_EQ(e->head->content_type, "application/json");
  EXPECT_EQ(e->json(), json({{"text", "Guten Tag, Welt."},
                             {"usage", {{"type", "duration"}, {"seconds", 4}}}}));
  EXPECT_EQ(s.context.prompts_under_way, 0);
}

TEST(Speech, Formats) {
  const struct {
    const char *name, *type, *body;
    bool times;
  } cases[] = {{"text", "text/plain; charset=utf-8", "Guten Tag, Welt.\n", false},
               {"srt", "text/plain; charset=utf-8",
                "1\n00:00:00,000 --> 00:00:02,000\nGuten Tag,\n\n"
                "2\n00:00:02,000 --> 00:00:03,200\nWelt.\n\n",
                true},
               {"vtt", "text/vtt; charset=utf-8",
                "WEBVTT\n\n00:00:00.000 --> 00:00:02.000\nGuten Tag,\n\n"
                "00:00:02.000 --> 00:00:03.200\nWelt.\n\n",
                true}};
  for (const auto& c : cases) {
    SpeechServer s;
    const auto e = s.send({{"response_format", c.name}});
    EXPECT_EQ(s.sound().params().return_timestamps(), c.times) << c.name;
    s.say_all(true);  // long sound has times in any case
    EXPECT_EQ(e->head->content_type, c.type);
    EXPECT_EQ(e->head->body, c.body);
  }
}

TEST(Speech, VerboseJson) {
  SpeechServer s;
  const auto e = s.send({{"response_format", "verbose_json"}});
  s.say_all(true);
  const json answer = e->json();
  EXPECT_EQ(answer["task"], "transcribe");
  EXPECT_EQ(answer["language"], "german");
  EXPECT_EQ(answer["duration"], 3.2);
  EXPECT_EQ(answer["text"], "Guten Tag, Welt.");
  ASSERT_EQ(answer["segments"].size(), 2u);
  EXPECT_EQ(answer["segments"][1]["id"], 1);
  EXPECT_EQ(answer["segments"][1]["start"], 2);
  EXPECT_EQ(answer["segments"][1]["text"], " Welt. ");
  EXPECT_TRUE(s.sound().params().no_speech_prob());
  for (const char* number :
       {"seek", "temperature", "avg_logprob", "compression_ratio", "no_speech_prob"})
    EXPECT_TRUE(answer["segments"][0][number].is_number()) << number;
  EXPECT_FALSE(answer.contains("words"));
  EXPECT_EQ(answer["usage"]["seconds"], 4);
}

TEST(Speech, Translations) {
  SpeechServer s;
  const auto e =
      s.send({{"response_format", "verbose_json"}, {"to_language", "en"}}, kTranslations);
  EXPECT_EQ(s.sound().params().task(), "translate");
  s.say_all(true);
  EXPECT_EQ(e->json()["task"], "translate");
  EXPECT_EQ(e->json()["language"], "english") << "of what is written";
}

TEST(Speech, Stream) {
  SpeechServer s;
  const auto e = s.send({{"stream", "true"}, {"timestamp_granularities[]", "segment"}});
  EXPECT_TRUE(s.sound().params().return_timestamps());
  EXPECT_FALSE(e->head) << "an error could still come";
  s.say_all(true);
  EXPECT_EQ(e->head->content_type, "text/event-stream; charset=utf-8");
  const auto events = e->events();
  ASSERT_EQ(events.size(), 6u) << e->stream;
  EXPECT_EQ(json_from<json>(events[0]),
            json({{"type", "transcript.text.delta"}, {"delta", "Guten Tag,"}}));
  const json segment = json_from<json>(events[1]);
  EXPECT_EQ(segment["type"], "transcript.text.segment");
  EXPECT_EQ(segment["id"], "seg_0");
  EXPECT_EQ(segment["end"], 2);
  EXPECT_EQ(json_from<json>(events[2])["delta"], " Welt.") << "blanks at the end are no text yet";
  EXPECT_EQ(json_from<json>(events[3])["id"], "seg_1");
  EXPECT_EQ(json_from<json>(events[4]),
            json({{"type", "transcript.text.done"},
                  {"text", "Guten Tag, Welt."},
                  {"language", "german"},
                  {"duration", 3.2},
                  {"usage",
                   {{"type", "tokens"},
                    {"seconds", 4},
                    {"input_tokens", 0},
                    {"input_token_details", {{"audio_tokens", 0}, {"text_tokens", 0}}},
                    {"output_tokens", 2},
                    {"total_tokens", 2}}}}));
  EXPECT_EQ(events[5], "[DONE]");
  EXPECT_TRUE(e->ended);
}

TEST(Speech, StreamsWithoutTimesHaveTextOnly) {
  SpeechServer s;
  const auto e = s.send({{"stream", "True"}});
  s.say_all(true);
  EXPECT_EQ(e->events().size(), 4u) << e->stream;
  // Silence.
  const auto silent = s.send({{"stream", "true"}});
  proto::RequestChunk last;
  last.set_finished(true);
  s.say(last);
  EXPECT_EQ(json_from<json>(silent->events()[0])["text"], "");
  EXPECT_EQ(silent->events().size(), 2u);
}

TEST(Speech, WhatComesTwiceCountsOnce) {
  SpeechServer s;
  const auto e = s.send({{"response_format", "verbose_json"}});
  proto::RequestChunk chunk;
  SpeechServer::add(chunk, 0, "a", 0, 1, true);
  s.say(chunk);
  proto::RequestChunk again;  // as after a worker's death: from the first segment on
  SpeechServer::add(again, 0, "", 0, 1, true);
  *again.mutable_outputs(0)->add_segments() = again.outputs(0).segments(0);
  again.set_finished(true);
  s.say(again);
  EXPECT_EQ(e->json()["segments"].size(), 2u);
}

TEST(Speech, WhatTheEngineIsAsked) {
  SpeechServer s;
  s.send({{"temperature", "0.2"},
          {"prompt", "5"},
          {"language", ""},
          {"num_beams", "3"},
          {"seed", "7"},
          {"max_completion_tokens", "40"},
          {"suppress_tokens[]", "1"},
          {"suppress_tokens[]", "2"},
          {"condition_on_prev_tokens", "true"},
          {"priority", "-2"},
          {"timeout", "4.5"},
          {"user", "u"},
          {"stream_include_usage", "true"},
          {"chunking_strategy", "auto"},
          {"hotwords", ""}});
  const auto& r = s.engine.requests.back();
  EXPECT_EQ(s.sound().params().ShortDebugString(),
            "task: \"transcribe\" condition_on_prev_tokens: true prompt: \"5\" temperature: 0.2 "
            "vad_filter: true vad_if_possible: true");
  EXPECT_EQ(test::shown(r.options),
            test::options(
                {{"num_beams", 3}, {"seed", 7}, {"max_tokens", 40}, {"suppress_tokens", {1, 2}}}));
  EXPECT_EQ(r.priority, -2);
  EXPECT_EQ(r.timeout, 4.5);
  s.send({{"temperature", "[0, 0.2, 0.4]"},
          {"logprob_threshold", "-1"},
          {"use_beam_search", "true"},
          {"n", "5"}});
  EXPECT_EQ(s.sound().params().temperature_size(), 3);
  EXPECT_EQ(s.sound().params().logprob_threshold(), -1);
  EXPECT_EQ(s.engine.requests.back().options.num_beams(), 5);
}

TEST(Speech, AModelOfOneLanguageIsNotToldIt) {
  SpeechServer s;
  s.context.speech_tasks = {"transcribe"};
  s.context.speech_languages = {};
  s.send({});
  EXPECT_FALSE(s.sound().params().has_task());
  const auto e = s.send({}, kTranslations);
  EXPECT_EQ(e->status(), 400);
  EXPECT_EQ(e->error_param(), "model");
}

TEST(Speech, BadFields) {
  const struct {
    Fields fields;
    const char* param;
  } cases[] = {{{{"model", "other"}}, "model"},
               {{{"response_format", "xml"}}, "response_format"},
               {{{"response_format", "diarized_json"}}, "response_format"},
               {{{"response_format", "srt"}, {"stream", "true"}}, "response_format"},
               {{{"response_format", "srt"}, {"return_timestamps", "false"}}, "return_timestamps"},
               {{{"stream", "yes"}}, "stream"},
               {{{"timestamp_granularities[]", "word"}}, "timestamp_granularities"},
               {{{"timestamp_granularities", "5"}}, "timestamp_granularities"},
               {{{"timestamp_granularities", "[\"segment\""}}, "timestamp_granularities"},
               {{{"timestamp_granularities[]", "letter"}, {"response_format", "verbose_json"}},
                "timestamp_granularities"},
               {{{"temperature", "hot"}}, "temperature"},
               {{{"temperature", "-1"}}, "temperature"},
               {{{"timeout", "0"}}, "timeout"},
               {{{"n", "2"}}, "n"},
               {{{"task", "translate"}}, "task"},
               {{{"to_language", "de"}}, "to_language"},
               {{{"keywords", "Tandem"}}, "keywords"},
               {{{"vad_parameters", "{\"threshold\": 2}"}}, "vad_threshold"},
               {{{"include[]", "logprobs"}}, "include"},
               {{{"chunking_strategy", "server_vad"}}, "chunking_strategy"},
               {{{"chunking_strategy[type]", "silence"}}, "chunking_strategy"},
               {{{"chunking_strategy[threshold]", "0.5"}}, "chunking_strategy"},
               {{{"chunking_strategy", "auto"}, {"chunking_strategy[type]", "server_vad"}},
                "chunking_strategy"},
               {{{"max_completion_tokens", "-1"}}, "max_completion_tokens"},
               {{{"max_completion_tokens", "many"}}, "max_completion_tokens"},
               {{{"known_speaker_names[]", "me"}}, "known_speaker_names"},
               {{{"max_completion_tokens", "1"}, {"max_new_tokens", "1"}}, "max_completion_tokens"},
               {{{"langauge", "de"}}, "langauge"},
               {{{"prompt", "a"}, {"prompt", "b"}}, "prompt"},
               {{{"prompt", "a"}, {"prompt[]", "b"}}, "prompt"},
               {{{"prompt", "a\xff"}}, "prompt"},
               {{{"prompt", std::string(70000, 'a')}}, "prompt"},
               {{{"file", "RIFF"}}, "file"},
               {{{"num_beams", "[[[[[[[["}}, "num_beams"},
               {{{"suppress_tokens", "[1, 2"}}, "suppress_tokens"}};
  SpeechServer s;
  for (const auto& c : cases) {
    const auto e = s.send(c.fields);
    EXPECT_TRUE(e->status() == 400 || e->status() == 404) << c.param << e->status();
    EXPECT_EQ(e->error_param(), c.param) << e->head->body;
  }
  EXPECT_EQ(s.send({}, kTranscriptions, "")->error_param(), "file");
  EXPECT_EQ(
      s.ask("POST", kTranscriptions, "{}", {{"content-type", "application/json"}})->error_param(),
      "content-type");
  EXPECT_EQ(s.ask("POST", kTranscriptions, sound_form({}))->error_param(), "content-type");
  const server::Headers type{{"content-type", "multipart/form-data; boundary=b"}};
  const std::string whole = sound_form({{"language", "de"}});
  for (const size_t size : {whole.size() - 8, whole.size() / 2, size_t{9}, size_t{0}})
    EXPECT_EQ(s.ask("POST", kTranscriptions, whole.substr(0, size), type)->error_param(), "body");
  EXPECT_EQ(s.ask("POST", kTranscriptions,
                  "--b\r\nContent-Disposition: form-data; name=model\r\n\r\nmodel\r\n--b--", type)
                ->error_param(),
            "file");
  EXPECT_TRUE(s.engine.requests.empty());
  EXPECT_EQ(s.context.prompts_under_way, 0);
}

// What the engine finds fault with, by the client's name for it.
TEST(Speech, ErrorsOfTheEngine) {
  SpeechServer s;
  const std::pair<const char*, const char*> cases[] = {{"file", "file"},
                                                       {"prompt.multi_modal_data.audio", "file"},
                                                       {"language", "language"},
                                                       {"return_timestamps", "response_format"}};
  for (const auto& [param, expected] : cases) {
    const auto e = s.send({{"response_format", "srt"}});
    s.engine.fail(s.engine.requests.size() - 1, "invalid_request_error", param);
    e->run_posted();
    EXPECT_EQ(e->status(), 400);
    EXPECT_EQ(e->error_param(), expected);
  }
  const struct {
    Fields fields;
    const char *ours, *theirs;
  } named[] = {{{{"max_completion_tokens", "5"}}, "max_tokens", "max_completion_tokens"},
               {{{"max_tokens", "5"}}, "max_tokens", "max_tokens"},
               {{{"use_beam_search", "true"}, {"n", "3"}}, "num_beams", "n"},
               {{{"use_beam_search", "true"}}, "num_beams", "use_beam_search"},
               {{{"num_beams", "3"}}, "num_beams", "num_beams"},
               {{}, "task", "model"},
               {{{"response_format", "verbose_json"}}, "return_timestamps", "response_format"}};
  for (const auto& c : named) {
    const auto e = s.send(c.fields);
    s.engine.fail(s.engine.requests.size() - 1, "invalid_request_error", c.ours);
    e->run_posted();
    EXPECT_EQ(e->error_param(), c.theirs);
    EXPECT_EQ(e->json()["error"]["message"].get<std::string>(),
              std::string(c.theirs) + ": because");
  }
  const auto e = s.send({{"stream", "true"}});
  proto::RequestChunk chunk;
  SpeechServer::add(chunk, 0, "a", 0, 1, true);
  s.say(chunk);
  s.engine.fail(s.engine.requests.size() - 1, "invalid_request_error", "file");
  e->run_posted();
  EXPECT_EQ(json_from<json>(e->events()[1])["error"]["param"], "file");
  EXPECT_EQ(e->events()[2], "[DONE]");
  EXPECT_EQ(s.context.prompts_under_way, 0);
}

TEST(Speech, ClientsThatGoAreCancelled) {
  SpeechServer s;
  const auto e = s.send({{"stream", "true"}});
  proto::RequestChunk chunk;
  SpeechServer::add(chunk, 0, "a", 0, 1, true);
  s.say(chunk);
  e->gone();
  EXPECT_EQ(s.engine.cancelled.size(), 1u);
  e->run_posted();
  EXPECT_EQ(s.context.prompts_under_way, 0);
}

TEST(Speech, ModelsThatHearNothing) {
  FakeServer s;
  const auto e = s.ask("POST", kTranscriptions, sound_form({}),
                       {{"content-type", "multipart/form-data; boundary=b"}});
  EXPECT_EQ(e->status(), 400);
  EXPECT_EQ(e->error_param(), "model");
  server::HttpRequest head;
  head.method = "POST";
  head.path = kTranscriptions;
  EXPECT_TRUE(s.application.admit(head).refusal) << "before its body is read";
  EXPECT_FALSE(s.ask("GET", "/v1/models")->json()["data"][0].contains("speech_tasks"));
}

// Browsers send the forms of any page without a preflight.
TEST(Speech, FormsOfOtherSites) {
  SpeechServer s;
  s.config.allowed_origins = {"https://a.example"};
  const auto admit = [&](const char* site, const char* origin) {
    server::HttpRequest head;
    head.method = "POST";
    head.path = kTranscriptions;
    head.headers = {{"sec-fetch-site", site}, {"origin", origin}};
    const auto refusal = s.application.admit(head).refusal;
    return refusal ? refusal->status : 0;
  };
  EXPECT_EQ(admit("cross-site", "https://b.example"), 403);
  EXPECT_EQ(admit("same-site", "https://b.example"), 403);
  EXPECT_EQ(admit("cross-site", "https://a.example"), 0);
  EXPECT_EQ(admit("same-origin", "https://here"), 0) << "the server's own page";
  EXPECT_EQ(admit("none", "null"), 0);
}

TEST(Speech, WhoHearsSaysSo) {
  SpeechServer s;
  server::HttpRequest head;
  head.method = "POST";
  head.path = kTranscriptions;
  EXPECT_TRUE(s.application.admit(head).audio);
  head.path = "/v1/completions";
  EXPECT_FALSE(s.application.admit(head).audio);
  const json model = s.ask("GET", "/v1/models")->json()["data"][0];
  EXPECT_EQ(model["speech_tasks"], json({"transcribe", "translate"}));
  EXPECT_EQ(model["speech_languages"], json({"de", "en"}));
  const json paths = s.ask("GET", "/openapi.json")->json()["paths"];
  for (const char* path : {kTranscriptions, kTranslations})
    EXPECT_TRUE(paths[path]["post"]["requestBody"]["content"].contains("multipart/form-data"));
}

TEST(Speech, SoundIsCounted) {
  SpeechServer s;
  s.send({});
  s.say_all(false);
  const std::string text = s.ask("GET", "/metrics")->head->body;
  for (const char* line : {"tandem:audio_seconds_total{model_name=\"model\"} 3.2\n",
                           "tandem:request_audio_seconds_count{model_name=\"model\"} 1\n",
                           "tandem:generation_tokens_total{model_name=\"model\"} 2\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
}

}  // namespace
}  // namespace tandem
