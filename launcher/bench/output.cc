#include "launcher/bench/output.h"

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "base/json.h"
#include "launcher/bench/plot.h"

namespace tandem::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kOutputGroup[] = "Figures";

void write_file(const std::string& path, const std::string& text, const char* flag) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  if (!file.flush()) throw invalid_request(flag, "cannot write " + path);
}

// Whether it will be possible, before the work.
void check_file(const std::string& path, const char* flag) {
  const bool there = std::filesystem::exists(path);
  const bool writable = std::ofstream(path, std::ios::binary | std::ios::app).good();
  const int why = errno;
  if (!writable) throw invalid_request(flag, "cannot write " + path + ": " + std::strerror(why));
  if (!there) std::remove(path.c_str());
}

}  // namespace

void OutputOptions::check() const {
  parse();
  if (!save.empty()) check_file(save, "--save-result");
  if (!plot.empty()) check_file(plot_base(plot) + ".html", "--plot");
}

void OutputOptions::add(CLI::App& app) {
  app.add_option("--metric-percentiles", percentiles, "percentiles to report, with commas between")
      ->capture_default_str()
      ->group(kOutputGroup);
  app.add_option("--save-result", save, "file for the figures as JSON, under vLLM's names")
      ->type_name("FILE")
      ->group(kOutputGroup);
}

void OutputOptions::add_goodput(CLI::App& app) {
  app.add_option("--goodput", goodput,
                 "count requests that keep all these bounds: ttft:MS, tpot:MS, e2el:MS")
      ->type_name("NAME:MS")
      ->group(kOutputGroup);
}

void OutputOptions::add_plot(CLI::App& app) {
  app.add_option("--plot", plot,
                 "picture of all requests over time: FILE.html, a page for a browser, and its "
                 "Vega-Lite specification with the data, FILE.vl.json")
      ->type_name("FILE")
      ->group(kOutputGroup);
}

ReportOptions OutputOptions::parse() const {
  ReportOptions report;
  report.percentiles.clear();
  std::stringstream list(percentiles);
  for (std::string word; std::getline(list, word, ',');) {
    char* end = nullptr;
    const double q = std::strtod(word.c_str(), &end);
    if (word.empty() || *end != 0 || !(q >= 0 && q <= 100))
      throw invalid_request("--metric-percentiles", "\"" + word + "\" is not from 0 to 100");
    report.percentiles.push_back(q);
  }
  for (const std::string& pair : goodput) {
    const size_t colon = pair.find(':');
    const std::string name = pair.substr(0, colon);
    char* end = nullptr;
    const double most =
        colon == std::string::npos ? -1 : std::strtod(pair.c_str() + colon + 1, &end);
    if ((name != "ttft" && name != "tpot" && name != "e2el") || !(most > 0) || *end != 0)
      throw invalid_request("--goodput", "\"" + pair + "\" is not ttft, tpot or e2el:MILLISECONDS");
    report.goodput[name] = most;
  }
  return report;
}

int OutputOptions::write(Json head, const std::vector<BenchRequest>& requests, double duration,
                         const std::string& title) const {
  const ReportOptions options = parse();
  const Json summary = summarize(requests, duration, options);
  std::fputs(format_table(summary, options).c_str(), stdout);
  head.update(summary);
  save_json(head);
  if (!plot.empty()) {
    const std::string base = plot_base(plot);
    const Json specification = plot_specification(requests, title);
    write_file(base + ".vl.json", json_text(specification, 1) + "\n", "--plot");
    write_file(base + ".html", plot_page(specification, title), "--plot");
  }
  return summary.at("failed") == 0 ? 0 : 1;
}

void OutputOptions::save_json(const Json& figures) const {
  if (!save.empty()) write_file(save, json_text(figures, 1) + "\n", "--save-result");
}

std::string date_now() {
  const std::time_t now = std::time(nullptr);
  char text[32];
  std::strftime(text, sizeof text, "%Y%m%d-%H%M%S", std::localtime(&now));
  return text;
}

nlohmann::json parse_object(const std::string& text, const char* flag) {
  auto value = json_or_discarded<nlohmann::json>(text);
  if (!value.is_object()) throw invalid_request(flag, "\"" + text + "\" is not a JSON object");
  return value;
}

}  // namespace tandem::bench
