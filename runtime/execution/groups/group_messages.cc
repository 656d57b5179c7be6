#include "runtime/execution/groups/group_messages.h"

#include <algorithm>
#include <string>
#include <vector>

#include "runtime/sampling/inherit.h"
#include "runtime/sampling/whole_prompt.h"

namespace tandem {
namespace {

using Ids = google::protobuf::RepeatedField<int32_t>;

[[noreturn]] void fail(const MessageField& field, const std::string& message) {
  throw MessageError(field, message);
}
[[noreturn]] void fail(const char* name, const std::string& message) {
  throw MessageError(name, message);
}

std::vector<int32_t> list_of(const Ids& ids) { return {ids.begin(), ids.end()}; }

WorkerEncoder encoder_of(const proto::SequenceData& data, const proto::BlockTable& table) {
  const proto::EncoderFrames& frames = data.frames();
  if (data.has_frames() && frames.length() != data.encoder_length())
    fail("encoder_seq_data.frames.length",
         std::to_string(frames.length()) + " instead of " + std::to_string(data.encoder_length()));
  return {.seq_id = data.seq_id(),
          .length = data.encoder_length(),
          .tokens = list_of(data.prompt_token_ids()),
          .frames = {frames.num_frames(),
                     frames.width(),
                     {frames.values().begin(), frames.values().end()}},
          .global_positions = list_of(data.global_attention()),
          .blocks = list_of(table.blocks()),
          .num_computed = data.num_computed_tokens(),
          .chunk = data.token_chunk_size()};
}

WorkerSequence sequence_of(const proto::SequenceData& data, const proto::BlockTable& table) {
  return {.seq_id = data.seq_id(),
          .index = data.index(),
          .prompt = list_of(data.prompt_token_ids()),
          .output = list_of(data.output_token_ids()),
          .blocks = list_of(table.blocks()),
          .num_computed = data.num_computed_tokens(),
          .chunk = data.token_chunk_size(),
          .beam_score = data.beam_score()};
}

// Its place in the group. The search begins at `hint`.
size_t place_of(const WorkerGroup& group, int64_t seq_id, int at, size_t hint) {
  const size_t n = group.seqs.size();
  for (size_t i = 0; i < n; ++i) {
    const size_t place = (hint + i) % n;
    if (group.seqs[place].seq_id == seq_id) return place;
  }
  fail({"seqs", at, "seq_id"}, std::to_string(seq_id) + " is not known");
}

// Beams go on from one another's past: each gets its parent's output, and what is computed of it.
void move_beams(const proto::SequenceGroupDelta& delta, WorkerGroup& group) {
  std::vector<int> parents(group.seqs.size());
  for (size_t i = 0; i < parents.size(); ++i) parents[i] = static_cast<int>(i);
  size_t hint = 0;
  for (int at = 0; at < delta.seqs_size(); ++at) {
    const proto::SequenceDelta& seq = delta.seqs(at);
    hint = place_of(group, seq.seq_id(), at, hint);
    if (!seq.has_parent_seq_id()) continue;
    const WorkerSequence* parent = group.find(seq.parent_seq_id());
    if (group.beams_ahead) fail({"seqs", at, "token"}, "the worker searches by itself");
    if (parent == nullptr)
      fail({"seqs", at, "parent_seq_id"}, std::to_string(seq.parent_seq_id()) + " is not known");
    if (parent->prompt.size() != group.seqs[hint].prompt.size())
      fail({"seqs", at, "parent_seq_id"}, "its prompt has another length");
    parents[hint] = static_cast<int>(parent - group.seqs.data());
  }
  std::vector<std::vector<int32_t>> outputs;
  std::vector<int> computed;
  for (WorkerSequence& seq : group.seqs) outputs.push_back(std::move(seq.output));
  inherit(outputs, parents);
  for (const int parent : parents)
    computed.push_back(group.seqs[static_cast<size_t>(parent)].num_computed);
  for (size_t i = 0; i < parents.size(); ++i) {
    group.seqs[i].output = std::move(outputs[i]);
    group.seqs[i].num_computed = computed[i];
  }
}

// A beam's next token, and its table if it has moved.
void apply_round(const proto::SequenceDelta& delta, int at, const SequenceLimits& limits,
                 WorkerSequence& seq) {
  if (!delta.has_token()) fail({"seqs", at, "token"}, "missing");
  check_token(limits, delta.token(), {"seqs", at, "token"});
  if (delta.has_parent_seq_id()) {
    seq.blocks = list_of(delta.blocks());
    check_blocks(limits, seq.blocks, {"seqs", at, "blocks"}, seq.blocks.size());
    check_covers(limits, seq.blocks, seq.num_computed, {"seqs", at, "blocks"});
  }
  seq.output.push_back(delta.token());
}

void apply_sequence(const proto::SequenceDelta& delta, int at, const SequenceLimits& limits,
                    const WorkerGroup& group, WorkerSequence& seq) {
  if (seq.chunk > 0) fail({"seqs", at, "seq_id"}, "comes twice");
  if (delta.token_chunk_size() <= 0)
    fail({"seqs", at, "token_chunk_size"},
         std::to_string(delta.token_chunk_size()) + ", must be at least 1");
  if (delta.has_token() || delta.has_parent_seq_id()) {
    if (group.beams_ahead) fail({"seqs", at, "token"}, "the worker searches by itself");
    apply_round(delta, at, limits, seq);
  }
  for (const proto::BlockReplacement& replaced : delta.replaced_blocks()) {
    if (replaced.index() < 0 || static_cast<size_t>(replaced.index()) >= seq.blocks.size())
      fail({"seqs", at, "replaced_blocks"}, "index " + std::to_string(replaced.index()) +
                                                " in a table of " +
                                                std::to_string(seq.blocks.size()) + " blocks");
    if (replaced.block() < 0 || replaced.block() >= limits.num_device_blocks)
      fail({"seqs", at, "replaced_blocks"},
           "block " + std::to_string(replaced.block()) + " is not in the pool");
    seq.blocks[static_cast<size_t>(replaced.index())] = replaced.block();
  }
  const Ids& added = delta.new_blocks();
  if (!added.empty()) {
    check_blocks(limits, {added.data(), static_cast<size_t>(added.size())},
                 {"seqs", at, "new_blocks"}, seq.blocks.size() + static_cast<size_t>(added.size()));
    seq.blocks.insert(seq.blocks.end(), added.begin(), added.end());
  }
  seq.chunk = delta.token_chunk_size();
  seq.drafts = list_of(delta.draft_token_ids());
  seq.num_drafts = delta.num_drafts();
  seq.least_likelihood = delta.least_likelihood();
  check_drafts(limits, group, seq, {"seqs", at, "draft_token_ids"});
  check_chunk(limits, seq, {"seqs", at, "token_chunk_size"});
  check_whole_prompt(group, seq, {"seqs", at, "token_chunk_size"});
}

}  // namespace

WorkerGroup group_of(const proto::SequenceGroupMetadata& message, const SequenceLimits& limits) {
  if (message.request_id().empty()) fail("request_id", "missing");
  if (message.seq_data_size() == 0) fail("seq_data", "missing");
  if (!message.has_sampling_params()) fail("sampling_params", "missing");
  if (message.block_tables_size() != message.seq_data_size())
    fail("block_tables", std::to_string(message.block_tables_size()) + " tables for " +
                             std::to_string(message.seq_data_size()) + " sequences");
  WorkerGroup group{.request_id = message.request_id(),
                    .params = message.sampling_params(),
                    .encoder = encoder_of(message.encoder_seq_data(), message.cross_block_table()),
                    .seqs = {},
                    .compute_encoder = message.compute_encoder(),
                    .prepare_drafts = message.prepare_drafts(),
                    .beams_ahead = message.beams_ahead()};
  group.seqs.reserve(static_cast<size_t>(message.seq_data_size()));
  for (int i = 0; i < message.seq_data_size(); ++i) {
    const int64_t seq_id = message.seq_data(i).seq_id(), owner = message.block_tables(i).seq_id();
    if (owner != seq_id)
      fail({"block_tables", i, "seq_id"},
           std::to_string(owner) + " instead of " + std::to_string(seq_id));
    group.seqs.push_back(sequence_of(message.seq_data(i), message.block_tables(i)));
  }
  group.whole_prompt =
      attends_to_whole_prompt(limits.whole_prompts, group.params, group.seqs.front().prompt.size());
  check_group(limits, group);
  if (group.beams_ahead) check_round(limits, group);
  return group;
}

void apply_delta(const proto::SequenceGroupDelta& delta, const SequenceLimits& limits,
                 WorkerGroup& group) {
  if (group.pools()) fail("request_id", "is pooled, and has had its one step");
  const bool done = group.encoder.done();
  if (delta.compute_encoder() && done) fail("compute_encoder", "the encoder has run");
  if (!delta.compute_encoder() && !done && delta.seqs_size() > 0)
    fail("compute_encoder", "tokens are scheduled, but the encoder has not run");
  group.compute_encoder = delta.compute_encoder();
  group.encoder.chunk = delta.compute_encoder() ? group.encoder.length : 0;
  for (WorkerSequence& seq : group.seqs) {
    seq.chunk = 0;
    seq.forget_drafts();
  }
  if (std::any_of(delta.seqs().begin(), delta.seqs().end(),
                  [](const auto& seq) { return seq.has_parent_seq_id(); }))
    move_beams(delta, group);
  size_t hint = 0;
  for (int at = 0; at < delta.seqs_size(); ++at) {
    const size_t place = place_of(group, delta.seqs(at).seq_id(), at, hint);
    apply_sequence(delta.seqs(at), at, limits, group, group.seqs[place]);
    hint = place + 1;
  }
  if (group.beams_ahead) check_round(limits, group);
}

}  // namespace tandem
