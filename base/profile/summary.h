// A profile in figures: the ops' shares of a rank's steps, and the time its threads waited.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/profile/profile.h"

namespace tandem {

// Times in nanoseconds. All but `span` are within steps of which nothing was dropped. A thread
// other than the first waits whenever it is not busy with a region.
struct RankSummary {
  struct Row {
    std::string name;
    int64_t calls = 0, time = 0;
    int64_t waiting = 0;  // of all threads together, while it ran
  };
  struct Thread {
    std::string name;
    int64_t busy = 0;
    int64_t at_barriers = 0;  // others still had tasks of a region that it shared, or could share
    int64_t for_one = 0;      // the thread that runs the steps worked alone
    int64_t for_ranks = 0;    // in collectives
  };

  std::string name;
  int64_t span = 0;                     // from the first step's begin to the last one's end
  int64_t time = 0;                     // of the steps
  std::vector<Row> steps, ops, phases;  // by what they took, most first; ops and collectives
  int64_t between_ops = 0;
  std::vector<Thread> threads;
  bool in_pipeline = false;  // it exchanged something with another stage
  int64_t for_stages = 0;    // within steps

  // Of the threads' time in steps, 0 to 1.
  double share_at_barriers() const;
  double share_for_one() const;
  // Of the span, 0 to 1: what a rank of a pipeline did not compute, between steps or within.
  double share_idle() const;
};

struct ProfileSummary {
  std::vector<RankSummary> ranks;        // that recorded steps
  std::vector<RankSummary::Row> engine;  // schedulers and engines
  int64_t dropped = 0;
};

ProfileSummary summarize_profile(const Profile& profile);
// Tables; "" if nothing was recorded.
std::string format_summary(const ProfileSummary& summary);

}  // namespace tandem
