// The load of `tandem bench serve`: streams from an OpenAI-compatible server, many at once, in one
// thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "launcher/bench_report.h"

namespace tandem::launcher {

struct BenchTarget {
  std::string host, port;
  std::string path = "/v1/completions";
  std::string api_key;  // empty: none
};

// "http://host:port" → target. Throws InputError (--base-url).
BenchTarget parse_base_url(const std::string& url);

struct BenchJob {
  std::string body;    // JSON with "stream": true and "stream_options": {"include_usage": true}
  double arrival = 0;  // seconds from the start
};

// Sends each job at its arrival, or as soon as fewer than max_concurrency are under way (0: no
// bound). progress(done, failed) after each. Results in the order of the jobs.
std::vector<BenchRequest> run_load(const BenchTarget& target, const std::vector<BenchJob>& jobs,
                                   int max_concurrency,
                                   const std::function<void(size_t, size_t)>& progress);

// One GET; the body. Throws InputError (--base-url) if there is no server, or it answers an error.
std::string http_get(const BenchTarget& target, const std::string& path);

}  // namespace tandem::launcher
