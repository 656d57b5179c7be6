#include "runtime/execution/groups/sequence_table.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "base/check.h"
#include "runtime/execution/groups/group_messages.h"

namespace tandem {

SequenceTable::SequenceTable(const SequenceLimits& limits) : limits_(limits) {
  TANDEM_CHECK_GT(limits.block_size, 0);
  TANDEM_CHECK_GE(limits.num_device_blocks, 0);
  TANDEM_CHECK_GE(limits.num_host_blocks, 0);
  // Slots are int32.
  TANDEM_CHECK_LE(int64_t{limits.num_device_blocks} * limits.block_size,
                  std::numeric_limits<int32_t>::max());
}

std::vector<WorkerGroup*> SequenceTable::apply(const proto::StepInput& step) {
  ++step_;
  for (const std::string& id : step.finished_request_ids()) forget(id);
  for (const int64_t id : step.finished_seq_ids()) forget_sequence(id);
  check_copies(limits_, step);
  std::vector<WorkerGroup*> scheduled;
  scheduled.reserve(static_cast<size_t>(step.groups_size()) +
                    static_cast<size_t>(step.deltas_size()));
  const auto take_all = [&](const auto& list, const char* name, auto take_one) {
    for (int i = 0; i < list.size(); ++i) {
      try {
        scheduled.push_back(&(this->*take_one)(list[i]));
      } catch (const MessageError& error) {
        forget(list[i].request_id());
        throw std::runtime_error("step input: " + MessageField{name, i, ""}.text() + "." +
                                 error.what());
      }
    }
  };
  take_all(step.groups(), "groups", &SequenceTable::take_full);
  take_all(step.deltas(), "deltas", &SequenceTable::take_delta);
  return scheduled;
}

WorkerGroup& SequenceTable::take_full(const proto::SequenceGroupMetadata& news) {
  const std::string& id = news.request_id();
  const auto known = groups_.find(id);
  if (known != groups_.end() && known->second.last_step == step_)
    throw MessageError("request_id", "\"" + id + "\" comes twice");
  forget(id);
  WorkerGroup& group = groups_[id] = group_of(news, limits_);
  group.last_step = group.incarnation = step_;
  for (size_t i = 0; i < group.seqs.size(); ++i) {
    const int64_t seq_id = group.seqs[i].seq_id;
    if (owners_.emplace(seq_id, &group).second) continue;
    // Whose it was first keeps it; ours go with the group.
    group.seqs.resize(i);
    throw MessageError({"seq_data", static_cast<int>(i), "seq_id"},
                       std::to_string(seq_id) + " is in use");
  }
  return group;
}

WorkerGroup& SequenceTable::take_delta(const proto::SequenceGroupDelta& delta) {
  const auto it = groups_.find(delta.request_id());
  if (it == groups_.end())
    throw MessageError("request_id", "\"" + delta.request_id() + "\" is not known");
  WorkerGroup& group = it->second;
  if (group.last_step == step_)
    throw MessageError("request_id", "\"" + delta.request_id() + "\" comes twice");
  group.last_step = step_;
  apply_delta(delta, limits_, group);
  return group;
}

void SequenceTable::advance(const std::vector<WorkerGroup*>& scheduled) {
  for (WorkerGroup* group : scheduled) {
    for (WorkerSequence& seq : group->seqs) {
      seq.num_computed += seq.chunk;
      seq.chunk = 0;
      seq.forget_drafts();
    }
    if (group->encoder.chunk > 0) group->encoder.frames.values = {};
    group->encoder.num_computed += group->encoder.chunk;
    group->encoder.chunk = 0;
    group->compute_encoder = false;
  }
}

// --- Tokens and beams ----------------------------------------------------------------------------

void SequenceTable::append_token(WorkerGroup& group, int64_t seq_id, int32_t token) {
  WorkerSequence* const seq = group.find(seq_id);
  TANDEM_CHECK(seq != nullptr, "the group does not have the sequence");
  seq->output.push_back(token);
}

void SequenceTable::append_behind_draft(WorkerGroup& group, int64_t seq_id, int32_t token) {
  append_token(group, seq_id, token);
  ++group.find(seq_id)->num_computed;
}

SequenceTable::PendingToken SequenceTable::append_pending(WorkerGroup& group, int64_t seq_id,
                                                          int32_t id) {
  TANDEM_CHECK_LT(id, 0);
  append_token(group, seq_id, id);
  return {group.request_id, seq_id, group.find(seq_id)->output.size() - 1, group.incarnation};
}

void SequenceTable::know(const PendingToken& pending, std::span<const int32_t> tokens) {
  const auto it = groups_.find(pending.request_id);
  if (it == groups_.end() || it->second.incarnation != pending.incarnation) return;
  WorkerSequence* const seq = it->second.find(pending.seq_id);
  if (seq == nullptr) return;
  TANDEM_CHECK_LT(pending.index, seq->output.size());
  TANDEM_CHECK_LT(seq->output[pending.index], 0);
  TANDEM_CHECK(!tokens.empty(), "a token that is not said");
  seq->output[pending.index] = tokens.front();
  if (tokens.size() == 1) return;
  TANDEM_CHECK_EQ(pending.index + 1, seq->output.size());
  for (const int32_t token : tokens.subspan(1)) append_behind_draft(it->second, seq->seq_id, token);
}

bool SequenceTable::has_unknown_tokens(const std::string& request_id) const {
  const auto it = groups_.find(request_id);
  return it != groups_.end() &&
         std::any_of(it->second.seqs.begin(), it->second.seqs.end(), [](const WorkerSequence& seq) {
           return !seq.output.empty() && seq.output.back() < 0;
         });
}

void SequenceTable::go_on(WorkerGroup& group, int pages,
                          const std::function<int32_t(int, int)>& reference) {
  group.goes_on = true;
  for (size_t i = 0; i < group.seqs.size(); ++i) {
    WorkerSequence& seq = group.seqs[i];
    seq.num_computed = group.seqs[0].num_computed;
    TANDEM_CHECK_LE(static_cast<size_t>(pages), seq.blocks.size());
    for (int p = 0; p < pages; ++p)
      seq.blocks[static_cast<size_t>(p)] = reference(static_cast<int>(i), p);
  }
}

// --- Forgetting ----------------------------------------------------------------------------------

void SequenceTable::forget(const std::string& request_id) {
  const auto it = groups_.find(request_id);
  if (it == groups_.end()) return;
  for (const WorkerSequence& seq : it->second.seqs) {
    owners_.erase(seq.seq_id);
    forgotten_.push_back(seq.seq_id);
  }
  groups_.erase(it);
}

void SequenceTable::forget_sequence(int64_t seq_id) {
  const auto owner = owners_.find(seq_id);
  if (owner == owners_.end()) return;
  WorkerGroup& group = *owner->second;
  std::erase_if(group.seqs, [&](const WorkerSequence& seq) { return seq.seq_id == seq_id; });
  owners_.erase(owner);
  forgotten_.push_back(seq_id);
  if (group.seqs.empty()) forget(std::string(group.request_id));
}

// --- Integrity -----------------------------------------------------------------------------------

void SequenceTable::check_integrity() const {
  size_t seqs = 0;
  for (const auto& [id, known] : groups_) {
    TANDEM_CHECK_EQ(id, known.request_id);
    TANDEM_CHECK(!known.seqs.empty());
    WorkerGroup group = known;
    for (WorkerSequence& seq : group.seqs) {
      const auto owner = owners_.find(seq.seq_id);
      TANDEM_CHECK(owner != owners_.end() && owner->second == &known);
      ++seqs;
      // What only a device or another rank knows.
      for (int32_t& token : seq.output) token = std::max(token, 0);
      if (!known.goes_on) continue;
      for (int32_t& block : seq.blocks) block = std::max(block, 0);
    }
    try {
      check_group(limits_, group);
    } catch (const MessageError& error) {
      detail::check_failed(__FILE__, __LINE__, id + ": " + error.what());
    }
  }
  TANDEM_CHECK_EQ(seqs, owners_.size());
}

}  // namespace tandem
