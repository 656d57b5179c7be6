// Beams of a SequenceTable: those that are told where to go on, and those that go on by themselves.
#include <algorithm>
#include <limits>

#include "base/check.h"
#include "runtime/execution/sequence_table_fields.h"
#include "runtime/sampling/beam_search.h"
#include "runtime/sampling/token_choice.h"

namespace tandem {

namespace sequence_table {

namespace {

bool samples(const proto::SequenceData& seq) {
  return seq.token_chunk_size() > 0 &&
         int64_t{seq.num_computed_tokens()} + seq.token_chunk_size() == length_of(seq);
}

}  // namespace

void check_round(const SequenceLimits& limits, const proto::SequenceGroupMetadata& group,
                 bool goes_on) {
  const proto::SamplingParams& params = group.sampling_params();
  const int vocabulary = limits.vocab_size > 0 ? limits.vocab_size : ops::kMaxSelect;
  if (!limits.searches_beams || !searches_ahead(params, vocabulary))
    fail("beams_ahead", "this worker does not search these beams");
  const int n = group.seq_data_size();
  if (n != params.num_beams())
    fail("seq_data",
         std::to_string(n) + " sequences of " + std::to_string(params.num_beams()) + " beams");
  const proto::SequenceData& first = group.seq_data(0);
  const bool started = first.output_token_ids_size() > 0, round = samples(first);
  for (int i = 0; i < n; ++i) {
    const proto::SequenceData& seq = group.seq_data(i);
    if (seq.index() != i) fail({"seq_data", i, "index"}, std::to_string(seq.index()));
    if (!started && i > 0 && seq.token_chunk_size() > 0)
      fail({"seq_data", i, "token_chunk_size"}, "the search has not begun");
    if (length_of(seq) != length_of(first) ||
        seq.prompt_token_ids_size() != first.prompt_token_ids_size())
      fail({"seq_data", i, "output_token_ids"}, "beams of different lengths");
    if (started && samples(seq) != round)
      fail({"seq_data", i, "token_chunk_size"}, "a round has all beams or none");
    if (goes_on && seq.token_chunk_size() > 0 && !samples(seq))
      fail({"seq_data", i, "token_chunk_size"}, "not a round");
    if (round)
      check_covers(limits, group.block_tables(i).blocks(), length_of(first),
                   {"block_tables", i, "blocks"});
  }
}

void forget_references(proto::SequenceGroupMetadata& group) {
  const auto forget = [](Ids& ids) {
    for (int32_t& id : ids) id = std::max(id, 0);
  };
  for (auto& table : *group.mutable_block_tables()) forget(*table.mutable_blocks());
  for (auto& seq : *group.mutable_seq_data()) forget(*seq.mutable_output_token_ids());
}

}  // namespace sequence_table

using namespace sequence_table;

// A beam's next token, and whose past it goes on from.
void SequenceTable::apply_beam(const proto::SequenceDelta& delta, int at,
                               const SequenceList& before, proto::SequenceData& seq, Ids& blocks) {
  if (!delta.has_token()) fail({"seqs", at, "token"}, "missing");
  const int32_t limit =
      limits_.vocab_size > 0 ? limits_.vocab_size : std::numeric_limits<int32_t>::max();
  if (delta.token() < 0 || delta.token() >= limit)
    fail({"seqs", at, "token"},
         std::to_string(delta.token()) + " is not in [0, " + std::to_string(limit) + ")");
  if (delta.has_parent_seq_id()) {
    const auto parent = std::find_if(before.begin(), before.end(), [&](const auto& data) {
      return data.seq_id() == delta.parent_seq_id();
    });
    if (parent == before.end())
      fail({"seqs", at, "parent_seq_id"}, std::to_string(delta.parent_seq_id()) + " is not known");
    check_blocks(limits_, delta.blocks(), {"seqs", at, "blocks"});
    *seq.mutable_prompt_token_ids() = parent->prompt_token_ids();
    *seq.mutable_output_token_ids() = parent->output_token_ids();
    seq.set_num_computed_tokens(parent->num_computed_tokens());
    blocks = delta.blocks();
    check_covers(limits_, blocks, seq.num_computed_tokens(), {"seqs", at, "blocks"});
  }
  seq.add_output_token_ids(delta.token());
}

void SequenceTable::go_on(Metadata& group, int pages,
                          const std::function<int32_t(int, int)>& reference) {
  groups_.at(group.request_id()).goes_on = true;
  for (int i = 0; i < group.seq_data_size(); ++i) {
    group.mutable_seq_data(i)->set_num_computed_tokens(group.seq_data(0).num_computed_tokens());
    Ids& blocks = *group.mutable_block_tables(i)->mutable_blocks();
    TANDEM_CHECK_LE(pages, blocks.size());
    for (int p = 0; p < pages; ++p) blocks[p] = reference(i, p);
  }
}

}  // namespace tandem
