// The server's metrics, for Prometheus. Thread-safe. The names, and vLLM's equivalents:
// docs/serving.md.
#pragma once

#include <prometheus/metric_family.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/engine/engine_api.h"

namespace tandem::server {

class Metrics {
 public:
  explicit Metrics(const std::string& model_name);
  ~Metrics();

  // A request to the engine (one prompt) has ended. Times in seconds; first_token < 0: none came.
  struct Ended {
    std::string reason;  // "stop", "length", "abort", or the type of an error
    double total = 0, queue = 0, first_token = -1;
    int prompt_tokens = 0, output_tokens = 0;  // no output: of an embedding
    int sequences = 0, longest = 0;            // asked for; tokens of the longest one
    int64_t max_tokens = 0;                    // that the request says; 0: nothing
    int preemptions = 0;
  };
  void request_ended(const Ended& request);
  void first_token(double seconds);
  // `seconds` since the chunk before, that brought `tokens` of one sequence.
  void tokens_came(int tokens, double seconds);
  // A transcription has ended well.
  void sound_transcribed(double seconds);
  void http_answered(const std::string& path, int status, double seconds);
  void requests_under_way(int change);
  // The server itself had no room. Refusals by the engine are in its status.
  void request_refused(const std::string& reason);

  // What becomes of traces and metrics that are sent to a collector; signal: "traces", "metrics".
  void spans_exported(int64_t count);
  void spans_dropped(int64_t count);
  void export_failed(const std::string& signal);

  // Since the server started.
  struct Totals {
    int64_t prompt_tokens = 0, generation_tokens = 0;
  };
  Totals totals() const;

  // All of them; the engine's own figures are taken from `status`.
  std::vector<prometheus::MetricFamily> collect(const EngineStatus& status, int num_connections);
  // The same in Prometheus' text format.
  std::string text(const EngineStatus& status, int num_connections);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem::server
