// Where traces and metrics go: two flags, and the variables that OpenTelemetry's SDKs read
// (docs/deploying.md lists those that count here).
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launcher/cli.h"
#include "server/http/trace_context.h"
#include "server/telemetry/span.h"
#include "server/telemetry/span_exporter.h"

namespace tandem::launcher {

struct OtlpEndpoint {
  std::string url;
  std::vector<std::string> headers = {};  // "name: value"
  std::chrono::milliseconds timeout{10000};
  bool gzip = false;
  std::string ca_file = {};  // empty: the system's
};

struct OtlpSettings {
  std::optional<OtlpEndpoint> traces, metrics;
  server::Attributes resource;
  server::TraceSampler sampler;  // on, if traces go anywhere
  server::SpanExporterSettings spans;
  std::chrono::milliseconds metric_interval{60000};
  std::vector<std::string> warnings;  // about variables, which are ignored then
};

struct OtlpOptions {
  using GetVariable = std::function<const char*(const char*)>;

  std::string traces_endpoint = {}, metrics_endpoint = {};

  void add(CLI::App& app);
  // Throws InputError naming the flag.
  OtlpSettings parse(const GetVariable& get) const;
};

}  // namespace tandem::launcher
