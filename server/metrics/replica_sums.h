// Statistics of all replicas together.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "runtime/protocol/tandem.pb.h"
#include "runtime/protocol/token_histogram.h"

namespace tandem::server {

// Steps by their tokens, as TokenHistogram counts them.
struct StepSums {
  std::vector<double> counts = std::vector<double>(TokenHistogram::kBounds.size() + 1);
  double tokens = 0;

  void add(const proto::SchedulerStats& stats) {
    const auto& buckets = stats.step_tokens_buckets();
    for (size_t i = 0; i < counts.size() && i < static_cast<size_t>(buckets.size()); ++i)
      counts[i] += static_cast<double>(buckets[static_cast<int>(i)]);
    tokens += static_cast<double>(stats.step_tokens());
  }
};

// Drafts, their tokens, and those that were right.
struct DraftSums {
  double drafts = 0, tokens = 0, accepted = 0;
  std::vector<double> accepted_at = {};  // by place in the draft

  void add(const proto::SchedulerStats& stats) {
    drafts += static_cast<double>(stats.spec_drafts());
    tokens += static_cast<double>(stats.spec_draft_tokens());
    accepted += static_cast<double>(stats.spec_accepted_tokens());
    const auto& at = stats.spec_accepted_tokens_per_position();
    accepted_at.resize(std::max(accepted_at.size(), static_cast<size_t>(at.size())));
    for (int i = 0; i < at.size(); ++i)
      accepted_at[static_cast<size_t>(i)] += static_cast<double>(at[i]);
  }
};

// Pipeline stages: what each computed, and how long steps were under way.
struct StageSums {
  std::vector<double> busy = {};  // seconds, by stage; without stages empty
  double whole = 0;

  void add(const proto::SchedulerStats& stats) {
    const auto& seconds = stats.stage_seconds();
    busy.resize(std::max(busy.size(), static_cast<size_t>(seconds.size())));
    for (int i = 0; i < seconds.size(); ++i) busy[static_cast<size_t>(i)] += seconds[i];
    whole += stats.pipeline_seconds();
  }
};

}  // namespace tandem::server
