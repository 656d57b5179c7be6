// What a scheduler is told once.
#pragma once

#include <cstdint>

#include "runtime/scheduling/drafts/step_times.h"

namespace tandem {

enum class PreemptionMode : uint8_t { kAuto, kRecompute, kSwap };

// Drafts: tokens that are guessed, and verified in one step with the sequence's next one (§10).
struct SpeculationConfig {
  int num_tokens = 0;  // of a sequence in a step, at most; 0: no drafts
  // They are looked up by the last so many tokens, the most first.
  int lookup_min = 1;
  int lookup_max = 4;
  // With prefix caching: tokens of ended sequences in which they are looked up besides, at most.
  int recent_tokens = 1 << 16;
  int disable_by_batch_size = 32;  // no drafts while more sequences run
  int vocabulary = 0;              // ids from there on are not the decoder's
  bool draft_model = false;        // workers have one, which makes drafts too
  // Of its step, as a share of one of the model with as many rows. 0: what workers measure.
  double draft_cost = 0;
  double rows_of_a_step = kRowsOfAStep;  // step_times.h
};

struct SchedulerConfig {
  int max_num_seqs = 256;
  int max_num_batched_tokens = 2048;
  int block_size = 16;
  int num_device_blocks = 0;
  int num_host_blocks = 0;
  PreemptionMode preemption = PreemptionMode::kAuto;
  // kAuto: the time to move one cached token's keys and values out and back, in units of the time
  // to compute one token.
  double swap_cost = 0.05;
  // Steps of a group that are scheduled and not completed. 1: it waits for each answer.
  int max_steps_in_flight = 1;
  // Of the workers' pipeline: so many steps of different groups are under way at a time (§7).
  int stages = 1;
  // Ranks that run encoders for the others, and the first of them; 0: there are none.
  int encoder_ranks = 0;
  int first_encoder_rank = 0;
  // Workers search beams as we do (searches_ahead(), token_choice.h), over rows of so many entries:
  // then rounds run ahead of their results. 0: they do not.
  int beam_vocabulary = 0;
  // Decoder prompts attend to all of themselves (ModelLimits::whole_prompts).
  bool whole_prompts = false;
  // Full blocks of decoder tokens, and encoder results, are kept for whoever has the same (§8). Of
  // prefix caching is whatever ended sequences leave for others: texts for their drafts, too (§10).
  bool enable_prefix_caching = false;
  bool enable_encoder_cache = false;
  SpeculationConfig speculation = {};

  // Steps that are scheduled and not completed.
  int most_in_flight() const { return max_steps_in_flight + stages - 1; }
};

}  // namespace tandem
