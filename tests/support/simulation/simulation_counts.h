// What simulated clusters have seen, over many seeds: a run that saw too little of something shows
// nothing.
#pragma once

#include <cstdint>

namespace tandem::testing_support {

struct SimulationCounts {
  uint64_t events = 0, requests = 0, completed = 0, kills = 0, crashes = 0, hangs = 0, lies = 0;
  uint64_t slow = 0, refused_poison = 0, cancelled = 0, timed_out = 0, too_large = 0, drained = 0;
  uint64_t reconnected = 0, resumed = 0, vanished = 0, restarts = 0, preemptions = 0, given_up = 0,
           overloaded = 0, reused_ids = 0, several = 0, pooled = 0, silent = 0, accepted = 0;
  // Of pipeline stages: times that all of a group came to compute; that a step waited for tokens.
  uint64_t all_stages_busy = 0, waits_for_tokens = 0;
  // Of ranks that run encoders: their steps; that a step waited for what they send.
  uint64_t encoder_steps = 0, waits_for_letters = 0;
};

}  // namespace tandem::testing_support
