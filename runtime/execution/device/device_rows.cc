// Rows, rounds and places of a step (device_rows.h).
#include "runtime/execution/device/device_rows.h"

#include <algorithm>

#include "base/check.h"
#include "runtime/sampling/beam_search.h"

namespace tandem {
namespace {

bool is_kept(const WorkerGroup& group) {
  return group.beams_ahead || (!uses_beams(group.params) && keeps_tokens(group.params));
}

bool is_kept(const SampleRow& row) { return is_kept(*row.group) && row.num_drafts == 0; }

}  // namespace

bool goes_on_ahead(const WorkerGroup& group, int64_t vocabulary, const DeviceSequences& sequences) {
  if (group.beams_ahead) return true;
  const bool able = chooses_ahead(group.params, vocabulary), kept = is_kept(group);
  return std::all_of(group.seqs.begin(), group.seqs.end(), [&](const WorkerSequence& seq) {
    if (seq.chunk == 0 || seq.output.empty() || seq.output.back() >= 0) return true;
    return able && (!kept || sequences.has(seq.seq_id, seq.length()));
  });
}

DeviceRows::DeviceRows(const std::vector<const SampleRow*>& rows, int block_size,
                       DeviceDecoder& decoder)
    : block_size_(block_size), verified_(rows) {
  begin(rows, decoder);
  for (size_t i = 0; i < rows.size(); ++i) {
    const WorkerGroup& group = *rows[i]->group;
    const WorkerSequence& seq = rows[i]->seq();
    const bool kept = is_kept(*rows[i]);
    const int32_t place = kept ? decoder.sequences().place_of(seq.seq_id) : -1;
    sources_.push_back({&group, seq.seq_id, verified_.first_of(i), kept && !group.beams_ahead});
    if (group.beams_ahead && seq.index == 0) add_round(i, group, decoder.sequences());
    for (int32_t d = 0; d <= rows[i]->num_drafts; ++d) {
      const size_t at = rows_.size();
      rows_.push_back({verified_.views()[at], verified_.indices()[at], place});
    }
  }
}

void DeviceRows::begin(const std::vector<const SampleRow*>& rows, DeviceDecoder& decoder) {
  DeviceSequences& sequences = decoder.sequences();
  std::vector<DeviceSequences::Start> starts;
  std::vector<int64_t> kept;
  const auto keep = [&](const SampleRow& row, int i) {
    const WorkerGroup& group = *row.group;
    const WorkerSequence& seq = group.seqs[static_cast<size_t>(i)];
    const int length = seq.length();
    kept.push_back(seq.seq_id);
    if (sequences.has(seq.seq_id, length)) return;
    const auto full = static_cast<size_t>(length / block_size_);
    const std::span blocks(seq.blocks);
    starts.push_back({seq.seq_id, seq.prompt, seq.output,
                      group.beams_ahead ? blocks.first(full) : std::span<const int32_t>(),
                      seq.beam_score});
  };
  for (const SampleRow* row : rows) {
    if (!is_kept(*row)) continue;
    if (!row->group->beams_ahead) {
      keep(*row, row->seq_index);
    } else if (row->seq_index == 0) {
      for (size_t i = 0; i < row->group->seqs.size(); ++i) keep(*row, static_cast<int>(i));
    }
  }
  const bool began = sequences.begin(starts), grew = sequences.reserve_next(kept);
  if (began || grew) decoder.forget_recordings();
}

// All of a beam's tokens are in the cache when the step has run, so its length says which of its
// blocks are full.
void DeviceRows::add_round(size_t source, const WorkerGroup& group,
                           const DeviceSequences& sequences) {
  const WorkerSequence& first = group.seqs[0];
  const int length = first.length(), full = length / block_size_;
  DeviceDecoder::Round round{.row = verified_.first_of(source), .round = {}, .beams = {}};
  round.round.num_beams = static_cast<int32_t>(group.seqs.size());
  round.round.rows = first.output.empty() ? 1 : round.round.num_beams;
  round.round.length = length;
  round.round.full_pages = full;
  const bool begins_block = length % block_size_ == 0;
  for (const WorkerSequence& seq : group.seqs) {
    const int32_t last = seq.blocks[static_cast<size_t>(begins_block ? full - 1 : full)];
    TANDEM_CHECK_GE(last, 0);
    round.beams.push_back({.place = sequences.place_of(seq.seq_id),
                           .page = begins_block ? -1 : last,
                           .filled = begins_block ? last : -1});
  }
  rounds_.push_back(std::move(round));
  searched_.push_back({&group, source});
}

DeviceRows::Placeholders DeviceRows::go_on(const DeviceDecoder::Flight& flight,
                                           SequenceTable& table, DeviceSequences& sequences) const {
  for (const Source& source : sources_)
    if (source.kept && flight.ids()[source.first] < 0) sequences.append(source.seq_id);
  Placeholders out;
  for (size_t r = 0; r < rounds_.size(); ++r) {
    // The table's own, which the batch only reads.
    auto& group = const_cast<WorkerGroup&>(*searched_[r].group);
    const DeviceDecoder::Round& round = rounds_[r];
    out.first_rows.push_back(searched_[r].source);
    table.go_on(group, round.round.full_pages, [&](int beam, int page) {
      return DeviceSequences::page_reference(round.beams[static_cast<size_t>(beam)].place, page);
    });
    for (int i = 0; i < round.round.num_beams; ++i) {
      const int64_t id = group.seqs[static_cast<size_t>(i)].seq_id;
      sequences.append(id);
      out.beams.push_back({r, i, table.append_pending(group, id, flight.beam_id(r) - i)});
    }
  }
  go_on_rows(flight, table, out);
  return out;
}

void DeviceRows::go_on_rows(const DeviceDecoder::Flight& flight, SequenceTable& table,
                            Placeholders& out) const {
  for (size_t i = 0; i < sources_.size(); ++i) {
    if (uses_beams(sources_[i].group->params)) continue;
    auto& group = const_cast<WorkerGroup&>(*sources_[i].group);
    // (Where the host chooses, or there are drafts, the step is completed before the id could be
    // read.)
    const int32_t at = flight.ids()[sources_[i].first], id = at < 0 ? at : -1;
    out.rows.push_back({i, table.append_pending(group, sources_[i].seq_id, id)});
  }
}

}  // namespace tandem
