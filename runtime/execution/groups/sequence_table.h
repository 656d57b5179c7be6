// A worker's copy of the groups it knows: full metadata once, deltas after. Messages may come from
// another process: whatever they hold, they are applied or refused. Synchronous; one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/execution/groups/group_checks.h"
#include "runtime/execution/groups/worker_group.h"
#include "runtime/protocol/tandem.pb.h"

namespace tandem {

class SequenceTable {
 public:
  explicit SequenceTable(const SequenceLimits& limits);

  // Applies a step's news, and returns the groups scheduled in it, in the order of the message
  // (groups, then deltas); the pointers are good until the next apply(). What is finished and not
  // known is ignored. Call it before blocks are moved: swap and copy lists are checked as well.
  // Throws std::runtime_error naming the field if the message is inconsistent (unknown group or
  // sequence, chunk beyond the tokens that are known, table too short, block out of range). Then
  // the group at fault is forgotten, and of the message's other groups any may have been applied.
  std::vector<WorkerGroup*> apply(const proto::StepInput& step);

  // After the step: advances num_computed by the chunk, also the encoder's.
  void advance(const std::vector<WorkerGroup*>& scheduled);
  // A token was sampled for a sequence of the group, which must have it.
  void append_token(WorkerGroup& group, int64_t seq_id, int32_t token);
  // Behind a draft that was right, which is the sequence's last token: it is computed.
  void append_behind_draft(WorkerGroup& group, int64_t seq_id, int32_t token);
  // The same for a token that only a device or another rank knows so far; `id` < 0 stands for it
  // until know() says which it is. By then the sequence may have gone, or come again.
  struct PendingToken {
    std::string request_id;
    int64_t seq_id = 0;
    size_t index = 0;  // of the output token
    uint64_t incarnation = 0;
  };
  PendingToken append_pending(WorkerGroup& group, int64_t seq_id, int32_t id);
  void know(const PendingToken& pending, int32_t token) { know(pending, std::span(&token, 1)); }
  // The last token of a sequence, and those behind it: each is behind a draft that was right.
  void know(const PendingToken& pending, std::span<const int32_t> tokens);
  // Whether some last token of the group is not known. False if there is no such group.
  bool has_unknown_tokens(const std::string& request_id) const;

  // A round of a group with beams_ahead was launched. Its beams may have changed places by the next
  // one: what is here of their tokens but the last, and of their full blocks, is void from now on.
  // In place of the first `pages` blocks of beam i comes reference(i, page), below 0. In the first
  // round the others come to be where sequence 0 is.
  void go_on(WorkerGroup& group, int pages, const std::function<int32_t(int, int)>& reference);
  // Sequences that have gone, or have come anew, since the last call.
  std::vector<int64_t> take_forgotten() { return std::exchange(forgotten_, {}); }
  size_t size() const { return groups_.size(); }
  // Ids, tables and counters agree, in every group.
  void check_integrity() const;

 private:
  void forget(const std::string& request_id);
  void forget_sequence(int64_t seq_id);
  WorkerGroup& take_full(const proto::SequenceGroupMetadata& news);
  WorkerGroup& take_delta(const proto::SequenceGroupDelta& delta);

  SequenceLimits limits_;
  uint64_t step_ = 0;                                    // number of apply() calls
  std::unordered_map<std::string, WorkerGroup> groups_;  // by request id
  std::unordered_map<int64_t, WorkerGroup*> owners_;     // by sequence id
  std::vector<int64_t> forgotten_;
};

}  // namespace tandem
