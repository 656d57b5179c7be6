// Rows, rounds and places of a step (device_rows.h).
#include "runtime/execution/device_rows.h"

#include <algorithm>

#include "base/check.h"
#include "runtime/sampling/beam_search.h"

namespace tandem {
namespace {

std::span<const int32_t> span_of(const google::protobuf::RepeatedField<int32_t>& f) {
  return {f.data(), static_cast<size_t>(f.size())};
}

int length_of(const proto::SequenceData& seq) {
  return seq.prompt_token_ids_size() + seq.output_token_ids_size();
}

bool is_kept(const proto::SequenceGroupMetadata& group) {
  return group.beams_ahead() ||
         (!uses_beams(group.sampling_params()) && keeps_tokens(group.sampling_params()));
}

}  // namespace

SamplerSequence sampler_view(const SampleRow& row) {
  const proto::SequenceData& data = row.group->seq_data(row.seq_index);
  return {&row.group->sampling_params(), span_of(row.group->encoder_seq_data().prompt_token_ids()),
          span_of(data.prompt_token_ids()), span_of(data.output_token_ids()),
          static_cast<uint32_t>(data.index())};
}

bool goes_on_ahead(const proto::SequenceGroupMetadata& group, int64_t vocabulary,
                   const DeviceSequences& sequences) {
  if (group.beams_ahead()) return true;
  const bool able = chooses_ahead(group.sampling_params(), vocabulary), kept = is_kept(group);
  return std::all_of(group.seq_data().begin(), group.seq_data().end(), [&](const auto& seq) {
    const auto& ids = seq.output_token_ids();
    if (seq.token_chunk_size() == 0 || ids.empty() || ids[ids.size() - 1] >= 0) return true;
    return able && (!kept || sequences.has(seq.seq_id(), length_of(seq)));
  });
}

DeviceRows::DeviceRows(std::span<const SampleRow> rows, int block_size, DeviceDecoder& decoder)
    : block_size_(block_size) {
  begin(rows, decoder);
  for (const SampleRow& row : rows) {
    const proto::SequenceData& seq = row.group->seq_data(row.seq_index);
    const bool kept = is_kept(*row.group);
    const int32_t place = kept ? decoder.sequences().place_of(seq.seq_id()) : -1;
    kept_rows_.push_back(kept && !row.group->beams_ahead() ? seq.seq_id() : -1);
    if (row.group->beams_ahead() && seq.index() == 0)
      add_round(rows_.size(), *row.group, decoder.sequences());
    rows_.push_back({sampler_view(row), row.first_token + row.num_tokens - 1, place});
  }
}

void DeviceRows::begin(std::span<const SampleRow> rows, DeviceDecoder& decoder) {
  DeviceSequences& sequences = decoder.sequences();
  std::vector<DeviceSequences::Start> starts;
  std::vector<int64_t> kept;
  const auto keep = [&](const SampleRow& row, int i) {
    const proto::SequenceGroupMetadata& group = *row.group;
    const proto::SequenceData& seq = group.seq_data(i);
    const int length = length_of(seq);
    kept.push_back(seq.seq_id());
    if (sequences.has(seq.seq_id(), length)) return;
    const auto full = static_cast<size_t>(length / block_size_);
    starts.push_back({seq.seq_id(), span_of(seq.prompt_token_ids()),
                      span_of(seq.output_token_ids()),
                      group.beams_ahead() ? span_of(group.block_tables(i).blocks()).first(full)
                                          : std::span<const int32_t>(),
                      seq.beam_score()});
  };
  for (const SampleRow& row : rows) {
    if (!is_kept(*row.group)) continue;
    if (!row.group->beams_ahead()) {
      keep(row, row.seq_index);
    } else if (row.seq_index == 0) {
      for (int i = 0; i < row.group->seq_data_size(); ++i) keep(row, i);
    }
  }
  const bool began = sequences.begin(starts), grew = sequences.reserve_next(kept);
  if (began || grew) decoder.forget_recordings();
}

// All of a beam's tokens are in the cache when the step has run, so its length says which of its
// blocks are full.
void DeviceRows::add_round(size_t row, const proto::SequenceGroupMetadata& group,
                           const DeviceSequences& sequences) {
  const proto::SequenceData& first = group.seq_data(0);
  const int length = length_of(first), full = length / block_size_;
  DeviceDecoder::Round round{.row = row, .round = {}, .beams = {}};
  round.round.num_beams = group.seq_data_size();
  round.round.rows = first.output_token_ids_size() == 0 ? 1 : group.seq_data_size();
  round.round.length = length;
  round.round.full_pages = full;
  const bool begins_block = length % block_size_ == 0;
  for (int i = 0; i < group.seq_data_size(); ++i) {
    const int32_t last = group.block_tables(i).blocks(begins_block ? full - 1 : full);
    TANDEM_CHECK_GE(last, 0);
    round.beams.push_back({.place = sequences.place_of(group.seq_data(i).seq_id()),
                           .page = begins_block ? -1 : last,
                           .filled = begins_block ? last : -1});
  }
  rounds_.push_back(std::move(round));
  groups_.push_back(&group);
}

std::vector<DeviceRows::Pending> DeviceRows::go_on(const DeviceDecoder::Flight& flight,
                                                   SequenceTable& table,
                                                   DeviceSequences& sequences) const {
  for (size_t i = 0; i < rows_.size(); ++i)
    if (kept_rows_[i] >= 0 && flight.ids()[i] < 0) sequences.append(kept_rows_[i]);
  std::vector<Pending> out;
  for (size_t r = 0; r < rounds_.size(); ++r) {
    // The table's own, which the batch only reads.
    auto& group = const_cast<proto::SequenceGroupMetadata&>(*groups_[r]);
    const DeviceDecoder::Round& round = rounds_[r];
    table.go_on(group, round.round.full_pages, [&](int beam, int page) {
      return DeviceSequences::page_reference(round.beams[static_cast<size_t>(beam)].place, page);
    });
    for (int i = 0; i < group.seq_data_size(); ++i) {
      const int64_t id = group.seq_data(i).seq_id();
      sequences.append(id);
      out.push_back({r, i, table.append_pending(group, id, flight.beam_id(r) - i)});
    }
  }
  return out;
}

}  // namespace tandem
