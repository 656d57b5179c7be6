// OTLP's messages in their JSON encoding (https://opentelemetry.io/docs/specs/otlp/).
#pragma once

#include <prometheus/metric_family.h>

#include <cstdint>
#include <string>
#include <vector>

#include "server/telemetry/span.h"

namespace tandem::server {

// An ExportTraceServiceRequest. resource: what describes the process.
std::string traces_to_json(const Attributes& resource, const std::vector<Span>& spans);

// An ExportMetricsServiceRequest: sums since `begin`, as of `now` (nanoseconds since 1970). Names
// and labels are Prometheus'. Numbers that are not finite are left out.
std::string metrics_to_json(const Attributes& resource,
                            const std::vector<prometheus::MetricFamily>& families, int64_t begin,
                            int64_t now);

// Of a collector's answer: what it did not take, and why. Anything that is no such answer: nothing.
struct PartialSuccess {
  int64_t rejected = 0;
  std::string message;
};
PartialSuccess partial_success(const std::string& answer);

}  // namespace tandem::server
