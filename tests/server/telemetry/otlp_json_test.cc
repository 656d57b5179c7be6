#include "server/telemetry/otlp_json.h"

#include <gtest/gtest.h>
#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "runtime/version.h"
#include "tests/support/network/fake_collector.h"

namespace tandem::server {
namespace {

using nlohmann::json;
using test::attributes_of;

const Attributes kResource = {{"service.name", std::string("mine")}, {"process.pid", int64_t{7}}};

TEST(OtlpJson, ASpan) {
  Span span{.trace_id = std::string(32, 'a'),
            .span_id = std::string(16, 'b'),
            .parent_id = std::string(16, 'c'),
            .name = "a \"name\"",
            .kind = Span::Kind::kServer,
            .begin = 1700000000000000001,
            .end = 1700000000000000002};
  span.attributes = {{"text", std::string("\xff")},
                     {"whole", int64_t{9007199254740993}},
                     {"real", 0.5},
                     {"yes", true},
                     {"list", std::vector<std::string>{"x", "y"}},
                     {"none", std::numeric_limits<double>::quiet_NaN()}};
  const json message = json_from<json>(traces_to_json(kResource, {span}));
  const json& one = message.at("resourceSpans").at(0);
  EXPECT_EQ(attributes_of(one.at("resource").at("attributes")),
            (json{{"service.name", "mine"}, {"process.pid", "7"}}));
  const json& scope = one.at("scopeSpans").at(0);
  EXPECT_EQ(scope.at("scope"), (json{{"name", "tandem"}, {"version", kVersion}}));
  const json& got = scope.at("spans").at(0);
  EXPECT_EQ(got.at("traceId"), span.trace_id);
  EXPECT_EQ(got.at("spanId"), span.span_id);
  EXPECT_EQ(got.at("parentSpanId"), span.parent_id);
  EXPECT_EQ(got.at("kind"), 2);
  EXPECT_EQ(got.at("startTimeUnixNano"), "1700000000000000001") << "a string: 64 bits";
  EXPECT_EQ(got.at("endTimeUnixNano"), "1700000000000000002");
  EXPECT_FALSE(got.contains("status"));
  EXPECT_EQ(got.at("attributes").at(0).at("value").at("stringValue"), "\xef\xbf\xbd");
  EXPECT_EQ(got.at("attributes").at(1).at("value").at("intValue"), "9007199254740993");
  EXPECT_EQ(got.at("attributes").at(2).at("value").at("doubleValue"), 0.5);
  EXPECT_EQ(got.at("attributes").at(3).at("value").at("boolValue"), true);
  EXPECT_EQ(got.at("attributes").at(4).at("value").at("arrayValue").at("values").at(1),
            (json{{"stringValue", "y"}}));
  EXPECT_EQ(got.at("attributes").size(), 5u) << "JSON has no NaN";

  span.parent_id.clear();
  span.failed = true;
  span.failure = "why";
  const json failed = json_from<json>(traces_to_json({}, {span}))
                          .at("resourceSpans")
                          .at(0)
                          .at("scopeSpans")
                          .at(0)
                          .at("spans")
                          .at(0);
  EXPECT_FALSE(failed.contains("parentSpanId"));
  EXPECT_EQ(failed.at("status"), (json{{"code", 2}, {"message", "why"}}));
}

std::map<std::string, json> metrics_of(prometheus::Registry& registry) {
  const json message = json_from<json>(metrics_to_json(kResource, registry.Collect(), 5, 9));
  std::map<std::string, json> out;
  for (const json& metric :
       message.at("resourceMetrics").at(0).at("scopeMetrics").at(0).at("metrics"))
    out[metric.at("name")] = metric;
  return out;
}

TEST(OtlpJson, Metrics) {
  prometheus::Registry registry;
  prometheus::BuildCounter()
      .Name("a:bytes_total")
      .Help("Bytes.")
      .Register(registry)
      .Add({{"kind", "x"}})
      .Increment(3);
  prometheus::BuildGauge().Name("a:level").Register(registry).Add({}).Set(-1.5);
  prometheus::BuildGauge()
      .Name("a:nothing")
      .Register(registry)
      .Add({})
      .Set(std::numeric_limits<double>::infinity());
  auto& histogram = prometheus::BuildHistogram()
                        .Name("a:time_seconds")
                        .Register(registry)
                        .Add({}, prometheus::Histogram::BucketBoundaries{1, 2});
  for (const double value : {0.5, 1.5, 1.75, 5.0}) histogram.Observe(value);
  prometheus::BuildGauge().Name("a:empty").Register(registry);

  auto found = metrics_of(registry);
  const json& sum = found.at("a:bytes_total");
  EXPECT_EQ(sum.at("description"), "Bytes.");
  EXPECT_EQ(sum.at("sum").at("isMonotonic"), true);
  EXPECT_EQ(sum.at("sum").at("aggregationTemporality"), 2);
  const json& point = sum.at("sum").at("dataPoints").at(0);
  EXPECT_EQ(point.at("asDouble"), 3);
  EXPECT_EQ(point.at("startTimeUnixNano"), "5");
  EXPECT_EQ(point.at("timeUnixNano"), "9");
  EXPECT_EQ(attributes_of(point.at("attributes")), (json{{"kind", "x"}}));
  EXPECT_EQ(found.at("a:level").at("gauge").at("dataPoints").at(0).at("asDouble"), -1.5);
  EXPECT_EQ(found.at("a:nothing").at("gauge").at("dataPoints").size(), 0u);
  EXPECT_FALSE(found.count("a:empty"));

  const json& times = found.at("a:time_seconds");
  EXPECT_EQ(times.at("unit"), "s");
  const json& buckets = times.at("histogram").at("dataPoints").at(0);
  EXPECT_EQ(buckets.at("explicitBounds"), (json{1, 2}));
  EXPECT_EQ(buckets.at("bucketCounts"), (json{"1", "2", "1"})) << "each for itself";
  EXPECT_EQ(buckets.at("count"), "4");
  EXPECT_EQ(buckets.at("sum"), 8.75);
}

TEST(OtlpJson, AnswersOfCollectors) {
  EXPECT_EQ(partial_success("{}").rejected, 0);
  EXPECT_EQ(partial_success("").rejected, 0);
  EXPECT_EQ(partial_success("[1").rejected, 0);
  EXPECT_EQ(partial_success(R"({"partialSuccess": []})").rejected, 0);
  EXPECT_EQ(partial_success(R"({"partialSuccess": {"rejectedSpans": {}}})").rejected, 0);
  const PartialSuccess spans =
      partial_success(R"({"partialSuccess": {"rejectedSpans": "3", "errorMessage": "old"}})");
  EXPECT_EQ(spans.rejected, 3);
  EXPECT_EQ(spans.message, "old");
  EXPECT_EQ(partial_success(R"({"partialSuccess": {"rejectedDataPoints": 4}})").rejected, 4);
}

}  // namespace
}  // namespace tandem::server
