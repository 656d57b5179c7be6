// Requests of an application whose spans are collected.
#include "server/telemetry/request_spans.h"

#include <gtest/gtest.h>

#include "tests/support/network/fake_collector.h"
#include "tests/support/network/fake_http.h"

namespace tandem::server::request_spans_test {
namespace {

using nlohmann::json;
using test::attributes_of;
using test::FakeCollector;
using test::FakeServer;

const std::string kTrace = "4bf92f3577b34da6a3ce929d0e0e4736", kParent = "00f067aa0ba902b7";
const Headers kSampled = {{"traceparent", "00-" + kTrace + "-" + kParent + "-01"},
                          {"user-agent", "curl/8"}};

struct RequestSpans : testing::Test {
  RequestSpans() {
    s.context.spans =
        std::make_unique<SpanExporter>(SpanExporterSettings{}, Attributes{},
                                       FakeCollector::transport(collector), s.context.metrics);
  }
  // All of them, by name; the exporter ends.
  std::multimap<std::string, json> spans() {
    s.context.spans.reset();
    std::multimap<std::string, json> out;
    for (const json& span : collector->spans()) out.emplace(span.at("name"), span);
    return out;
  }
  void answered(const test::FakeExchange& e, double seconds = 2) {
    s.application.answered(e.request(), e.status(), 10, seconds, true);
  }

  std::shared_ptr<FakeCollector> collector = std::make_shared<FakeCollector>();
  FakeServer s;
};

TEST_F(RequestSpans, OfACompletion) {
  const auto e =
      s.ask("POST", "/v1/completions",
            R"({"prompt": "a", "max_tokens": 8, "temperature": 0.5, "top_p": 0.9})", kSampled);
  proto::RequestChunk last;
  last.mutable_metrics()->set_queue_time(1e-9);
  last.set_finished(true);
  s.engine.say(0, "x", {5, 6});
  s.engine.callbacks.begin()->second(last);
  e->run_posted();
  answered(*e);

  const auto found = spans();
  const json& http = found.find("POST /v1/completions")->second;
  EXPECT_EQ(http.at("traceId"), kTrace);
  EXPECT_EQ(http.at("parentSpanId"), kParent);
  EXPECT_EQ(http.at("spanId"), e->request().trace.span_id) << "which traceresponse names";
  EXPECT_EQ(http.at("kind"), 2);
  EXPECT_EQ(std::stoll(http.at("endTimeUnixNano").get<std::string>()) -
                std::stoll(http.at("startTimeUnixNano").get<std::string>()),
            2000000000);
  const json about = attributes_of(http.at("attributes"));
  EXPECT_EQ(about.at("http.request.method"), "POST");
  EXPECT_EQ(about.at("http.route"), "/v1/completions");
  EXPECT_EQ(about.at("http.response.status_code"), "200");
  EXPECT_EQ(about.at("user_agent.original"), "curl/8");
  EXPECT_EQ(about.at("tandem.request_id"), "rid");
  EXPECT_FALSE(about.contains("error.type"));

  const json& prompt = found.find("llm_request")->second;
  EXPECT_EQ(prompt.at("traceId"), kTrace);
  EXPECT_EQ(prompt.at("parentSpanId"), http.at("spanId"));
  const json said = attributes_of(prompt.at("attributes"));
  EXPECT_EQ(said.at("gen_ai.response.model"), "model");
  EXPECT_EQ(said.at("gen_ai.request.id"), s.engine.requests[0].id);
  EXPECT_EQ(said.at("gen_ai.request.max_tokens"), "8");
  EXPECT_EQ(said.at("gen_ai.request.temperature"), 0.5);
  EXPECT_EQ(said.at("gen_ai.request.top_p"), 0.9);
  EXPECT_EQ(said.at("gen_ai.request.n"), "1");
  EXPECT_EQ(said.at("gen_ai.usage.prompt_tokens"), "7");
  EXPECT_EQ(said.at("gen_ai.usage.completion_tokens"), "2");
  EXPECT_EQ(said.at("gen_ai.latency.time_in_queue"), 1e-9);
  EXPECT_GE(said.at("gen_ai.latency.time_to_first_token").get<double>(), 0);
  EXPECT_GE(said.at("gen_ai.latency.e2e"), said.at("gen_ai.latency.time_to_first_token"));

  // The stages follow each other, within the request.
  std::string at = prompt.at("startTimeUnixNano");
  for (const char* name : {"queue", "prefill", "decode"}) {
    ASSERT_EQ(found.count(name), 1u) << name;
    const json& stage = found.find(name)->second;
    EXPECT_EQ(stage.at("parentSpanId"), prompt.at("spanId"));
    EXPECT_EQ(stage.at("startTimeUnixNano"), at) << name;
    at = stage.at("endTimeUnixNano");
  }
  EXPECT_NEAR(std::stod(at), std::stod(prompt.at("endTimeUnixNano").get<std::string>()), 1000);
}

TEST_F(RequestSpans, OfPromptsThatFail) {
  const auto e = s.ask("POST", "/v1/completions", R"({"prompt": ["a", "b"]})", kSampled);
  s.engine.say(0, "x", {5}, "stop");
  s.engine.fail(1, "internal_error");
  e->run_posted();
  answered(*e);
  const auto found = spans();
  ASSERT_EQ(found.count("llm_request"), 2u);
  int failed = 0;
  for (auto [it, end] = found.equal_range("llm_request"); it != end; ++it) {
    if (!it->second.contains("status")) continue;
    ++failed;
    EXPECT_EQ(it->second.at("status").at("code"), 2);
    EXPECT_EQ(attributes_of(it->second.at("attributes")).at("error.type"), "internal_error");
  }
  EXPECT_EQ(failed, 1);
  const json& http = found.find("POST /v1/completions")->second;
  EXPECT_EQ(http.at("status").at("code"), 2);
  EXPECT_EQ(attributes_of(http.at("attributes")).at("error.type"), "500");
}

TEST_F(RequestSpans, AMistakeOfTheClientIsNoneOfTheServer) {
  const auto e = s.ask("POST", "/v1/completions", R"({"prompt": 1.5})", kSampled);
  EXPECT_EQ(e->status(), 400);
  answered(*e);
  const auto found = spans();
  ASSERT_EQ(found.size(), 1u);
  const json& http = found.begin()->second;
  EXPECT_FALSE(http.contains("status"));
  EXPECT_EQ(attributes_of(http.at("attributes")).at("error.type"), "400");
}

TEST_F(RequestSpans, OfAnEmbedding) {
  const auto e = s.ask("POST", "/v1/embeddings", R"({"input": "a"})", kSampled);
  proto::RequestChunk last;
  last.set_finished(true);
  last.mutable_embedding()->add_values(1);
  last.mutable_metrics()->set_queue_time(1e-9);
  s.engine.callbacks.begin()->second(last);
  e->run_posted();
  answered(*e);
  const auto found = spans();
  EXPECT_EQ(found.count("llm_request"), 1u);
  EXPECT_EQ(found.count("queue"), 1u);
  EXPECT_EQ(found.count("encode"), 1u);
  EXPECT_EQ(found.count("decode"), 0u);
}

// The caller's flag says that it keeps none; health checks and scrapes are nobody's news.
TEST_F(RequestSpans, WhatHasNone) {
  const auto e = s.ask("POST", "/v1/completions", R"({"prompt": "a"})",
                       {{"traceparent", "00-" + kTrace + "-" + kParent + "-00"}});
  s.engine.say(0, "x", {5}, "stop");
  e->run_posted();
  answered(*e);
  answered(*s.ask("GET", "/health", "", kSampled));
  answered(*s.ask("GET", "/metrics", "", kSampled));
  EXPECT_EQ(spans().size(), 0u);
}

TEST_F(RequestSpans, ManyPromptsHaveABoundedNumber) {
  json prompts = json::array();
  for (int i = 0; i < 150; ++i) prompts.push_back("a");
  const auto e = s.ask("POST", "/v1/completions", json{{"prompt", prompts}}.dump(), kSampled);
  for (size_t i = 0; i < 150; ++i) s.engine.say(i, "x", {5}, "stop");
  e->run_posted();
  answered(*e);
  const auto found = spans();
  EXPECT_EQ(found.count("llm_request"), 100u);
  EXPECT_EQ(found.count("POST /v1/completions"), 1u);
}

TEST(RequestSpansOf, TextsOfClientsAreBoundedAndEscaped) {
  HttpRequest request;
  request.method = "GET";
  request.path = "/" + std::string(5000, 'p');
  request.headers = {{"user-agent", "a\nb" + std::string(5000, 'u')}};
  const Span span = span_of_http(request, {"other", 404, 0, 0, false}, 5);
  for (const auto& [name, value] : span.attributes)
    if (const auto* text = std::get_if<std::string>(&value)) {
      EXPECT_LE(text->size(), 300u) << name;
      EXPECT_EQ(text->find('\n'), text->npos) << name;
    }
  EXPECT_EQ(span.name, "GET other");
}

}  // namespace
}  // namespace tandem::server::request_spans_test
