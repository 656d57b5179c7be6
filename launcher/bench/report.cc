#include "launcher/bench/report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <set>
#include <utility>

namespace tandem::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostFailures = 20;  // kinds of them that are told apart

std::string print_number(const char* pattern, double value) {
  char text[64];
  std::snprintf(text, sizeof text, pattern, value);
  return text;
}

// "99" → "p99", "99.9" → "p99.9".
std::string percentile_name(double q) { return "p" + print_number("%g", q); }

void add_figures(Json& out, const std::string& name, const std::vector<double>& seconds,
                 const ReportOptions& options) {
  if (seconds.empty()) return;
  const auto n = static_cast<double>(seconds.size());
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

// Requests under way at once, at most.
int peak_concurrency(const std::vector<BenchRequest>& requests) {
  std::vector<std::pair<double, int>> changes;  // an end stands before a start at the same time
  for (const BenchRequest& r : requests) {
    changes.emplace_back(r.sent, 1);
    changes.emplace_back(r.last, -1);
  }
  std::sort(changes.begin(), changes.end());
  int now = 0, most = 0;
  for (const auto& [time, change] : changes) most = std::max(most, now += change);
  return most;
}

// Those of one kind and message together, the most frequent first.
Json group_failures(const std::vector<BenchRequest>& requests) {
  std::map<std::pair<std::string, std::string>, int> counts;
  for (const BenchRequest& r : requests)
    if (r.failed()) ++counts[{r.failure, r.message}];
  std::vector<std::pair<std::pair<std::string, std::string>, int>> order(counts.begin(),
                                                                         counts.end());
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  Json out = Json::array();
  int others = 0;
  for (const auto& [what, count] : order) {
    if (out.size() < kMostFailures)
      out.push_back({{"failure", what.first}, {"count", count}, {"message", what.second}});
    else
      others += count;
  }
  if (others > 0)
    out.push_back({{"failure", "others"}, {"count", others}, {"message", "with other messages"}});
  return out;
}

// What a reader has to know of the figures.
Json notes_on(const std::vector<BenchRequest>& requests) {
  int64_t tokens = 0, events = 0;
  int answers = 0, whole = 0, counted = 0;
  for (const BenchRequest& r : requests) {
    if (r.failed()) continue;
    ++answers;
    whole += r.first < 0 && r.output_tokens > 0;
    counted += r.is_counted && r.events > 0;
    if (r.events == 0) continue;
    tokens += r.output_tokens;
    events += r.events;
  }
  Json out = Json::array();
  if (whole > 0)
    out.push_back(std::to_string(whole) +
                  " answers came whole, not as a stream: they have no TTFT, TPOT and ITL");
  if (counted > 0)
    out.push_back(std::to_string(counted) +
                  " answers had no usage: their tokens are counted as events that brought text");
  if (tokens > events + answers)
    out.push_back(std::to_string(tokens) + " tokens came in " + std::to_string(events) +
                  " events: ITL is the time between events, TPOT the time of a token");
  return out;
}

struct Column {
  std::string key, title;
};

void add_row(std::string& out, const std::string& name, const Json& value) {
  out += name;
  out.append(name.size() < 28 ? 28 - name.size() : 1, ' ');
  out += value.is_number_integer() ? print_number("%12.0f", value.get<double>())
                                   : print_number("%12.2f", value.get<double>());
  out += "\n";
}

// TTFT, TPOT, …: a line each.
void add_latencies(std::string& out, const Json& summary, const ReportOptions& options) {
  std::vector<Column> columns{{"mean_", "mean"}, {"median_", "median"}, {"std_", "std dev"}};
  for (const double q : options.percentiles)
    columns.push_back({percentile_name(q) + "_", percentile_name(q)});
  bool has_head = false;
  for (const auto& [key, name] :
       {Column{"ttft", "TTFT, time to first token"}, Column{"tpot", "TPOT, time per token after"},
        Column{"itl", "ITL, time between events"}, Column{"e2el", "E2EL, end to end"}}) {
    if (!summary.contains("mean_" + key + "_ms")) continue;
    if (!has_head) {
      out += "\nMilliseconds                ";
      for (const Column& c : columns) {
        char text[32];
        std::snprintf(text, sizeof text, "%11s", c.title.c_str());
        out += text;
      }
      out += "\n";
      has_head = true;
    }
    char text[32];
    std::snprintf(text, sizeof text, "%-28s", name.c_str());
    out += text;
    for (const Column& c : columns)
      out += print_number("%11.2f", summary.at(c.key + key + "_ms").get<double>());
    out += "\n";
  }
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

Json summarize(const std::vector<BenchRequest>& requests, double duration,
               const ReportOptions& options) {
  std::vector<double> ttft, tpot, itl, e2el;
  int completed = 0, good = 0;
  int64_t input = 0, output = 0;
  double audio = 0;
  for (const BenchRequest& r : requests) {
    if (r.failed()) continue;
    ++completed;
    good += is_good(r, options.goodput);
    input += r.input_tokens;
    output += r.output_tokens;
    audio += r.audio_seconds;
    if (r.first >= 0) ttft.push_back(r.ttft());
    if (r.has_tpot()) tpot.push_back(r.tpot());
    itl.insert(itl.end(), r.gaps.begin(), r.gaps.end());
    e2el.push_back(r.e2el());
  }
  Json out;
  out["duration"] = duration;
  out["completed"] = completed;
  out["failed"] = requests.size() - static_cast<size_t>(completed);
  if (completed > 0) {
    out["max_concurrent_requests"] = peak_concurrency(requests);
    out["total_input_tokens"] = input;
    out["total_output_tokens"] = output;
    out["request_throughput"] = completed / duration;
    if (!options.goodput.empty()) out["request_goodput"] = good / duration;
    out["output_throughput"] = static_cast<double>(output) / duration;
    out["total_token_throughput"] = static_cast<double>(input + output) / duration;
    if (audio > 0) {
      out["total_audio_seconds"] = audio;
      out["rtfx"] = audio / duration;
    }
    add_figures(out, "ttft", ttft, options);
    add_figures(out, "tpot", tpot, options);
    add_figures(out, "itl", itl, options);
    add_figures(out, "e2el", e2el, options);
    if (Json notes = notes_on(requests); !notes.empty()) out["notes"] = std::move(notes);
  }
  if (Json errors = group_failures(requests); !errors.empty()) out["errors"] = std::move(errors);
  return out;
}

std::string format_table(const Json& summary, const ReportOptions& options) {
  std::string out;
  if (summary.at("completed") == 0) {
    out = "No request succeeded.\n";
  } else {
    static const std::set<std::string> kOfTokens{"total_output_tokens", "output_throughput",
                                                 "total_token_throughput"};
    const bool is_silent = summary.at("total_output_tokens") == 0;  // embeddings, say
    for (const auto& [key, name] :
         {Column{"completed", "Successful requests"}, Column{"failed", "Failed requests"},
          Column{"duration", "Duration (s)"}, Column{"max_concurrent_requests", "Most at once"},
          Column{"total_input_tokens", "Input tokens"},
          Column{"total_output_tokens", "Generated tokens"},
          Column{"request_throughput", "Requests/s"}, Column{"request_goodput", "Good requests/s"},
          Column{"output_throughput", "Generated tokens/s"},
          Column{"total_token_throughput", "Input and generated/s"},
          Column{"total_audio_seconds", "Audio (s)"}, Column{"rtfx", "Audio s/s (RTFx)"}})
      if (summary.contains(key) && !(is_silent && kOfTokens.count(key) > 0))
        add_row(out, name, summary[key]);
    add_latencies(out, summary, options);
  }
  if (summary.contains("notes"))
    for (const Json& note : summary["notes"]) out += "Note: " + note.get<std::string>() + ".\n";
  if (summary.contains("errors")) {
    out += "Failures:\n";
    for (const Json& e : summary["errors"])
      out += "  " + e["failure"].get<std::string>() + " × " +
             std::to_string(e["count"].get<int>()) + ": " + e["message"].get<std::string>() + "\n";
  }
  return out;
}

}  // namespace tandem::bench
