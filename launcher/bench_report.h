// What `tandem bench` measured: vLLM's figures (vllm bench serve), as a table, as JSON, as a
// picture.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tandem::launcher {

// One request. Times in seconds from the start of the run.
struct BenchRequest {
  double sent = 0, first = -1, last = 0;  // first < 0: no token came
  std::vector<double> gaps;               // between chunks (inter-token latencies)
  int input_tokens = 0, output_tokens = 0;
  bool ok = false;
  std::string error;

  double ttft() const { return first - sent; }
  double e2el() const { return last - sent; }
  // Mean time of a token behind the first.
  double tpot() const { return output_tokens > 1 ? (last - first) / (output_tokens - 1) : 0; }
};

// The q-th percentile (0…100) of the values, interpolated as numpy does. 0 if there are none.
double percentile(std::vector<double> values, double q);

struct BenchOptions {
  std::vector<double> percentiles{50, 95, 99};
  std::map<std::string, double> goodput;  // "ttft", "tpot", "e2el" → milliseconds
};

// Keys as in vLLM's result files.
nlohmann::ordered_json bench_summary(const std::vector<BenchRequest>& requests, double duration,
                                     const BenchOptions& options);
std::string bench_table(const nlohmann::ordered_json& summary);
// Each request as a bar over time, waiting and generating; and the distributions of TTFT, TPOT,
// E2EL.
std::string bench_svg(const std::vector<BenchRequest>& requests, double duration,
                      const std::string& title);

}  // namespace tandem::launcher
