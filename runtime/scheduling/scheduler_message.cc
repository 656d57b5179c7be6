// The end of schedule(): the step's message, and its groups' advance. From there on it is in
// flight.

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/check.h"
#include "runtime/scheduling/scheduler.h"

namespace tandem {

void Scheduler::write_pairs(const BlockPairs& pairs,
                            google::protobuf::RepeatedPtrField<proto::BlockCopy>& out) {
  for (const auto& [src, dst] : pairs) {
    proto::BlockCopy& copy = *out.Add();
    copy.set_src(src);
    copy.set_dst(dst);
  }
}

void Scheduler::write_message(Step& step) {
  proto::StepInput& message = step.message;
  message.mutable_deltas()->Reserve(static_cast<int>(step_groups_.size()));
  for (const StepGroup& scheduled : step_groups_) {
    if (scheduled.in_full) {
      write_full(scheduled, *message.add_groups());
      scheduled.entry->group->set_announced(true);
      scheduled.entry->known_to_workers = true;
    } else {
      write_delta(scheduled, *message.add_deltas());
    }
    if (BeamState* beams = scheduled.entry->group->beams()) beams->news.clear();
  }
  if (!has_work(message)) return;  // what is to be forgotten waits for a step that is sent
  take_off(next_step_++);
  message.set_step(steps_.back().number);
  for (std::string& id : forgotten_groups_) message.add_finished_request_ids(std::move(id));
  for (const int64_t id : forgotten_seqs_) message.add_finished_seq_ids(id);
  forgotten_groups_.clear();
  forgotten_seqs_.clear();
}

// The step is in flight from here on: its groups advance, as if it had been computed.
void Scheduler::take_off(uint64_t number) {
  StepInFlight& step = steps_.emplace_back(StepInFlight{.number = number});
  step.groups.reserve(step_groups_.size());
  step.seqs.reserve(step_groups_.size());
  const auto append = [&](bool in_full) {
    for (StepGroup& scheduled : step_groups_) {
      if (scheduled.in_full != in_full) continue;
      Entry& entry = *scheduled.entry;
      entry.step_index = -1;
      ++entry.steps_in_flight;
      step.groups.push_back(&entry);
      if (scheduled.compute_encoder) entry.group->set_encoder_computed(true);
      if (entry.group->pools())
        step.seqs.push_back({&entry, entry.group->seqs()[0].get(), /*samples=*/true});
      for (const Chunk& chunk : scheduled.chunks) {
        const bool samples = chunk.tokens == chunk.seq->num_uncomputed_tokens();
        const BeamState* beams = entry.group->beams();
        step.seqs.push_back({&entry, chunk.seq, samples, beams != nullptr ? beams->epoch : 0});
        const int from = chunk.seq->num_computed_tokens();
        chunk.seq->advance(chunk.tokens);
        if (config_.enable_prefix_caching) cache_blocks(*entry.group, *chunk.seq, from);
        if (samples && beams == nullptr) chunk.seq->add_pending();
        if (samples && entry.group->searches_ahead()) launch(*entry.group, *chunk.seq);
      }
      if (spare_chunks_.size() == static_cast<size_t>(config_.max_num_seqs)) continue;
      scheduled.chunks.clear();
      spare_chunks_.push_back(std::move(scheduled.chunks));
    }
  };
  append(true);  // as in the message
  append(false);
  step_groups_.clear();
}

// The sequence's computed and known tokens were `from` or fewer; blocks that have filled up since
// are cached. Of beams that are searched ahead, only the prompt's: what their blocks are filled
// with later is known when others may have them.
void Scheduler::cache_blocks(const SequenceGroup& group, const Sequence& seq, int from) {
  if (group.searches_ahead() && group.launched()) return;
  const int size = config_.block_size;
  const int known = std::min(seq.num_computed_tokens(), static_cast<int>(seq.tokens().size()));
  if (known / size > from / size) blocks_.cache_full_blocks(group, seq);
}

void Scheduler::write_full(const StepGroup& scheduled, proto::SequenceGroupMetadata& out) const {
  const SequenceGroup& group = *scheduled.entry->group;
  out.set_request_id(group.request_id());
  out.set_is_prompt(scheduled.compute_encoder);
  out.set_compute_encoder(scheduled.compute_encoder);
  *out.mutable_sampling_params() = group.params();
  out.set_beams_ahead(group.searches_ahead());
  for (const auto& held : group.seqs()) {
    const Sequence& seq = *held;
    if (seq.finished()) continue;
    proto::SequenceData& data = *out.add_seq_data();
    data.set_seq_id(seq.seq_id());
    data.set_index(seq.index());
    data.mutable_prompt_token_ids()->Add(seq.prompt_tokens().begin(), seq.prompt_tokens().end());
    data.mutable_output_token_ids()->Add(seq.output_tokens().begin(), seq.output_tokens().end());
    data.set_num_computed_tokens(seq.num_computed_tokens());
    if (group.searches_ahead()) data.set_beam_score(group.beams()->search.score(seq.index()));
    const auto chunk = std::find_if(scheduled.chunks.begin(), scheduled.chunks.end(),
                                    [&](const Chunk& c) { return c.seq == &seq; });
    if (chunk != scheduled.chunks.end()) {
      data.set_token_chunk_size(chunk->tokens);
      if (seq.num_computed_tokens() < seq.prompt_len()) out.set_is_prompt(true);
    }
    proto::BlockTable& table = *out.add_block_tables();
    table.set_seq_id(seq.seq_id());
    if (group.pools()) continue;
    const Blocks& blocks = blocks_.get_block_table(seq);
    table.mutable_blocks()->Add(blocks.begin(), blocks.end());
  }
  const auto encoder = group.encoder_seq().tokens();
  proto::SequenceData& data = *out.mutable_encoder_seq_data();
  data.set_seq_id(group.encoder_seq().seq_id());
  data.mutable_prompt_token_ids()->Add(encoder.begin(), encoder.end());
  const int encoder_len = group.encoder_seq().length();
  data.set_num_computed_tokens(scheduled.compute_encoder ? 0 : encoder_len);
  data.set_token_chunk_size(scheduled.compute_encoder ? encoder_len : 0);
  if (group.pools()) return;
  const Blocks& cross = blocks_.get_cross_block_table(group);
  out.mutable_cross_block_table()->mutable_blocks()->Add(cross.begin(), cross.end());
}

void Scheduler::write_delta(const StepGroup& scheduled, proto::SequenceGroupDelta& out) const {
  out.set_request_id(scheduled.entry->group->request_id());
  out.set_compute_encoder(scheduled.compute_encoder);
  out.mutable_seqs()->Reserve(static_cast<int>(scheduled.chunks.size()));
  for (const Chunk& chunk : scheduled.chunks) {
    proto::SequenceDelta& delta = *out.add_seqs();
    delta.set_seq_id(chunk.seq->seq_id());
    delta.set_token_chunk_size(chunk.tokens);
    if (write_beam_news(scheduled, chunk, delta)) continue;
    if (chunk.blocks == 0) continue;
    const Blocks& blocks = blocks_.get_block_table(*chunk.seq);
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

}  // namespace tandem
