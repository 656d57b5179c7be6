// Continuous batching: which sequences run in the next step, and where their keys and values go.
// Synchronous; one thread.
//
// Rules:
//  - A step computes at most max_num_batched_tokens tokens (encoder + decoder) of at most max_num_seqs
//    sequences. Decodes come first, then unfinished prompts, then swapped groups, then waiting ones, in
//    order of (priority, arrival).
//  - Decoder prompts may be cut into chunks. An encoder input is indivisible: it is computed whole or
//    not at all; one longer than the budget runs in a step of its own. Two such steps do not follow
//    each other while other sequences could decode.
//  - Decoder tokens of a group may run in the step of its encoder (cross keys and values are written
//    first), or in any later one.
//  - When blocks run out, the group last in order is preempted: swapped out if that is cheaper than
//    recomputing and the host pool has room, else freed and recomputed (encoder once, prompt + emitted
//    tokens). A running request never fails; one that can never fit is refused by check_admissible().
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/block_manager.h"
#include "runtime/sequence.h"

namespace tandem {

enum class PreemptionMode : uint8_t { kAuto, kRecompute, kSwap };

struct SchedulerConfig {
  int max_num_seqs = 256;
  int max_num_batched_tokens = 2048;
  int block_size = 16;
  int num_device_blocks = 0;
  int num_host_blocks = 0;
  PreemptionMode preemption = PreemptionMode::kAuto;
};

// A token that the model sampled, or a sequence that something outside (a stop string) finished.
struct SampledToken {
  std::string request_id;
  int64_t seq_id;
  int32_t token;
};

class Scheduler {
 public:
  explicit Scheduler(const SchedulerConfig& config);

  // Throws InputError (kResource) with the numbers if the group could never run: its encoder sequence
  // and the longest decoder sequences that max_tokens allows against the pool, and n against
  // max_num_seqs.
  void check_admissible(const SequenceGroup& group) const;
  void add_seq_group(std::unique_ptr<SequenceGroup> group);
  // Frees all it holds, self and cross; false if there is no such request.
  bool abort_seq_group(const std::string& request_id);

  // The next step; empty groups and deltas when nothing can run.
  proto::StepInput schedule(double now);
  // After the step was computed: advances what was scheduled and appends the sampled tokens.
  void complete_step(const std::vector<SampledToken>& sampled);
  // Marks a sequence as finished and frees its blocks.
  void finish_sequence(const std::string& request_id, int64_t seq_id, SequenceStatus status);
  // Removes groups whose sequences have all finished, and frees their cross-attention blocks.
  void free_finished_seq_groups();

  bool has_unfinished() const;
  int num_waiting() const;
  int num_running() const;
  int num_swapped() const;
  int num_preemptions() const;  // so far
  SequenceGroup* find(const std::string& request_id);
  const BlockManager& block_manager() const { return blocks_; }

  // Queues and statuses agree, every running sequence has a table that covers it, blocks add up.
  void check_integrity() const;

 private:
  void free_seq_group_cross_attn_blocks(const SequenceGroup& group);

  SchedulerConfig config_;
  BlockManager blocks_;
};

}  // namespace tandem
