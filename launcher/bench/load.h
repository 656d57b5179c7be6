// The load of `tandem bench serve`: many requests at once, in one thread, by libcurl.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "launcher/bench/api.h"
#include "launcher/bench/report.h"
#include "launcher/bench/target.h"

namespace tandem::bench {

// Sends each job at its arrival, or as soon as fewer than max_concurrency are under way (0: no
// bound). progress(done, failed) after each, and while nothing happens. Results in the order of the
// jobs.
std::vector<BenchRequest> run_load(const Target& target, Api api, const std::vector<Job>& jobs,
                                   int max_concurrency,
                                   const std::function<void(size_t, size_t)>& progress);

// One GET; the body. Throws InputError (--base-url) if there is no server, or it answers an error.
std::string http_get(const Target& target, const std::string& path);

}  // namespace tandem::bench
