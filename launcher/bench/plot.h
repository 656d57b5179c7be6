// A run as a picture: latencies by time of arrival, each request over time, distributions.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "launcher/bench/report.h"

namespace tandem::bench {

// "requests.svg", "requests.vl.json" and "requests" → "requests".
std::string plot_base(const std::string& file);
std::string plot_svg(const std::vector<BenchRequest>& requests, const std::string& title);
// The same as a Vega-Lite specification, with the data: for editors and notebooks.
nlohmann::ordered_json plot_specification(const std::vector<BenchRequest>& requests,
                                          const std::string& title);

}  // namespace tandem::bench
