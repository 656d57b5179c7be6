// In proto3's JSON 64-bit integers are strings; OTLP writes ids in hexadecimal.
#include "server/telemetry/otlp_json.h"

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/json.h"
#include "runtime/version.h"

namespace tandem::server {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kStatusError = 2;
constexpr int kCumulative = 2;

struct ToJson {
  Json operator()(bool value) const { return {{"boolValue", value}}; }
  Json operator()(int64_t value) const { return {{"intValue", std::to_string(value)}}; }
  Json operator()(double value) const { return {{"doubleValue", value}}; }
  Json operator()(const std::string& value) const { return {{"stringValue", value}}; }
  Json operator()(const std::vector<std::string>& values) const {
    Json array = Json::array();
    for (const std::string& value : values) array.push_back((*this)(value));
    return {{"arrayValue", {{"values", std::move(array)}}}};
  }
};

bool is_finite(const AttributeValue& value) {
  const double* number = std::get_if<double>(&value);
  return number == nullptr || std::isfinite(*number);
}

Json attributes_json(const Attributes& attributes) {
  Json out = Json::array();
  for (const auto& [name, value] : attributes)
    if (is_finite(value)) out.push_back({{"key", name}, {"value", std::visit(ToJson(), value)}});
  return out;
}

Json resource_json(const Attributes& resource) {
  return {{"attributes", attributes_json(resource)}};
}

Json scope_json() { return {{"name", "tandem"}, {"version", kVersion}}; }

Json span_json(const Span& span) {
  Json out = {{"traceId", span.trace_id}, {"spanId", span.span_id}};
  if (!span.parent_id.empty()) out["parentSpanId"] = span.parent_id;
  out["name"] = span.name;
  out["kind"] = static_cast<int>(span.kind);
  out["startTimeUnixNano"] = std::to_string(span.begin);
  out["endTimeUnixNano"] = std::to_string(span.end);
  out["attributes"] = attributes_json(span.attributes);
  if (span.failed) {
    out["status"]["code"] = kStatusError;
    if (!span.failure.empty()) out["status"]["message"] = span.failure;
  }
  return out;
}

// UCUM's, by the end of the name, which stays as it is.
const char* unit_of(std::string_view name) {
  if (name.ends_with("_total")) name.remove_suffix(6);
  if (name.ends_with("_seconds")) return "s";
  return name.ends_with("_bytes") ? "By" : "";
}

struct PointTimes {
  std::string begin, now;
};

Json point_json(const prometheus::ClientMetric& metric, const PointTimes& times, bool sum) {
  Json labels = Json::array();
  for (const auto& label : metric.label)
    labels.push_back({{"key", label.name}, {"value", {{"stringValue", label.value}}}});
  Json point = {{"attributes", std::move(labels)}};
  if (sum) point["startTimeUnixNano"] = times.begin;
  point["timeUnixNano"] = times.now;
  return point;
}

// Prometheus' buckets count what is below their bound; OTLP's what is between two, and the last
// one has no bound.
void add_histogram(const prometheus::ClientMetric::Histogram& histogram, Json& point) {
  point["count"] = std::to_string(histogram.sample_count);
  point["sum"] = histogram.sample_sum;
  Json counts = Json::array(), bounds = Json::array();
  uint64_t before = 0;
  for (const auto& bucket : histogram.bucket) {
    counts.push_back(std::to_string(bucket.cumulative_count - before));
    before = bucket.cumulative_count;
    if (std::isfinite(bucket.upper_bound)) bounds.push_back(bucket.upper_bound);
  }
  if (counts.size() == bounds.size())  // no bucket was without bound
    counts.push_back(std::to_string(histogram.sample_count - before));
  point["bucketCounts"] = std::move(counts);
  point["explicitBounds"] = std::move(bounds);
}

Json metric_json(const prometheus::MetricFamily& family, const PointTimes& times) {
  const bool gauge = family.type == prometheus::MetricType::Gauge;
  const bool histogram = family.type == prometheus::MetricType::Histogram;
  Json points = Json::array();
  for (const prometheus::ClientMetric& metric : family.metric) {
    Json point = point_json(metric, times, !gauge);
    if (histogram) {
      if (!std::isfinite(metric.histogram.sample_sum)) continue;
      add_histogram(metric.histogram, point);
    } else {
      const double value = gauge ? metric.gauge.value : metric.counter.value;
      if (!std::isfinite(value)) continue;
      point["asDouble"] = value;
    }
    points.push_back(std::move(point));
  }
  Json data;
  if (!gauge) data["aggregationTemporality"] = kCumulative;
  if (!gauge && !histogram) data["isMonotonic"] = true;
  data["dataPoints"] = std::move(points);
  Json out = {{"name", family.name}, {"description", family.help}};
  if (const char* unit = unit_of(family.name); *unit != 0) out["unit"] = unit;
  out[gauge ? "gauge" : histogram ? "histogram" : "sum"] = std::move(data);
  return out;
}

bool is_exported(const prometheus::MetricFamily& family) {
  return !family.metric.empty() && (family.type == prometheus::MetricType::Gauge ||
                                    family.type == prometheus::MetricType::Counter ||
                                    family.type == prometheus::MetricType::Histogram);
}

}  // namespace

std::string traces_to_json(const Attributes& resource, const std::vector<Span>& spans) {
  Json list = Json::array();
  for (const Span& span : spans) list.push_back(span_json(span));
  const Json scope = {{"scope", scope_json()}, {"spans", std::move(list)}};
  const Json whole = {{"resource", resource_json(resource)}, {"scopeSpans", Json::array({scope})}};
  return dump_ordered_line({{"resourceSpans", Json::array({whole})}});
}

std::string metrics_to_json(const Attributes& resource,
                            const std::vector<prometheus::MetricFamily>& families, int64_t begin,
                            int64_t now) {
  const PointTimes times{std::to_string(begin), std::to_string(now)};
  Json list = Json::array();
  for (const auto& family : families)
    if (is_exported(family)) list.push_back(metric_json(family, times));
  const Json scope = {{"scope", scope_json()}, {"metrics", std::move(list)}};
  const Json whole = {{"resource", resource_json(resource)},
                      {"scopeMetrics", Json::array({scope})}};
  return dump_ordered_line({{"resourceMetrics", Json::array({whole})}});
}

PartialSuccess partial_success(const std::string& answer) {
  const Json parsed = json_or_discarded<Json>(answer);
  if (!parsed.is_object() || !parsed.contains("partialSuccess")) return {};
  const Json& partial = parsed["partialSuccess"];
  if (!partial.is_object()) return {};
  PartialSuccess out;
  for (const char* name : {"rejectedSpans", "rejectedDataPoints"}) {
    if (!partial.contains(name)) continue;
    const Json& count = partial[name];
    if (count.is_number_unsigned()) out.rejected = count.get<int64_t>();
    if (!count.is_string()) continue;
    const std::string& text = count.get_ref<const std::string&>();
    std::from_chars(text.data(), text.data() + text.size(), out.rejected);
  }
  if (partial.contains("errorMessage") && partial["errorMessage"].is_string())
    out.message = partial["errorMessage"].get<std::string>();
  return out;
}

}  // namespace tandem::server
