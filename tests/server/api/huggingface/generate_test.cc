// text-generation-inference's routes and pipelines of texts, without sockets and without an engine.
#include <gtest/gtest.h>

#include "base/json.h"
#include "tests/support/network/fake_http.h"

namespace tandem {
namespace {

using nlohmann::json;
using test::FakeServer;

constexpr int a = 3 + 'a', b = 3 + 'b', kEnd = 2;  // FakeTokenizer's

// The error's text, which begins with the field.
std::string error_of(const test::FakeExchange& e) {
  return e.json().at("error").get<std::string>();
}

TEST(Generate, TextAlone) {
  FakeServer s;
  const auto e = s.ask("POST", "/generate", R"({"inputs": "source"})");
  ASSERT_EQ(s.engine.requests.size(), 1u);
  EXPECT_EQ(s.engine.requests[0].prompt.encoder().text(), "source");
  EXPECT_EQ(test::shown(s.engine.requests[0].options), test::options({{"max_tokens", 100}}))
      << "text-generation-inference's default, and no log-probabilities";
  s.engine.say(0, "ab", {a, b, kEnd}, "stop");
  e->run_posted();
  ASSERT_EQ(e->status(), 200);
  EXPECT_EQ(e->json(), json({{"generated_text", "ab"}}));
}

TEST(Generate, TheModelsLengthCounts) {
  FakeServer s;
  s.context.sets_length = true;
  s.ask("POST", "/generate", R"({"inputs": "source"})");
  EXPECT_EQ(test::shown(s.engine.requests[0].options), test::options(json::object()));
}

TEST(Generate, Parameters) {
  FakeServer s;
  const auto e = s.ask("POST", "/generate", R"({"inputs": "source", "parameters": {
      "max_new_tokens": 7, "do_sample": true, "temperature": 0.5, "top_k": 9, "top_p": 0.5,
      "typical_p": 0.75, "repetition_penalty": 1.5, "frequency_penalty": 0.25, "seed": 5,
      "stop": ["x"], "truncate": 3, "watermark": false, "best_of": 1, "grammar": null,
      "num_beams": null, "priority": 3, "timeout": 2}})");
  EXPECT_EQ(e->status(), 0) << (e->head ? e->head->body : "");
  ASSERT_EQ(s.engine.requests.size(), 1u);
  EXPECT_EQ(test::shown(s.engine.requests[0].options),
            test::options({{"max_new_tokens", 7},
                           {"do_sample", true},
                           {"temperature", 0.5},
                           {"top_k", 9},
                           {"top_p", 0.5},
                           {"typical_p", 0.75},
                           {"repetition_penalty", 1.5},
                           {"frequency_penalty", 0.25},
                           {"seed", 5},
                           {"stop", {"x"}},
                           {"include_stop_str_in_output", true},
                           {"truncate_prompt_tokens", 3}}));
  EXPECT_EQ(s.engine.requests[0].priority, 3);
  EXPECT_EQ(s.engine.requests[0].timeout, 2);
}

TEST(Generate, SamplesAsTheOriginalDoes) {
  const struct {
    const char* params;
    json options;  // without the seed
    bool seed;
  } cases[] = {{R"({"do_sample": false, "top_k": 5})", {{"top_k", 5}}, true},
               {R"({"temperature": 1.0})", json::object(), false},
               {R"({"temperature": 1.0, "do_sample": false})", {{"do_sample", false}}, false},
               {R"({"temperature": 0})", {{"temperature", 0}}, false},
               {R"({"do_sample": true})", {{"do_sample", true}}, true}};
  for (const auto& c : cases) {
    FakeServer s;
    s.ask("POST", "/generate", R"({"inputs": "a", "parameters": )" + std::string(c.params) + "}");
    ASSERT_EQ(s.engine.requests.size(), 1u) << c.params;
    proto::GenerationOptions options = s.engine.requests[0].options;
    EXPECT_EQ(options.has_seed(), c.seed) << c.params;
    options.clear_seed();
    json expected = c.options;
    expected["max_tokens"] = 100;
    EXPECT_EQ(test::shown(options), test::options(expected)) << c.params;
  }
}

TEST(Generate, Details) {
  FakeServer s;
  s.engine.decoder_prompt = {kEnd, 0};
  const auto e = s.ask("POST", "/generate", R"({"inputs": "source", "parameters": {"details": true,
      "decoder_input_details": true, "return_full_text": true, "do_sample": true, "seed": 7}})");
  EXPECT_EQ(s.engine.requests[0].options.logprobs(), 0);
  EXPECT_TRUE(s.engine.requests[0].options.has_prompt_logprobs());
  s.engine.say(0, "a", {a});
  s.engine.say(0, "b", {b, kEnd}, "stop");
  e->run_posted();
  ASSERT_EQ(e->status(), 200) << e->head->body;
  const json answer = e->json();
  EXPECT_EQ(answer["generated_text"], "sourceab");
  const json& details = answer["details"];
  EXPECT_EQ(details["finish_reason"], "eos_token");
  EXPECT_EQ(details["generated_tokens"], 3);
  EXPECT_EQ(details["seed"], 7);
  EXPECT_EQ(details["prefill"], json_from<json>(R"([{"id": 2, "text": "</s>", "logprob": null},
                            {"id": 0, "text": "<s>", "logprob": null}])"));
  const json tokens = json_from<json>(R"([
      {"id": 100, "text": "a", "logprob": -0.5, "special": false},
      {"id": 101, "text": "b", "logprob": -0.5, "special": false},
      {"id": 2, "text": "</s>", "logprob": -0.5, "special": true}])");
  EXPECT_EQ(details["tokens"], tokens);
  EXPECT_FALSE(details.contains("top_tokens"));
}

TEST(Generate, FinishReasons) {
  const auto reason = [](const std::string& finish, const std::string& stop) {
    FakeServer s;
    const auto e =
        s.ask("POST", "/generate", R"({"inputs": "a", "parameters": {"details": true}})");
    proto::RequestChunk chunk;
    chunk.add_outputs()->set_finish_reason(finish);
    chunk.mutable_outputs(0)->set_stop_reason(stop);
    chunk.set_finished(true);
    s.engine.callbacks.at(s.engine.requests[0].id)(chunk);
    e->run_posted();
    return e->json()["details"]["finish_reason"].get<std::string>();
  };
  EXPECT_EQ(reason("length", ""), "length");
  EXPECT_EQ(reason("stop", ""), "eos_token");
  EXPECT_EQ(reason("stop", "x"), "stop_sequence");
}

TEST(Generate, TheBestOfSeveral) {
  FakeServer s;
  const auto e = s.ask("POST", "/generate",
                       R"({"inputs": "a", "parameters": {"best_of": 3, "top_p": 0.5,
                           "details": true}})");
  const auto& options = s.engine.requests[0].options;
  EXPECT_EQ(options.n(), 3);
  EXPECT_TRUE(options.do_sample() && options.has_seed() && options.has_logprobs());
  const double sums[] = {-3, -1, -2};
  for (int i = 0; i < 3; ++i) {
    proto::RequestChunk chunk;
    proto::CompletionChunk& news = *chunk.add_outputs();
    news.set_index(i);
    news.set_text(std::string(static_cast<size_t>(i) + 1, 'a'));
    for (int k = 0; k <= i; ++k) {  // longer ones: the mean counts, not the sum
      news.add_token_ids(a);
      proto::TokenLogprob& token = *news.add_logprobs()->add_top();
      token.set_token_id(a);
      token.set_logprob(static_cast<float>(sums[i]));
    }
    news.set_finish_reason("length");
    chunk.set_finished(i == 2);
    s.engine.callbacks.at(s.engine.requests[0].id)(chunk);
  }
  e->run_posted();
  const json answer = e->json();
  EXPECT_EQ(answer["generated_text"], "aa");
  const json& others = answer["details"]["best_of_sequences"];
  ASSERT_EQ(others.size(), 2u);
  EXPECT_EQ(others[0]["generated_text"], "a");
  EXPECT_EQ(others[1]["generated_text"], "aaa");
  EXPECT_EQ(others[1]["generated_tokens"], 3);
}

TEST(Generate, Stream) {
  FakeServer s;
  const auto e =
      s.ask("POST", "/generate_stream", R"({"inputs": "source", "parameters": {"details": true}})");
  EXPECT_FALSE(e->head) << "an error could still come";
  s.engine.say(0, "a", {a});
  s.engine.say(0, "", {kEnd - 1});
  s.engine.say(0, "b", {b, kEnd}, "stop");
  e->run_posted();
  EXPECT_EQ(e->head->content_type, "text/event-stream; charset=utf-8");
  EXPECT_TRUE(e->ended);
  const auto events = e->events();
  ASSERT_EQ(events.size(), 4u) << "an event for each token, and no [DONE]";
  EXPECT_EQ(json_from<json>(events[0]),
            json_from<json>(R"({"index": 1, "token": {"id": 100, "text": "a", "logprob": -0.5,
                            "special": false}, "generated_text": null, "details": null})"));
  EXPECT_EQ(json_from<json>(events[1])["token"]["special"], true);
  EXPECT_EQ(json_from<json>(events[2])["token"]["text"], "b");
  EXPECT_EQ(json_from<json>(events[3]),
            json_from<json>(R"({"index": 4, "token": {"id": 2, "text": "</s>", "logprob": -0.5,
                            "special": true}, "generated_text": "ab", "details": {
                            "finish_reason": "eos_token", "generated_tokens": 4, "seed": null,
                            "input_length": 7}})"));
}

// A time limit may end a text without a token.
TEST(Generate, AStreamAlwaysHasItsEnd) {
  FakeServer s;
  const auto e = s.ask("POST", "/generate_stream", R"({"inputs": "source"})");
  s.engine.say(0, "a", {a});
  s.engine.say(0, "", {}, "length");
  e->run_posted();
  const auto events = e->events();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(json_from<json>(events[1])["generated_text"], "a");
  EXPECT_EQ(json_from<json>(events[1])["token"]["text"], "");
  EXPECT_TRUE(json_from<json>(events[1])["details"].is_null()) << "not asked for";
}

TEST(Generate, StreamsEndWithErrorsAndDepartures) {
  FakeServer s;
  const auto e = s.ask("POST", "/generate_stream", R"({"inputs": "source"})");
  s.engine.say(0, "a", {a});
  s.engine.fail(0, "internal_error");
  e->run_posted();
  const auto events = e->events();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(json_from<json>(events[1]), json({{"error", "because"}, {"error_type", "generation"}}));
  EXPECT_TRUE(e->ended);

  const auto gone = s.ask("POST", "/", R"({"inputs": "source", "stream": true})");
  s.engine.say(1, "a", {a});
  gone->gone();
  ASSERT_EQ(s.engine.cancelled.size(), 1u);
  gone->run_posted();
  EXPECT_EQ(s.context.prompts_under_way, 0);
}

TEST(Generate, OverloadAndOtherErrorsOfTheEngine) {
  const std::tuple<const char*, int, const char*> cases[] = {
      {"invalid_request_error", 422, "validation"},
      {"overloaded_error", 429, "overloaded"},
      {"unavailable_error", 503, "unavailable"},
      {"timeout_error", 408, "timeout"},
      {"internal_error", 424, "generation"}};
  for (const auto& [type, status, error_type] : cases) {
    FakeServer s;
    const auto e = s.ask("POST", "/generate", R"({"inputs": "a"})");
    s.engine.fail(0, type, "prompt");
    e->run_posted();
    EXPECT_EQ(e->status(), status) << type;
    EXPECT_EQ(e->json(), json({{"error", "inputs: because"}, {"error_type", error_type}}));
  }
  FakeServer s;
  s.engine.full.emplace();
  s.engine.full->set_type("overloaded_error");
  s.engine.full->set_message("full");
  const auto e = s.ask("POST", "/", R"({"inputs": "a"})");
  EXPECT_EQ(e->status(), 429);
  EXPECT_NE(e->header("retry-after"), nullptr);
  EXPECT_EQ(e->json()["error_type"], "overloaded");
}

TEST(Generate, RootAnswersAsEndpointsDo) {
  FakeServer s;
  const auto ask = [&](const char* body) {
    const auto e = s.ask("POST", "/", body);
    const size_t last = s.engine.requests.size() - 1;
    s.engine.say(last, "ab", {a, b}, "stop");
    e->run_posted();
    return e->json();
  };
  EXPECT_EQ(ask(R"({"inputs": "x", "stream": false})"),
            json_from<json>(R"([{"generated_text": "ab"}])"));
  EXPECT_EQ(ask(R"({"inputs": "x"})"),
            json_from<json>(R"([{"generated_text": "ab", "summary_text": "ab",
                             "translation_text": "ab"}])"));
  const auto two = s.ask("POST", "/", R"({"inputs": ["x", "y"], "stream": false})");
  const size_t at = s.engine.requests.size() - 2;
  s.engine.say(at + 1, "2", {a}, "stop");
  s.engine.say(at, "1", {a}, "stop");
  two->run_posted();
  EXPECT_EQ(two->json(), json_from<json>(R"([{"generated_text": "1"}, {"generated_text": "2"}])"));
}

TEST(Pipelines, NamesAndShapes) {
  const std::pair<const char*, const char*> cases[] = {{"summarization", "summary_text"},
                                                       {"translation", "translation_text"},
                                                       {"text2text-generation", "generated_text"},
                                                       {"text-generation", "generated_text"}};
  for (const auto& [task, key] : cases) {
    FakeServer s;
    s.context.tasks = {"summarization"};
    const auto e = s.ask("POST", "/pipeline/" + std::string(task),
                         R"({"inputs": ["x", "y"], "parameters": {"num_beams": 2,
                             "truncation": "longest_first", "clean_up_tokenization_spaces": true,
                             "generate_parameters": {"num_return_sequences": 2}}})");
    ASSERT_EQ(s.engine.requests.size(), 2u) << e->head->body;
    const auto& options = s.engine.requests[0].options;
    EXPECT_EQ(options.num_return_sequences(), 2);
    EXPECT_EQ(options.truncate_prompt_tokens(), -1);
    EXPECT_EQ(options.task(), std::string(task) == "summarization" ? task : "");
    for (size_t i = 0; i < 2; ++i)
      for (int k = 0; k < 2; ++k)
        s.engine.say(i, std::to_string(2 * i + static_cast<size_t>(k)), {a}, "stop", k, k == 1);
    e->run_posted();
    EXPECT_EQ(e->json(), json::array({json::array({{{key, "0"}}, {{key, "1"}}}),
                                      json::array({{{key, "2"}}, {{key, "3"}}})}));
  }
}

TEST(Generate, ErrorsNameTheField) {
  const struct {
    const char *path, *body, *field;
  } cases[] = {
      {"/generate", R"({})", "inputs"},
      {"/generate", R"({"inputs": 5})", "inputs"},
      {"/generate", R"({"inputs": ["a"]})", "inputs"},
      {"/generate", R"({"inputs": "a", "stream": true})", "stream"},
      {"/generate", R"({"inputs": "a", "nonsense": 1})", "nonsense"},
      {"/generate", R"({"inputs": "a", "parameters": 1})", "parameters"},
      {"/generate", R"({"inputs": "a", "parameters": {"top_p": 2}})", "parameters.top_p"},
      {"/generate", R"({"inputs": "a", "parameters": {"stop": 5}})", "parameters.stop"},
      {"/generate", R"({"inputs": "a", "parameters": {"truncate": "x"}})", "parameters.truncate"},
      {"/generate", R"({"inputs": "a", "parameters": {"details": 1}})", "parameters.details"},
      {"/generate", R"({"inputs": "a", "parameters": {"watermark": true}})",
       "parameters.watermark"},
      {"/generate", R"({"inputs": "a", "parameters": {"grammar": {"type": "json"}}})",
       "parameters.grammar"},
      {"/generate", R"({"inputs": "a", "parameters": {"adapter_id": "x"}})",
       "parameters.adapter_id"},
      {"/generate", R"({"inputs": "a", "parameters": {"best_of": 2}})", "parameters.best_of"},
      {"/generate",
       R"({"inputs": "a", "parameters": {"best_of": 2, "do_sample": true, "seed": 1}})",
       "parameters.seed"},
      {"/generate", R"({"inputs": "a", "parameters": {"best_of": 1000000}})", "parameters.best_of"},
      {"/generate", R"({"inputs": "a", "parameters": {"n": 2, "do_sample": true}})",
       "parameters.n"},
      {"/generate", R"({"inputs": "a", "parameters": {"top_n_tokens": 101}})",
       "parameters.top_n_tokens"},
      {"/generate_stream", R"({"inputs": "a", "parameters": {"best_of": 2, "do_sample": true}})",
       "parameters.best_of"},
      {"/generate_stream", R"({"inputs": "a", "parameters": {"decoder_input_details": true}})",
       "parameters.decoder_input_details"},
      {"/", R"({"inputs": ["a"], "stream": true})", "inputs"},
      {"/", R"({"inputs": ["a"], "parameters": {"details": true}})", "parameters.details"},
      {"/", R"({"inputs": "a", "options": {"x": 1}})", "options.x"},
      {"/pipeline/summarization", R"({"inputs": "a", "parameters": {"truncation": "only_second"}})",
       "parameters.truncation"},
      {"/pipeline/summarization",
       R"({"inputs": "a", "parameters": {"top_k": 5, "generate_parameters": {"top_k": 6}}})",
       "parameters.generate_parameters.top_k"},
      {"/pipeline/summarization",
       R"({"inputs": "a", "parameters": {"generate_parameters": {"num_beams": "x"}}})",
       "parameters.generate_parameters.num_beams"},
      {"/pipeline/feature-extraction", R"({"inputs": [["x"]]})", "inputs[0]"},
      {"/pipeline/feature-extraction", R"({"inputs": "a", "prompt_name": "query"})", "prompt_name"},
      {"/pipeline/feature-extraction", R"({"inputs": "a", "truncation_direction": "left"})",
       "truncation_direction"},
  };
  for (const auto& c : cases) {
    FakeServer s;
    const auto e = s.ask("POST", c.path, c.body);
    ASSERT_EQ(e->status(), 422) << c.path << c.body;
    EXPECT_EQ(error_of(*e).substr(0, std::string(c.field).size() + 1), std::string(c.field) + ":")
        << c.body << error_of(*e);
    EXPECT_EQ(e->json()["error_type"], "validation");
    EXPECT_EQ(s.context.prompts_under_way, 0);
  }
  FakeServer s;
  EXPECT_NE(error_of(*s.ask("POST", "/generate",
                            R"({"inputs": "a", "parameters": {"max_new_tokns": 1}})"))
                .find("max_new_tokens"),
            std::string::npos)
      << "an unknown name gets the nearest one";
  s.config.api_keys = {"k"};
  EXPECT_EQ(s.ask("POST", "/generate", R"({"inputs": "a"})")->status(), 401);
  EXPECT_EQ(s.ask("POST", "/pipeline/none", "{}")->json()["error_type"], "not_found");
  EXPECT_EQ(s.ask("GET", "/")->status(), 200) << "the page";
}

TEST(Pipelines, FeatureExtraction) {
  FakeServer s;
  const auto e = s.ask("POST", "/pipeline/feature-extraction",
                       R"({"inputs": ["x", "y"], "normalize": false, "truncate": true})");
  ASSERT_EQ(s.engine.requests.size(), 2u);
  EXPECT_FALSE(s.engine.requests[0].prompt.pooling().normalize());
  EXPECT_EQ(s.engine.requests[1].options.truncate_prompt_tokens(), -1);
  for (size_t i = 0; i < 2; ++i) {
    proto::RequestChunk chunk;
    chunk.mutable_embedding()->add_values(static_cast<float>(i));
    chunk.set_finished(true);
    s.engine.callbacks.at(s.engine.requests[i].id)(chunk);
  }
  e->run_posted();
  e->run_posted();
  EXPECT_EQ(e->json(), json_from<json>("[[0.0], [1.0]]"));
}

TEST(Generate, Info) {
  FakeServer s;
  const json info = s.ask("GET", "/info")->json();
  EXPECT_EQ(info["model_id"], "model");
  EXPECT_EQ(info["model_pipeline_tag"], "text2text-generation");
  EXPECT_EQ(info["max_input_tokens"], 512);
  EXPECT_EQ(info["version"], "1.2.3");
}

}  // namespace
}  // namespace tandem
