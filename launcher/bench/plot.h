// A run as a picture: latencies by time of arrival, each request over time, distributions.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "launcher/bench/report.h"

namespace tandem::bench {

// "requests.html", "requests.vl.json" and "requests" → "requests".
std::string plot_base(const std::string& file);
// A Vega-Lite specification with the data: for editors and notebooks.
nlohmann::ordered_json plot_specification(const std::vector<BenchRequest>& requests,
                                          const std::string& title);
// A page that draws it. The browser fetches Vega's scripts from a public CDN.
std::string plot_page(const nlohmann::ordered_json& specification, const std::string& title);

}  // namespace tandem::bench
