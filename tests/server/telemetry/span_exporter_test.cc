#include "server/telemetry/span_exporter.h"

#include <gtest/gtest.h>

#include "server/telemetry/metric_pusher.h"
#include "tests/support/network/fake_collector.h"

namespace tandem::server {
namespace {

using namespace std::chrono_literals;
using Result = Delivery::Result;
using test::FakeCollector;

std::vector<Span> spans(int count, const std::string& name = "s") {
  std::vector<Span> out;
  for (int i = 0; i < count; ++i) out.push_back({.name = name + std::to_string(i)});
  return out;
}

struct SpanExporterTest : testing::Test {
  std::unique_ptr<SpanExporter> start() {
    return std::make_unique<SpanExporter>(settings, Attributes{},
                                          FakeCollector::transport(collector), metrics);
  }
  // Of /metrics.
  double value(const std::string& line) {
    const std::string text = metrics.text({}, 0);
    const size_t at = text.find("\n" + line + " ");
    return at == text.npos ? -1 : std::stod(text.substr(at + line.size() + 2));
  }
  double exported() {
    return value(R"(tandem:otlp_spans_total{model_name="m",result="exported"})");
  }
  double dropped() { return value(R"(tandem:otlp_spans_total{model_name="m",result="dropped"})"); }
  double failures() {
    return value(R"(tandem:otlp_failures_total{model_name="m",signal="traces"})");
  }

  std::shared_ptr<FakeCollector> collector = std::make_shared<FakeCollector>();
  Metrics metrics{"m"};
  SpanExporterSettings settings{.max_queue = 10, .max_batch = 4, .delay = 1ms, .first_pause = 1ms};
};

TEST_F(SpanExporterTest, SendsInOrderAndInBatches) {
  settings.delay = 1h;  // until there is a batch
  auto exporter = start();
  exporter->add(spans(3, "a"));
  exporter->add(spans(3, "b"));
  EXPECT_EQ(collector->wait_for(1).size(), 1u);
  exporter.reset();  // the others go out at the end
  std::string names;
  for (const auto& span : collector->spans()) names += span.at("name").get<std::string>() + " ";
  EXPECT_EQ(names, "a0 a1 a2 b0 b1 b2 ");
  EXPECT_EQ(collector->count(), 2u);
  EXPECT_EQ(exported(), 6);
  EXPECT_EQ(dropped(), 0);
}

TEST_F(SpanExporterTest, SendsAfterTheDelay) {
  const auto exporter = start();
  exporter->add(spans(1));
  collector->wait_for(1);
  exporter->add(spans(1));
  EXPECT_EQ(collector->wait_for(2).size(), 2u);
}

// A collector that hangs: what comes beyond the queue is dropped, nothing waits, and the end comes.
TEST_F(SpanExporterTest, DropsWhatTheQueueCannotHold) {
  collector->hold();
  auto exporter = start();
  exporter->add(spans(1));
  collector->wait_for(1);  // one is under way
  for (int i = 0; i < 1000; ++i) exporter->add(spans(2));
  EXPECT_EQ(dropped(), 1990) << "10 wait";
  exporter.reset();
  EXPECT_EQ(dropped(), 2001) << "the end had no time for them";
  EXPECT_EQ(exported(), 0);
}

TEST_F(SpanExporterTest, TriesAgainWhatMayPass) {
  collector->answer_with({{.result = Result::kFailed, .why = "busy"},
                          {.result = Result::kFailed, .why = "busy", .retry_after = 2ms}});
  const auto exporter = start();
  exporter->add(spans(2));
  EXPECT_EQ(collector->wait_for(3).size(), 3u);
  while (exported() != 2) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(failures(), 2);
  EXPECT_EQ(dropped(), 0);
}

TEST_F(SpanExporterTest, GivesUpAfterSomeTries) {
  settings.tries = 3;
  collector->answer_with(std::vector<Delivery>(3, {.result = Result::kFailed, .why = "gone"}));
  const auto exporter = start();
  exporter->add(spans(2, "lost"));
  collector->wait_for(3);
  while (dropped() != 2) std::this_thread::sleep_for(1ms);
  exporter->add(spans(1, "later"));
  collector->wait_for(4);
  while (exported() != 1) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(collector->spans().at(0).at("name"), "later0");
}

TEST_F(SpanExporterTest, WhatIsRefusedIsDroppedAtOnce) {
  collector->answer_with(
      {{.result = Result::kRefused, .why = "HTTP status 404"},
       {.answer = R"({"partialSuccess": {"rejectedSpans": "2", "errorMessage": "no"}})"}});
  const auto exporter = start();
  exporter->add(spans(3));
  while (dropped() != 3) std::this_thread::sleep_for(1ms);
  exporter->add(spans(3));
  while (dropped() != 5) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(exported(), 1);
  EXPECT_EQ(collector->count(), 2u);
}

TEST(MetricPusher, SendsAtIntervalsAndAtItsEnd) {
  const auto collector = std::make_shared<FakeCollector>();
  collector->answer_with({{.result = Result::kFailed, .why = "busy"}});
  Metrics metrics("m");
  metrics.http_answered("/x", 200, 0.5);
  auto pusher =
      std::make_unique<MetricPusher>(1ms, 1s, Attributes{}, FakeCollector::transport(collector),
                                     metrics, [&] { return metrics.collect({}, 3); });
  collector->wait_for(3);
  metrics.http_answered("/x", 200, 0.5);
  pusher.reset();
  const auto messages = collector->wait_for(1);
  const auto value = [](const nlohmann::json& message, const std::string& name) {
    for (const auto& metric : message["resourceMetrics"][0]["scopeMetrics"][0]["metrics"])
      if (metric["name"] == name)
        return metric[metric.contains("sum") ? "sum" : "gauge"]["dataPoints"][0]["asDouble"]
            .get<double>();
    return -1.0;
  };
  EXPECT_EQ(value(messages.front(), "tandem:http_requests_total"), 1);
  EXPECT_EQ(value(messages.back(), "tandem:http_requests_total"), 2) << "of the end";
  EXPECT_EQ(value(messages.back(), "tandem:http_connections"), 3);
  EXPECT_EQ(value(messages.back(), "vllm:num_requests_running"), 0) << "vLLM's names too";
  EXPECT_EQ(value(messages.back(), "tandem:otlp_failures_total"), 1);
}

// A long interval does not hold the end up.
TEST(MetricPusher, EndsAtOnce) {
  const auto collector = std::make_shared<FakeCollector>();
  Metrics metrics("m");
  {
    const MetricPusher pusher(24h, 1s, Attributes{}, FakeCollector::transport(collector), metrics,
                              [&] { return metrics.collect({}, 0); });
  }
  EXPECT_EQ(collector->count(), 1u);
}

}  // namespace
}  // namespace tandem::server
