// The load of `tandem bench serve`: many requests at once, in one thread, by libcurl.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "launcher/bench/api.h"
#include "launcher/bench/report.h"

namespace tandem::bench {

struct Target {
  std::string base_url = "http://127.0.0.1:8000";
  std::string path;                  // of the route: "/v1/completions"
  std::vector<std::string> headers;  // "Name: value"
  std::string ca_cert;               // a file of certificates to trust; empty: the system's
  bool insecure = false;             // any certificate will do
  double timeout = 0;                // seconds that a request may take; 0: any time
};

// The address of a route: a base that ends in /v1, as OpenAI's clients write it, will do. Throws
// InputError (--base-url).
std::string url_of(const Target& target, const std::string& path);

// Sends each job at its arrival, or as soon as fewer than max_concurrency are under way (0: no
// bound). progress(done, failed) after each, and while nothing happens. Results in the order of the
// jobs.
std::vector<BenchRequest> run_load(const Target& target, Api api, const std::vector<Job>& jobs,
                                   int max_concurrency,
                                   const std::function<void(size_t, size_t)>& progress);

// One GET; the body. Throws InputError (--base-url) if there is no server, or it answers an error.
std::string http_get(const Target& target, const std::string& path);

}  // namespace tandem::bench
