// What `tandem bench` measured: vLLM's figures (vllm bench serve), as a table and as JSON.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tandem::bench {

// One request. Times in seconds from the start of the run.
struct BenchRequest {
  double sent = 0, first = -1, last = 0;  // first < 0: nothing came before the whole answer
  std::vector<double> gaps;               // between events that brought tokens
  int events = 0;                         // that brought tokens
  int input_tokens = 0, output_tokens = 0;
  bool is_counted = false;   // the server gave no usage: output_tokens are events
  double audio_seconds = 0;  // of the recording that was sent
  std::string failure;  // the HTTP status, or "connection", "stream", …; empty: all went well
  std::string message;  // of the server, or what happened

  // An event brought tokens.
  void take_event(double time) {
    if (first < 0)
      first = time;
    else
      gaps.push_back(time - last);
    last = time;
    ++events;
  }
  bool failed() const { return !failure.empty(); }
  double ttft() const { return (first < 0 ? last : first) - sent; }
  double e2el() const { return last - sent; }
  // Mean time of a token behind the first.
  double tpot() const { return has_tpot() ? (last - first) / (output_tokens - 1) : 0; }
  bool has_tpot() const { return first >= 0 && output_tokens > 1; }
};

// The q-th percentile (0…100) of the values, interpolated as numpy does. 0 if there are none.
double percentile(std::vector<double> values, double q);

struct ReportOptions {
  std::vector<double> percentiles{50, 95, 99};
  std::map<std::string, double> goodput;  // "ttft", "tpot", "e2el" → milliseconds
};

// Keys as in vLLM's result files; figures that no request has are left out.
nlohmann::ordered_json summarize(const std::vector<BenchRequest>& requests, double duration,
                                 const ReportOptions& options);
// Of a summary.
std::string format_table(const nlohmann::ordered_json& summary, const ReportOptions& options);

}  // namespace tandem::bench
