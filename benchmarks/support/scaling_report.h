// The figures of a layout's runs: times of rounds, medians, and what is checked of each run.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/support/scaling_ranks.h"

namespace tandem::bench {

// Processor time that others than this process and its children have used, since it was made.
class OthersTime {
 public:
  OthersTime() : begin_(clock_seconds()), busy_(busy_seconds()), own_(own_seconds()) {}
  // As a share of all cores.
  double share() const {
    const double cores = static_cast<double>(sysconf(_SC_NPROCESSORS_ONLN));
    const double others = busy_seconds() - busy_ - (own_seconds() - own_);
    return std::max(0.0, others / (cores * (clock_seconds() - begin_)));
  }

 private:
  // user, nice, system, not idle and iowait, irq, softirq, steal; of all cores.
  static double busy_seconds() {
    std::ifstream file("/proc/stat");
    std::string word;
    file >> word;
    double sum = 0, value = 0;
    for (int i = 0; i < 8 && file >> value; ++i)
      if (i != 3 && i != 4) sum += value;
    return sum / static_cast<double>(sysconf(_SC_CLK_TCK));
  }
  static double own_seconds() {
    double sum = 0;
    for (const int whose : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
      rusage usage{};
      getrusage(whose, &usage);
      for (const timeval& time : {usage.ru_utime, usage.ru_stime})
        sum += static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
    }
    return sum;
  }

  double begin_, busy_, own_;
};

inline double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 != 0 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// Throws if a rank exchanged other than the model says.
inline void check_traffic(const LayoutRun& run, const std::vector<RankResult>& ranks) {
  const auto work = work_of(run);
  for (size_t r = 0; r < ranks.size(); ++r)
    for (size_t i = 0; i < run.plan.steps.size(); ++i) {
      const ScalingStep& step = ranks[r].steps.at(i);
      const StepWork& model = work[r][i];
      if (step.sums == model.sums && step.messages == model.messages) continue;
      const auto text = [](const Traffic& sums, const Traffic& messages) {
        return std::to_string(sums.calls) + " sums of " + std::to_string(sums.bytes) +
               " bytes and " + std::to_string(messages.calls) + " messages of " +
               std::to_string(messages.bytes);
      };
      throw std::runtime_error(run.layout.name() + ", rank " + std::to_string(r) + ", step " +
                               std::to_string(i) + ": " + text(step.sums, step.messages) +
                               ", and the model says " + text(model.sums, model.messages));
    }
}

// A round: until the last request has its first token, and from there to the last one's last token.
struct RoundTimes {
  double encoding = 0, decoding = 0;
  double whole() const { return encoding + decoding; }
};

// Steps [first, end) of a round.
inline RoundTimes times_of(const LayoutRun& run, const std::vector<RankResult>& ranks, size_t first,
                           size_t end) {
  double begin = ranks[0].steps[first].begin, encoded = 0, done = 0;
  for (const RankResult& rank : ranks)
    for (size_t i = first; i < end; ++i) {
      begin = std::min(begin, rank.steps[i].begin);
      done = std::max(done, rank.steps[i].end);
      if (run.plan.shapes[i].encoder_rows > 0) encoded = std::max(encoded, rank.steps[i].end);
    }
  return {encoded - begin, done - encoded};
}

inline std::pair<size_t, size_t> steps_of_round(const ScalingPlan& plan, size_t round) {
  return {plan.rounds[round],
          round + 1 < plan.rounds.size() ? plan.rounds[round + 1] : plan.steps.size()};
}

inline constexpr char kScalingHead[] =
    "| layout | ranks are | scaling | batch | tokens/s | encoding ms | decoding ms | of a rank, "
    "computing | exchanging |\n|---|---|---|---|---|---|---|---|---|\n";

struct ScalingRow {
  std::string kind, ranks_are;
  LayoutRun run;
  std::vector<double> encoding = {}, decoding = {}, whole = {};  // of rounds
  std::vector<double> computing = {}, exchanging = {};  // of the rank that computes most, a round

  int batch() const { return run.shape.batch * run.layout.dp; }

  void add(const std::vector<RankResult>& ranks) {
    for (size_t round = 1; round < run.plan.rounds.size(); ++round) {  // the first one warms up
      const auto [first, end] = steps_of_round(run.plan, round);
      const RoundTimes times = times_of(run, ranks, first, end);
      encoding.push_back(times.encoding);
      decoding.push_back(times.decoding);
      whole.push_back(times.whole());
      std::pair<double, double> most;
      for (const RankResult& rank : ranks) {
        std::pair<double, double> own;
        for (size_t i = first; i < end; ++i) {
          own.first += rank.steps[i].computation();
          own.second += rank.steps[i].exchange;
        }
        most = std::max(most, own);
      }
      computing.push_back(most.first);
      exchanging.push_back(most.second);
    }
  }

  std::string text() const {
    char line[256];
    std::snprintf(line, sizeof line, "| %s | %d %s | %s | %d | %.0f | %.0f | %.0f | %.0f | %.0f |",
                  run.layout.name().c_str(), run.layout.ranks(), ranks_are.c_str(), kind.c_str(),
                  batch(), batch() * run.shape.new_tokens / median_of(whole),
                  median_of(encoding) * 1e3, median_of(decoding) * 1e3, median_of(computing) * 1e3,
                  median_of(exchanging) * 1e3);
    return line;
  }
};

// A run. "rounds" has the steps of each round, by rank: [begin, end, exchange, core] in seconds
// from the round's begin. The others are of the last round's steps. "work" has the model's counts,
// by half of a step and rank. "shapes" has the tokens of both sides, and how many steps of the
// round are heard before.
inline nlohmann::json json_of(const ScalingRow& row, const std::vector<RankResult>& ranks,
                              double others) {
  using nlohmann::json;
  const ScalingPlan& plan = row.run.plan;
  json rounds = json::array(), work = json::object(), shapes = json::array();
  for (size_t round = 1; round < plan.rounds.size(); ++round) {
    const auto [first, end] = steps_of_round(plan, round);
    const RoundTimes times = times_of(row.run, ranks, first, end);
    double begin = ranks[0].steps[first].begin;
    for (const RankResult& rank : ranks) begin = std::min(begin, rank.steps[first].begin);
    json steps = json::array();
    for (const RankResult& rank : ranks) {
      steps.emplace_back();
      for (size_t i = first; i < end; ++i) {
        const ScalingStep& step = rank.steps[i];
        steps.back().push_back({step.begin - begin, step.end - begin, step.exchange, step.core});
      }
    }
    rounds.push_back(
        {{"encoding", times.encoding}, {"decoding", times.decoding}, {"steps", steps}});
  }
  const auto [first, end] = steps_of_round(plan, plan.rounds.size() - 1);
  int64_t heard = -static_cast<int64_t>(first);
  for (size_t i = 0; i < end; ++i) {
    heard += plan.shapes[i].heard;
    if (i >= first)
      shapes.push_back({plan.shapes[i].encoder_rows, plan.shapes[i].decoder_rows, heard});
  }
  for (const char* half : {"encoder", "decoder"}) {
    work[half] = json::array();
    for (const auto& rank : work_of(row.run, half)) {
      work[half].emplace_back();
      for (size_t i = first; i < end; ++i) {
        const StepWork& w = rank[i];
        work[half].back().push_back({w.products, w.weight_bytes, w.pairs, w.kv_bytes, w.norm_rows,
                                     w.norms, w.sums.calls, w.sums.bytes, w.messages.calls,
                                     w.messages.bytes});
      }
    }
  }
  const ScalingLayout& layout = row.run.layout;
  return {{"layout", layout.name()},
          {"tp", layout.tp},
          {"pp", layout.pp},
          {"dp", layout.dp},
          {"ranks_are", row.ranks_are},
          {"scaling", row.kind},
          {"batch", row.batch()},
          {"source_tokens", row.run.shape.source_tokens},
          {"new_tokens", row.run.shape.new_tokens},
          {"others", others},
          {"rounds", rounds},
          {"shapes", shapes},
          {"work_columns",
           {"products", "weight_bytes", "pairs", "kv_bytes", "norm_rows", "norms", "sums",
            "sum_bytes", "messages", "message_bytes"}},
          {"work", work}};
}

}  // namespace tandem::bench
