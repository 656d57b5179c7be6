// The worker's end of the scheduler's messages. Checks come before use: a message is not trusted to
// agree with what was sent before it.

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "base/check.h"
#include "runtime/execution/sequence_table_fields.h"

namespace tandem {

using namespace sequence_table;

namespace {

bool encoder_done(const proto::SequenceGroupMetadata& group) {
  return group.encoder_seq_data().num_computed_tokens() ==
         group.encoder_seq_data().prompt_token_ids_size();
}

bool pools(const SequenceTable::Metadata& group) { return group.sampling_params().has_pooling(); }

void set_is_prompt(proto::SequenceGroupMetadata& group) {
  bool is_prompt = group.compute_encoder();
  for (const proto::SequenceData& seq : group.seq_data())
    if (seq.token_chunk_size() > 0 && seq.num_computed_tokens() < seq.prompt_token_ids_size())
      is_prompt = true;
  group.set_is_prompt(is_prompt);
}

// --- Checks --------------------------------------------------------------------------------------

void check_tokens(const SequenceLimits& limits, const Ids& ids, const Field& field) {
  if (limits.vocab_size > 0) check_range(ids, limits.vocab_size, field);
}

// The sequence with its chunk of this step ends within its tokens, its table and the positions.
void check_chunk(const SequenceLimits& limits, const proto::SequenceData& seq, const Ids& blocks,
                 const Field& field) {
  const int64_t end = int64_t{seq.num_computed_tokens()} + seq.token_chunk_size();
  if (end > length_of(seq))
    fail(field, std::to_string(seq.num_computed_tokens()) + " computed and " +
                    std::to_string(seq.token_chunk_size()) + " scheduled of " +
                    std::to_string(length_of(seq)) + " tokens");
  if (limits.max_decoder_positions > 0 && end > limits.max_decoder_positions)
    fail(field, "ends at token " + std::to_string(end) + ", but the model has " +
                    std::to_string(limits.max_decoder_positions) + " positions");
  check_covers(limits, blocks, end, field);
}

void check_encoder(const SequenceLimits& limits, const proto::SequenceGroupMetadata& group) {
  const proto::SequenceData& encoder = group.encoder_seq_data();
  const int length = encoder.prompt_token_ids_size();
  if (length == 0) fail("encoder_seq_data.prompt_token_ids", "missing");
  if (limits.max_encoder_positions > 0 && length > limits.max_encoder_positions)
    fail("encoder_seq_data.prompt_token_ids",
         std::to_string(length) + " tokens, but the model has " +
             std::to_string(limits.max_encoder_positions) + " positions");
  check_tokens(limits, encoder.prompt_token_ids(),
               {nullptr, 0, "encoder_seq_data.prompt_token_ids"});
  // Indivisible: computed, to be computed in this step, or neither.
  const int chunk = group.compute_encoder() ? length : 0;
  if (encoder.token_chunk_size() != chunk)
    fail("encoder_seq_data.token_chunk_size",
         std::to_string(encoder.token_chunk_size()) + " instead of " + std::to_string(chunk));
  const int computed = encoder.num_computed_tokens();
  if (computed != 0 && (computed != length || group.compute_encoder()))
    fail("encoder_seq_data.num_computed_tokens",
         std::to_string(computed) + ", but an encoder input is not divided");
  if (pools(group)) return;  // no keys and values come of it
  const Field blocks{nullptr, 0, "cross_block_table.blocks"};
  check_blocks(limits, group.cross_block_table().blocks(), blocks);
  check_covers(limits, group.cross_block_table().blocks(), length, blocks);
}

// One sequence without tokens, and no blocks; nothing is left to do for it in a later step.
void check_pooled(const proto::SequenceGroupMetadata& group) {
  if (group.seq_data_size() != 1)
    fail("seq_data", std::to_string(group.seq_data_size()) + " sequences, but it is pooled");
  const proto::SequenceData& seq = group.seq_data(0);
  if (length_of(seq) != 0 || seq.token_chunk_size() != 0 || seq.num_computed_tokens() != 0)
    fail({"seq_data", 0, "prompt_token_ids"}, "tokens, but it is pooled");
  if (group.block_tables(0).blocks_size() != 0)
    fail({"block_tables", 0, "blocks"}, "blocks, but it is pooled");
  if (group.cross_block_table().blocks_size() != 0)
    fail("cross_block_table.blocks", "blocks, but it is pooled");
  if (!proto::Pooling::Kind_IsValid(group.sampling_params().pooling().kind()))
    fail("sampling_params.pooling.kind", "unknown");
}

void check_full(const SequenceLimits& limits, const proto::SequenceGroupMetadata& group) {
  if (group.request_id().empty()) fail("request_id", "missing");
  if (group.seq_data_size() == 0) fail("seq_data", "missing");
  if (!group.has_sampling_params()) fail("sampling_params", "missing");
  if (group.block_tables_size() != group.seq_data_size())
    fail("block_tables", std::to_string(group.block_tables_size()) + " tables for " +
                             std::to_string(group.seq_data_size()) + " sequences");
  check_encoder(limits, group);
  if (pools(group)) return check_pooled(group);
  bool any_chunk = false;
  for (int i = 0; i < group.seq_data_size(); ++i) {
    const proto::SequenceData& seq = group.seq_data(i);
    if (group.block_tables(i).seq_id() != seq.seq_id())
      fail({"block_tables", i, "seq_id"}, std::to_string(group.block_tables(i).seq_id()) +
                                              " instead of " + std::to_string(seq.seq_id()));
    check_blocks(limits, group.block_tables(i).blocks(), {"block_tables", i, "blocks"});
    if (seq.prompt_token_ids_size() == 0) fail({"seq_data", i, "prompt_token_ids"}, "missing");
    check_tokens(limits, seq.prompt_token_ids(), {"seq_data", i, "prompt_token_ids"});
    check_tokens(limits, seq.output_token_ids(), {"seq_data", i, "output_token_ids"});
    if (seq.index() < 0)
      fail({"seq_data", i, "index"}, std::to_string(seq.index()) + " is negative");
    if (seq.num_computed_tokens() < 0 || seq.num_computed_tokens() > length_of(seq))
      fail({"seq_data", i, "num_computed_tokens"}, std::to_string(seq.num_computed_tokens()) +
                                                       " of " + std::to_string(length_of(seq)) +
                                                       " tokens");
    if (seq.token_chunk_size() < 0)
      fail({"seq_data", i, "token_chunk_size"},
           std::to_string(seq.token_chunk_size()) + " is negative");
    check_chunk(limits, seq, group.block_tables(i).blocks(), {"seq_data", i, "token_chunk_size"});
    any_chunk = any_chunk || seq.token_chunk_size() > 0;
  }
  if (any_chunk && !group.compute_encoder() && !encoder_done(group))
    fail("compute_encoder", "tokens are scheduled, but the encoder has not run");
}

void check_copies(const SequenceLimits& limits, const proto::StepInput& step) {
  const auto check = [](const auto& copies, int src_blocks, int dst_blocks, const char* list) {
    for (int i = 0; i < copies.size(); ++i) {
      const int32_t src = copies[i].src(), dst = copies[i].dst();
      if (src < 0 || src >= src_blocks || dst < 0 || dst >= dst_blocks)
        throw std::runtime_error("step input: " + Field{list, i, ""}.text() + ": " +
                                 std::to_string(src) + " to " + std::to_string(dst) +
                                 " is not in the pools");
    }
  };
  const int device = limits.num_device_blocks;
  check(step.swap_out(), device, limits.num_host_blocks, "swap_out");
  check(step.swap_in(), limits.num_host_blocks, device, "swap_in");
  check(step.copy(), device, device, "copy");
}

}  // namespace

SequenceTable::SequenceTable(const SequenceLimits& limits) : limits_(limits) {
  TANDEM_CHECK_GT(limits.block_size, 0);
  TANDEM_CHECK_GE(limits.num_device_blocks, 0);
  TANDEM_CHECK_GE(limits.num_host_blocks, 0);
  // Slots are int32.
  TANDEM_CHECK_LE(int64_t{limits.num_device_blocks} * limits.block_size,
                  std::numeric_limits<int32_t>::max());
}

std::vector<SequenceTable::Metadata*> SequenceTable::apply(const proto::StepInput& step) {
  ++step_;
  for (const std::string& id : step.finished_request_ids()) forget(id);
  for (const int64_t id : step.finished_seq_ids()) forget_sequence(id);
  check_copies(limits_, step);
  std::vector<Metadata*> scheduled;
  scheduled.reserve(static_cast<size_t>(step.groups_size()) +
                    static_cast<size_t>(step.deltas_size()));
  const auto apply_all = [&](const auto& list, const char* name, auto apply_one) {
    for (int i = 0; i < list.size(); ++i) {
      try {
        scheduled.push_back(&(this->*apply_one)(list[i]));
      } catch (const FieldError& error) {
        forget(list[i].request_id());
        throw std::runtime_error("step input: " + Field{name, i, ""}.text() + "." + error.what());
      }
    }
  };
  apply_all(step.groups(), "groups", &SequenceTable::apply_full);
  apply_all(step.deltas(), "deltas", &SequenceTable::apply_delta);
  return scheduled;
}

void SequenceTable::advance(const std::vector<Metadata*>& scheduled) {
  for (Metadata* group : scheduled) {
    for (proto::SequenceData& seq : *group->mutable_seq_data()) {
      seq.set_num_computed_tokens(seq.num_computed_tokens() + seq.token_chunk_size());
      seq.set_token_chunk_size(0);
    }
    if (!group->compute_encoder()) continue;
    proto::SequenceData& encoder = *group->mutable_encoder_seq_data();
    encoder.set_num_computed_tokens(encoder.prompt_token_ids_size());
    encoder.set_token_chunk_size(0);
    group->set_compute_encoder(false);
  }
}

// --- Forgetting ----------------------------------------------------------------------------------

void SequenceTable::forget(const std::string& request_id) {
  const auto it = groups_.find(request_id);
  if (it == groups_.end()) return;
  for (const proto::SequenceData& seq : it->second.metadata.seq_data()) {
    owners_.erase(seq.seq_id());
    forgotten_.push_back(seq.seq_id());
  }
  groups_.erase(it);
}

void SequenceTable::forget_sequence(int64_t seq_id) {
  const auto owner = owners_.find(seq_id);
  if (owner == owners_.end()) return;
  Metadata& group = owner->second->metadata;
  for (int i = 0; i < group.seq_data_size(); ++i) {
    if (group.seq_data(i).seq_id() != seq_id) continue;
    group.mutable_seq_data()->DeleteSubrange(i, 1);
    group.mutable_block_tables()->DeleteSubrange(i, 1);
    break;
  }
  owners_.erase(owner);
  forgotten_.push_back(seq_id);
  if (group.seq_data_size() == 0) forget(std::string(group.request_id()));
}

// --- Full metadata -------------------------------------------------------------------------------

SequenceTable::Metadata& SequenceTable::apply_full(const Metadata& news) {
  const std::string& id = news.request_id();
  const auto known = groups_.find(id);
  if (known != groups_.end() && known->second.last_step == step_)
    fail("request_id", "\"" + id + "\" comes twice");
  forget(id);
  check_full(limits_, news);
  if (news.beams_ahead()) check_round(limits_, news, /*goes_on=*/false);
  Known& group = groups_[id];
  group.metadata = news;
  group.last_step = group.incarnation = step_;
  for (int i = 0; i < news.seq_data_size(); ++i) {
    const int64_t seq_id = news.seq_data(i).seq_id();
    if (owners_.emplace(seq_id, &group).second) continue;
    // Whose it was first keeps it; ours go with the group.
    group.metadata.mutable_seq_data()->DeleteSubrange(i, news.seq_data_size() - i);
    fail({"seq_data", i, "seq_id"}, std::to_string(seq_id) + " is in use");
  }
  set_is_prompt(group.metadata);
  return group.metadata;
}

// --- Deltas --------------------------------------------------------------------------------------

SequenceTable::Metadata& SequenceTable::apply_delta(const proto::SequenceGroupDelta& delta) {
  const auto it = groups_.find(delta.request_id());
  if (it == groups_.end()) fail("request_id", "\"" + delta.request_id() + "\" is not known");
  Metadata& group = it->second.metadata;
  if (it->second.last_step == step_)
    fail("request_id", "\"" + delta.request_id() + "\" comes twice");
  it->second.last_step = step_;
  if (pools(group)) fail("request_id", "is pooled, and has had its one step");
  const bool done = encoder_done(group);
  if (delta.compute_encoder() && done) fail("compute_encoder", "the encoder has run");
  if (!delta.compute_encoder() && !done && delta.seqs_size() > 0)
    fail("compute_encoder", "tokens are scheduled, but the encoder has not run");
  group.set_compute_encoder(delta.compute_encoder());
  proto::SequenceData& encoder = *group.mutable_encoder_seq_data();
  encoder.set_token_chunk_size(delta.compute_encoder() ? encoder.prompt_token_ids_size() : 0);
  for (proto::SequenceData& seq : *group.mutable_seq_data()) seq.set_token_chunk_size(0);
  // Beams go on from one another's past, so it is kept until all have moved on.
  const bool moves = std::any_of(delta.seqs().begin(), delta.seqs().end(),
                                 [](const auto& seq) { return seq.has_parent_seq_id(); });
  const SequenceList before = moves ? group.seq_data() : SequenceList();
  int hint = 0;
  for (int i = 0; i < delta.seqs_size(); ++i)
    hint = apply_sequence(delta.seqs(i), i, hint, before, group) + 1;
  if (group.beams_ahead()) check_round(limits_, group, it->second.goes_on);
  set_is_prompt(group);
  return group;
}

// seqs[at] of a delta. The search in seq_data starts at `hint`; returns where it was found.
int SequenceTable::apply_sequence(const proto::SequenceDelta& delta, int at, int hint,
                                  const SequenceList& before, Metadata& group) {
  const int n = group.seq_data_size();
  int steps = 0;
  while (steps < n && group.seq_data((hint + steps) % n).seq_id() != delta.seq_id()) ++steps;
  if (steps == n) fail({"seqs", at, "seq_id"}, std::to_string(delta.seq_id()) + " is not known");
  const int i = (hint + steps) % n;
  proto::SequenceData& seq = *group.mutable_seq_data(i);
  Ids& blocks = *group.mutable_block_tables(i)->mutable_blocks();
  if (seq.token_chunk_size() > 0) fail({"seqs", at, "seq_id"}, "comes twice");
  if (delta.token_chunk_size() <= 0)
    fail({"seqs", at, "token_chunk_size"},
         std::to_string(delta.token_chunk_size()) + ", must be at least 1");
  if (delta.has_token() || delta.has_parent_seq_id()) {
    if (group.beams_ahead()) fail({"seqs", at, "token"}, "the worker searches by itself");
    apply_beam(delta, at, before, seq, blocks);
  }
  for (const proto::BlockReplacement& replaced : delta.replaced_blocks()) {
    if (replaced.index() < 0 || replaced.index() >= blocks.size())
      fail({"seqs", at, "replaced_blocks"}, "index " + std::to_string(replaced.index()) +
                                                " in a table of " + std::to_string(blocks.size()) +
                                                " blocks");
    if (replaced.block() < 0 || replaced.block() >= limits_.num_device_blocks)
      fail({"seqs", at, "replaced_blocks"},
           "block " + std::to_string(replaced.block()) + " is not in the pool");
    blocks[replaced.index()] = replaced.block();
  }
  blocks.MergeFrom(delta.new_blocks());
  if (delta.new_blocks_size() > 0)
    check_blocks(limits_, delta.new_blocks(), {"seqs", at, "new_blocks"}, blocks.size());
  seq.set_token_chunk_size(delta.token_chunk_size());
  check_chunk(limits_, seq, blocks, {"seqs", at, "token_chunk_size"});
  return i;
}

// --- Integrity -----------------------------------------------------------------------------------

void SequenceTable::check_integrity() const {
  size_t seqs = 0;
  for (const auto& [id, known] : groups_) {
    Metadata group = known.metadata;
    if (known.goes_on) forget_references(group);
    TANDEM_CHECK_EQ(id, group.request_id());
    TANDEM_CHECK_GT(group.seq_data_size(), 0);
    TANDEM_CHECK_EQ(group.seq_data_size(), group.block_tables_size());
    for (const proto::SequenceData& seq : group.seq_data()) {
      const auto owner = owners_.find(seq.seq_id());
      TANDEM_CHECK(owner != owners_.end() && owner->second == &known);
      ++seqs;
    }
    try {
      check_full(limits_, group);
    } catch (const FieldError& error) {
      detail::check_failed(__FILE__, __LINE__, id + ": " + error.what());
    }
  }
  TANDEM_CHECK_EQ(seqs, owners_.size());
}

}  // namespace tandem
