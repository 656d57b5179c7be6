#include "launcher/bench_report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

namespace tandem::launcher {
namespace {

using Json = nlohmann::ordered_json;

std::string format(const char* pattern, double value) {
  char text[64];
  std::snprintf(text, sizeof text, pattern, value);
  return text;
}

// "99" → "p99", "99.9" → "p99.9".
std::string percentile_name(double q) { return "p" + format("%g", q); }

void add_figures(Json& out, const std::string& name, const std::vector<double>& seconds,
                 const BenchOptions& options) {
  const double n = std::max<size_t>(1, seconds.size());
  const double mean = std::accumulate(seconds.begin(), seconds.end(), 0.0) / n;
  double squares = 0;
  for (const double s : seconds) squares += (s - mean) * (s - mean);
  out["mean_" + name + "_ms"] = mean * 1e3;
  out["median_" + name + "_ms"] = percentile(seconds, 50) * 1e3;
  out["std_" + name + "_ms"] = std::sqrt(squares / n) * 1e3;
  for (const double q : options.percentiles)
    out[percentile_name(q) + "_" + name + "_ms"] = percentile(seconds, q) * 1e3;
}

bool is_good(const BenchRequest& r, const std::map<std::string, double>& bounds) {
  for (const auto& [name, most] : bounds) {
    const double value = name == "ttft" ? r.ttft() : name == "tpot" ? r.tpot() : r.e2el();
    if (value * 1e3 > most) return false;
  }
  return true;
}

// A step function of the share of values below, as an SVG path of 300 × 120.
std::string distribution_path(std::vector<double> values, double most) {
  std::sort(values.begin(), values.end());
  std::string path = "M0,120";
  for (size_t i = 0; i < values.size(); ++i) {
    const double x = most > 0 ? values[i] / most * 300 : 0;
    path += format(" L%.1f,", x) + format("%.1f", 120.0 - 120.0 * static_cast<double>(i + 1) /
                                                              static_cast<double>(values.size()));
  }
  return path;
}

std::string distribution(const std::string& name, std::vector<double> values, double x) {
  const double most = values.empty() ? 0 : *std::max_element(values.begin(), values.end());
  const double median = percentile(values, 50), p99 = percentile(values, 99);
  return "<g transform='translate(" + format("%g", x) +
         ",0)'><rect width='300' height='120' class='frame'/>" + "<path d='" +
         distribution_path(std::move(values), most) + "' class='line'/>" +
         "<text x='0' y='-8' class='name'>" + name + ": share of requests below</text>" +
         "<text x='0' y='136'>0</text><text x='300' y='136' text-anchor='end'>" +
         format("%.0f ms", most * 1e3) + "</text><text x='150' y='136' text-anchor='middle'>p50 " +
         format("%.0f", median * 1e3) + ", p99 " + format("%.0f", p99 * 1e3) + "</text></g>";
}

}  // namespace

double percentile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double at = q / 100 * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(std::floor(at));
  const size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (values[above] - values[below]) * (at - static_cast<double>(below));
}

Json bench_summary(const std::vector<BenchRequest>& requests, double duration,
                   const BenchOptions& options) {
  std::vector<double> ttft, tpot, itl, e2el;
  int completed = 0, good = 0;
  int64_t input = 0, output = 0;
  std::map<std::string, int> errors;
  for (const BenchRequest& r : requests) {
    if (!r.ok) {
      ++errors[r.error];
      continue;
    }
    ++completed;
    good += is_good(r, options.goodput);
    input += r.input_tokens;
    output += r.output_tokens;
    ttft.push_back(r.ttft());
    if (r.output_tokens > 1) tpot.push_back(r.tpot());
    itl.insert(itl.end(), r.gaps.begin(), r.gaps.end());
    e2el.push_back(r.e2el());
  }
  Json out;
  out["duration"] = duration;
  out["completed"] = completed;
  out["failed"] = requests.size() - static_cast<size_t>(completed);
  out["total_input_tokens"] = input;
  out["total_output_tokens"] = output;
  out["request_throughput"] = completed / duration;
  if (!options.goodput.empty()) out["request_goodput"] = good / duration;
  out["output_throughput"] = static_cast<double>(output) / duration;
  out["total_token_throughput"] = static_cast<double>(input + output) / duration;
  add_figures(out, "ttft", ttft, options);
  add_figures(out, "tpot", tpot, options);
  add_figures(out, "itl", itl, options);
  add_figures(out, "e2el", e2el, options);
  if (!errors.empty()) out["errors"] = errors;
  return out;
}

std::string bench_table(const Json& summary) {
  static const std::map<std::string, const char*> kNames{
      {"duration", "Duration (s)"},
      {"completed", "Successful requests"},
      {"failed", "Failed requests"},
      {"total_input_tokens", "Input tokens"},
      {"total_output_tokens", "Generated tokens"},
      {"request_throughput", "Requests/s"},
      {"request_goodput", "Good requests/s"},
      {"output_throughput", "Generated tokens/s"},
      {"total_token_throughput", "Tokens/s"}};
  std::string out;
  for (const auto& [key, value] : summary.items()) {
    if (key == "errors") {
      for (const auto& [error, count] : value.items())
        out += "  " + std::to_string(count.get<int>()) + " x " + error + "\n";
      continue;
    }
    const auto known = kNames.find(key);
    std::string name = known != kNames.end() ? known->second : key;
    if (known == kNames.end()) std::replace(name.begin(), name.end(), '_', ' ');
    name.resize(std::max<size_t>(name.size(), 28), ' ');
    out += name +
           (value.is_number_integer() ? format("%12.0f", value.get<double>())
                                      : format("%12.2f", value.get<double>())) +
           "\n";
  }
  return out;
}

std::string bench_svg(const std::vector<BenchRequest>& requests, double duration,
                      const std::string& title) {
  constexpr double kWidth = 960, kLeft = 20;
  const double row =
      std::clamp(600.0 / static_cast<double>(std::max<size_t>(1, requests.size())), 0.5, 8.0);
  const double height = row * static_cast<double>(requests.size());
  std::vector<const BenchRequest*> order;
  std::vector<double> ttft, tpot, e2el;
  for (const BenchRequest& r : requests) {
    order.push_back(&r);
    if (!r.ok) continue;
    ttft.push_back(r.ttft());
    if (r.output_tokens > 1) tpot.push_back(r.tpot());
    e2el.push_back(r.e2el());
  }
  std::sort(order.begin(), order.end(), [](auto* a, auto* b) { return a->sent < b->sent; });
  const double total = height + 300;
  std::string svg =
      "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 1000 " + format("%g", total) +
      "' font-family='system-ui, sans-serif' font-size='12'><style>.frame{fill:none;stroke:#bbb}"
      ".line{fill:none;stroke:#0b62a4;stroke-width:1.5}.wait{fill:#d9d9d9}.run{fill:#0b62a4}.bad{"
      "fill:#c0392b}"
      "text{fill:#444}.name{font-weight:600}.title{font-size:16px;font-weight:600;fill:#111}</"
      "style>"
      "<rect width='1000' height='" +
      format("%g", total) +
      "' fill='#fff'/>"
      "<text x='20' y='28' class='title'>" +
      title +
      "</text>"
      "<text x='20' y='48'>each request from its sending to its last token; grey: until the first "
      "token</text>"
      "<g transform='translate(" +
      format("%g", kLeft) + ",60)'>";
  double y = 0;
  const double scale = duration > 0 ? kWidth / duration : 0;
  const auto bar = [&](double from, double to, const char* kind) {
    svg += "<rect x='" + format("%.1f", from * scale) + "' y='" + format("%.1f", y) + "' width='" +
           format("%.1f", std::max(0.3, (to - from) * scale)) + "' height='" +
           format("%.2f", row * 0.85) + "' class='" + kind + "'/>";
  };
  for (const BenchRequest* r : order) {
    if (!r->ok) {
      bar(r->sent, r->last, "bad");
    } else {
      bar(r->sent, r->first, "wait");
      bar(r->first, r->last, "run");
    }
    y += row;
  }
  svg += "<text x='0' y='" + format("%.0f", y + 16) + "'>0 s</text><text x='960' y='" +
         format("%.0f", y + 16) + "' text-anchor='end'>" + format("%.1f s", duration) +
         "</text></g><g transform='translate(20," + format("%.0f", height + 130) + ")'>" +
         distribution("TTFT", ttft, 0) + distribution("TPOT", tpot, 330) +
         distribution("E2EL", e2el, 660) + "</g></svg>\n";
  return svg;
}

}  // namespace tandem::launcher
