#include "runtime/scheduling/steps/step_message_writer.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "runtime/protocol/encoder_input.h"

namespace tandem {
namespace {

void write_pairs(const BlockPairs& pairs,
                 google::protobuf::RepeatedPtrField<proto::BlockCopy>& out) {
  out.Reserve(static_cast<int>(pairs.size()));
  for (const auto& [src, dst] : pairs) {
    proto::BlockCopy& copy = *out.Add();
    copy.set_src(src);
    copy.set_dst(dst);
  }
}

}  // namespace

void write_encoder(const SequenceGroup& group, bool compute, proto::SequenceData& data) {
  const Sequence& encoder = group.encoder_seq();
  const auto tokens = encoder.tokens();
  const int32_t length = encoder.length();
  data.set_seq_id(encoder.seq_id());
  data.set_encoder_length(length);
  data.mutable_prompt_token_ids()->Add(tokens.begin(), tokens.end());
  if (const proto::EncoderFrames* frames = encoder.frames()) {
    if (compute)
      *data.mutable_frames() = *frames;
    else
      *data.mutable_frames() = shape_of(*frames);
  }
  const auto global = encoder.global_positions();
  data.mutable_global_attention()->Add(global.begin(), global.end());
  data.set_num_computed_tokens(compute ? 0 : length);
  data.set_token_chunk_size(compute ? length : 0);
}

bool has_work(const proto::StepInput& step) {
  return step.groups_size() > 0 || step.deltas_size() > 0 || step.swap_out_size() > 0 ||
         step.swap_in_size() > 0 || step.copy_size() > 0 || step.takes_size() > 0;
}

bool StepMessageWriter::write(const PlannedStep& step, proto::StepInput& message) {
  for (const PlannedStep::Take& taken : step.takes) {
    proto::EncoderTake& take = *message.add_takes();
    take.set_rank(taken.rank);
    take.set_seq_id(taken.seq_id);
    take.mutable_blocks()->Add(taken.blocks.begin(), taken.blocks.end());
  }
  write_pairs(step.swap_out, *message.mutable_swap_out());
  write_pairs(step.swap_in, *message.mutable_swap_in());
  write_pairs(step.copy, *message.mutable_copy());
  message.mutable_deltas()->Reserve(static_cast<int>(step.groups().size()));
  for (const PlannedStep::Group& group : step.groups()) {
    QueuedGroup& queued = *group.queued;
    if (group.in_full) {
      write_full(group, *message.add_groups());
      queued.group->set_announced(true);
      queued.known_to_workers = true;
    } else {
      write_delta(group, *message.add_deltas());
    }
    if (BeamState* beams = queued.group->beams()) beams->news.clear();
  }
  if (!has_work(message)) return false;  // what is to be forgotten waits for a step that is sent
  for (std::string& id : forgotten_groups_) message.add_finished_request_ids(std::move(id));
  for (const int64_t id : forgotten_seqs_) message.add_finished_seq_ids(id);
  forgotten_groups_.clear();
  forgotten_seqs_.clear();
  return true;
}

void StepMessageWriter::write_full(const PlannedStep::Group& scheduled,
                                   proto::SequenceGroupMetadata& out) const {
  const SequenceGroup& group = *scheduled.queued->group;
  out.set_request_id(group.request_id());
  out.set_is_prompt(scheduled.compute_encoder);
  out.set_compute_encoder(scheduled.compute_encoder);
  out.set_prepare_drafts(scheduled.prepare_drafts);
  *out.mutable_sampling_params() = group.params();
  out.set_beams_ahead(group.searches_ahead());
  for (const auto& seq : group.seqs())
    if (!seq->finished()) write_sequence(scheduled, *seq, out);
  write_encoder(group, scheduled.compute_encoder, *out.mutable_encoder_seq_data());
  if (group.pools_encoder()) return;
  const Blocks& cross = tables_.cross(group);
  out.mutable_cross_block_table()->mutable_blocks()->Add(cross.begin(), cross.end());
}

void StepMessageWriter::write_sequence(const PlannedStep::Group& scheduled, const Sequence& seq,
                                       proto::SequenceGroupMetadata& out) const {
  const SequenceGroup& group = *scheduled.queued->group;
  proto::SequenceData& data = *out.add_seq_data();
  data.set_seq_id(seq.seq_id());
  data.set_index(seq.index());
  data.mutable_prompt_token_ids()->Add(seq.prompt_tokens().begin(), seq.prompt_tokens().end());
  data.mutable_output_token_ids()->Add(seq.output_tokens().begin(), seq.output_tokens().end());
  data.set_num_computed_tokens(seq.num_computed_tokens());
  if (group.searches_ahead()) data.set_beam_score(group.beams()->search.score(seq.index()));
  const auto chunk = std::find_if(scheduled.chunks.begin(), scheduled.chunks.end(),
                                  [&](const SequenceChunk& c) { return c.seq == &seq; });
  if (chunk != scheduled.chunks.end()) {
    data.set_token_chunk_size(chunk->tokens);
    if (seq.num_computed_tokens() < seq.prompt_len()) out.set_is_prompt(true);
  }
  proto::BlockTable& table = *out.add_block_tables();
  table.set_seq_id(seq.seq_id());
  if (group.pools_encoder()) return;
  const Blocks& blocks = tables_.self(seq);
  table.mutable_blocks()->Add(blocks.begin(), blocks.end());
}

void StepMessageWriter::write_delta(const PlannedStep::Group& scheduled,
                                    proto::SequenceGroupDelta& out) const {
  const SequenceGroup& group = *scheduled.queued->group;
  out.set_request_id(group.request_id());
  out.set_compute_encoder(scheduled.compute_encoder);
  out.mutable_seqs()->Reserve(static_cast<int>(scheduled.chunks.size()));
  for (const SequenceChunk& chunk : scheduled.chunks) {
    proto::SequenceDelta& delta = *out.add_seqs();
    delta.set_seq_id(chunk.seq->seq_id());
    delta.set_token_chunk_size(chunk.tokens);
    delta.mutable_draft_token_ids()->Add(chunk.drafts.begin(), chunk.drafts.end());
    if (chunk.asked_drafts > 0) {
      delta.set_num_drafts(chunk.asked_drafts);
      delta.set_least_likelihood(static_cast<float>(chunk.least_likelihood));
    }
    if (write_beam_news(group, chunk, delta)) continue;
    if (chunk.blocks == 0) continue;
    const Blocks& blocks = tables_.self(*chunk.seq);
    delta.mutable_new_blocks()->Add(blocks.begin() + static_cast<std::ptrdiff_t>(chunk.old_blocks),
                                    blocks.end());
    for (const auto& [old_block, new_block] : chunk.copies) {
      proto::BlockReplacement& replaced = *delta.add_replaced_blocks();
      replaced.set_index(static_cast<int32_t>(std::find(blocks.begin(), blocks.end(), new_block) -
                                              blocks.begin()));
      replaced.set_block(new_block);
    }
  }
}

// What the last round decided for the chunk's beam. True if that includes its whole block table.
bool StepMessageWriter::write_beam_news(const SequenceGroup& group, const SequenceChunk& chunk,
                                        proto::SequenceDelta& delta) const {
  if (group.beams() == nullptr || group.beams()->news.empty()) return false;
  const auto [parent, token] = group.beams()->news[static_cast<size_t>(chunk.seq->index())];
  delta.set_token(token);
  if (parent == chunk.seq->index()) return false;
  const Blocks& blocks = tables_.self(*chunk.seq);
  delta.set_parent_seq_id(group.seqs()[static_cast<size_t>(parent)]->seq_id());
  delta.mutable_blocks()->Add(blocks.begin(), blocks.end());
  return true;
}

}  // namespace tandem
