// What becomes of the figures: a table on standard output, files.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "launcher/bench/report.h"
#include "launcher/cli.h"

namespace tandem::bench {

struct OutputOptions {
  std::string percentiles = "50,95,99", save, plot;
  std::vector<std::string> goodput;

  void add(CLI::App& app);  // --metric-percentiles, --save-result
  void add_goodput(CLI::App& app);
  void add_plot(CLI::App& app);
  // Checked. Throws InputError naming the flag.
  // Before the work: throws InputError for what parse() does, and for files that cannot be written.
  void check() const;
  ReportOptions parse() const;
  // `head`: what the run was, in front of the figures in the file. Returns the exit status: 1 if a
  // request failed.
  int write(nlohmann::ordered_json head, const std::vector<BenchRequest>& requests, double duration,
            const std::string& title) const;
  void save_json(const nlohmann::ordered_json& figures) const;  // if there is --save-result
};

// "20261122-153000", local time.
std::string date_now();
// Throws InputError naming the flag if the text is no JSON object.
nlohmann::json parse_object(const std::string& text, const char* flag);

}  // namespace tandem::bench
