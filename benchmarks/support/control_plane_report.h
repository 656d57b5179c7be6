// What bench_control_plane measures, and how it is printed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tandem::bench {

// One measurement, in microseconds.
struct Figures {
  double period = 0, p99 = 0, added = 0, round_trip = 0, engine_cpu = 0;
};

inline double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  const auto at = static_cast<size_t>(q * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(at), values.end());
  return values[at];
}

// A set-up with its rounds.
struct Row {
  std::string setup;
  int ranks, sequences;
  std::vector<Figures> rounds;

  double median(double Figures::*figure) const {
    std::vector<double> values;
    for (const Figures& f : rounds) values.push_back(f.*figure);
    return quantile(values, 0.5);
  }
  double least(double Figures::*figure) const {
    double out = rounds.at(0).*figure;
    for (const Figures& f : rounds) out = std::min(out, f.*figure);
    return out;
  }
};

// "least": the least period of all rounds less the least of the floor's.
inline void print(const std::vector<Row>& rows) {
  const Row* floor = nullptr;
  for (const Row& row : rows) {
    if (row.setup == "floor") floor = &row;
    std::printf("| %d | %s | %d | %.0f | %.0f | %.0f | %.0f | %.0f | %.0f |\n", row.sequences,
                row.setup.c_str(), row.ranks, row.median(&Figures::period),
                row.median(&Figures::p99), row.median(&Figures::added),
                row.least(&Figures::period) - floor->least(&Figures::period),
                row.median(&Figures::round_trip), row.median(&Figures::engine_cpu));
  }
  std::fflush(stdout);
}

inline nlohmann::json to_json(const Row& row) {
  nlohmann::json out = {{"setup", row.setup}, {"ranks", row.ranks}, {"sequences", row.sequences}};
  for (const Figures& f : row.rounds)
    out["rounds"].push_back({{"period_us", f.period},
                             {"p99_us", f.p99},
                             {"added_us", f.added},
                             {"round_trip_us", f.round_trip},
                             {"engine_cpu_us", f.engine_cpu}});
  return out;
}

}  // namespace tandem::bench
