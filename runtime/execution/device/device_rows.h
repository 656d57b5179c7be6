// The rows whose next tokens a device chooses, rounds of beam search included. They go from the
// batch to DeviceDecoder, and their results back to the table of sequences.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "runtime/execution/batch_builder.h"
#include "runtime/execution/choice/verified_rows.h"
#include "runtime/execution/device/device_decoder.h"
#include "runtime/execution/groups/sequence_table.h"

namespace tandem {

// Whether the next tokens of the group's scheduled sequences can be asked for while the device
// alone knows their last ones.
bool goes_on_ahead(const WorkerGroup& group, int64_t vocabulary, const DeviceSequences& sequences);

class DeviceRows {
 public:
  // `rows` are sampled in the step. Sequences that the device has to keep, and does not have yet,
  // begin there; all their tokens are known. Those with drafts are not kept: how many tokens they
  // get is known when the answer is there.
  DeviceRows(const std::vector<const SampleRow*>& rows, int block_size, DeviceDecoder& decoder);

  std::span<const DecoderRow> rows() const { return rows_; }
  std::span<const DeviceDecoder::Round> rounds() const { return rounds_; }

  // Tokens that only the device knows, and where the answer will have them.
  struct Placeholders {
    struct OfRow {
      size_t row;  // of the constructor's
      SequenceTable::PendingToken token;
    };
    struct OfBeam {
      size_t round;
      int beam;
      SequenceTable::PendingToken token;
    };
    std::vector<OfRow> rows;
    std::vector<OfBeam> beams;
    std::vector<size_t> first_rows;  // of each round, among the constructor's
  };
  // After the launch: sequences and beams continue with placeholders for their tokens. Beams that
  // the device does not search are left out; they come with the next message.
  Placeholders go_on(const DeviceDecoder::Flight& flight, SequenceTable& table,
                     DeviceSequences& sequences) const;
  // What answers a step, for its rows with their drafts. Good after the sequences have gone on.
  VerifiedRows take_verified() { return std::move(verified_); }

 private:
  void begin(const std::vector<const SampleRow*>& rows, DeviceDecoder& decoder);
  void add_round(size_t source, const WorkerGroup& group, const DeviceSequences& sequences);
  void go_on_rows(const DeviceDecoder::Flight& flight, SequenceTable& table,
                  Placeholders& out) const;

  // A row of the constructor.
  struct Source {
    const WorkerGroup* group;
    int64_t seq_id;
    size_t first;  // of its verified rows
    // Without beams, and the device keeps its tokens where it chooses.
    bool kept;
  };

  int block_size_;
  VerifiedRows verified_;
  std::vector<DecoderRow> rows_;  // verified ones
  std::vector<Source> sources_;
  std::vector<DeviceDecoder::Round> rounds_;
  struct Searched {
    const WorkerGroup* group;
    size_t source;  // of the first beam
  };
  std::vector<Searched> searched_;  // by round
};

}  // namespace tandem
