#include "launcher/otlp/otlp_settings.h"

#include <gtest/gtest.h>

#include <map>

#include "base/error.h"

namespace tandem::launcher {
namespace {

using namespace std::chrono_literals;
using Variables = std::map<std::string, std::string>;

OtlpSettings parse(const Variables& variables, const OtlpOptions& options = {}) {
  return options.parse([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

std::string text_of(const server::Attributes& attributes, const std::string& name) {
  for (const auto& [key, value] : attributes)
    if (key == name) return std::get<std::string>(value);
  return "(none)";
}

TEST(OtlpSettings, NothingIsSentByDefault) {
  const OtlpSettings s = parse({{"OTEL_SERVICE_NAME", "x"}});
  EXPECT_FALSE(s.traces || s.metrics || s.sampler.on);
  EXPECT_TRUE(s.warnings.empty());
}

TEST(OtlpSettings, AddressesOfFlags) {
  const OtlpSettings s = parse({{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://other"}},
                               {.traces_endpoint = "http://collector:4318"});
  EXPECT_EQ(s.traces->url, "http://collector:4318/v1/traces");
  EXPECT_FALSE(s.metrics);
  EXPECT_TRUE(s.sampler.on);
  EXPECT_EQ(parse({}, {.traces_endpoint = "https://c/otlp/x"}).traces->url, "https://c/otlp/x");
  EXPECT_EQ(parse({}, {.metrics_endpoint = "http://c:1/"}).metrics->url, "http://c:1/")
      << "a path is a path";
  EXPECT_EQ(parse({}, {.metrics_endpoint = "http://[::1]:1"}).metrics->url,
            "http://[::1]:1/v1/metrics");
}

TEST(OtlpSettings, AddressesOfVariables) {
  for (const char* base : {"http://c:4318", "http://c:4318/"}) {
    const OtlpSettings s = parse({{"OTEL_EXPORTER_OTLP_ENDPOINT", base}});
    EXPECT_EQ(s.traces->url, "http://c:4318/v1/traces");
    EXPECT_EQ(s.metrics->url, "http://c:4318/v1/metrics");
  }
  const OtlpSettings apart =
      parse({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c/base"},
             {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://prometheus/api/v1/otlp/v1/metrics"}});
  EXPECT_EQ(apart.traces->url, "http://c/base/v1/traces");
  EXPECT_EQ(apart.metrics->url, "http://prometheus/api/v1/otlp/v1/metrics");
  const OtlpSettings one =
      parse({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c"}, {"OTEL_METRICS_EXPORTER", "none"}});
  EXPECT_TRUE(one.traces && !one.metrics);
  const OtlpSettings off =
      parse({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c"}, {"OTEL_SDK_DISABLED", "true"}});
  EXPECT_FALSE(off.traces || off.metrics);
}

TEST(OtlpSettings, MistakesOfFlagsAreErrors) {
  for (const char* url : {"collector:4318", "ftp://c", "http://", "http://user:secret@c",
                          "http://c?x=1", "grpc://c:4317"}) {
    try {
      parse({}, {.traces_endpoint = url});
      FAIL() << url;
    } catch (const InputError& e) {
      EXPECT_EQ(e.param(), "--otlp-traces-endpoint") << url;
    }
  }
}

TEST(OtlpSettings, MistakesOfVariablesAreIgnored) {
  const Variables right = {{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c"}};
  EXPECT_TRUE(parse(right).warnings.empty());
  const std::pair<const char*, const char*> wrong[] = {
      {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "grpc://c:4317"},
      {"OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "soon"},
      {"OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "zstd"},
      {"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc"},
      {"OTEL_EXPORTER_OTLP_TRACES_HEADERS", "no pair"},
      {"OTEL_EXPORTER_OTLP_TRACES_HEADERS", "a=b%0d%0aInjected: yes"},
      {"OTEL_TRACES_EXPORTER", "zipkin"},
      {"OTEL_TRACES_SAMPLER", "some"},
      {"OTEL_RESOURCE_ATTRIBUTES", "=1"},
      {"OTEL_BSP_MAX_QUEUE_SIZE", "0"},
      {"OTEL_METRIC_EXPORT_INTERVAL", "-5"}};
  for (const auto& [name, value] : wrong) {
    Variables variables = right;
    variables[name] = value;
    const OtlpSettings s = parse(variables);
    ASSERT_EQ(s.warnings.size(), 1u) << name;
    EXPECT_NE(s.warnings[0].find(name), std::string::npos) << s.warnings[0];
    EXPECT_TRUE(s.metrics) << name;
    if (s.traces) {
      EXPECT_TRUE(s.traces->headers.empty());
    }
  }
}

TEST(OtlpSettings, TheOthers) {
  const OtlpSettings s =
      parse({{"OTEL_EXPORTER_OTLP_ENDPOINT", "https://c"},
             {"OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Basic%20eA==, b = c "},
             {"OTEL_EXPORTER_OTLP_METRICS_HEADERS", "x=y"},
             {"OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"},
             {"OTEL_EXPORTER_OTLP_TIMEOUT", "1500"},
             {"OTEL_EXPORTER_OTLP_CERTIFICATE", "/etc/ca.pem"},
             {"OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"},
             {"OTEL_SERVICE_NAME", "summaries"},
             {"OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=a%2Cb,service.name=other"},
             {"OTEL_TRACES_SAMPLER", "parentbased_traceidratio"},
             {"OTEL_TRACES_SAMPLER_ARG", "0.25"},
             {"OTEL_BSP_MAX_QUEUE_SIZE", "100"},
             {"OTEL_BSP_SCHEDULE_DELAY", "20"},
             {"OTEL_METRIC_EXPORT_INTERVAL", "30"}});
  EXPECT_TRUE(s.warnings.empty());
  EXPECT_EQ(s.traces->headers, (std::vector<std::string>{"Authorization: Basic eA==", "b: c"}));
  EXPECT_EQ(s.metrics->headers, std::vector<std::string>{"x: y"});
  EXPECT_TRUE(s.traces->gzip && s.metrics->gzip);
  EXPECT_EQ(s.traces->timeout, 1500ms);
  EXPECT_EQ(s.traces->ca_file, "/etc/ca.pem");
  EXPECT_EQ(text_of(s.resource, "service.name"), "summaries");
  EXPECT_EQ(text_of(s.resource, "deployment.environment"), "a,b");
  EXPECT_EQ(text_of(parse({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c"}}).resource, "service.name"),
            "tandem");
  EXPECT_TRUE(s.sampler.on && s.sampler.parent_based);
  EXPECT_EQ(s.sampler.ratio, 0.25);
  EXPECT_EQ(s.spans.max_queue, 100u);
  EXPECT_EQ(s.spans.max_batch, 100u);
  EXPECT_EQ(s.spans.delay, 20ms);
  EXPECT_EQ(s.metric_interval, 30ms);
}

}  // namespace
}  // namespace tandem::launcher
