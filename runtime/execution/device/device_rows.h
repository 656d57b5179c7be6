// The rows whose next tokens a device chooses, rounds of beam search included. They go from the
// batch to DeviceDecoder, and their results back to the table of sequences.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/execution/batch_builder.h"
#include "runtime/execution/device/device_decoder.h"
#include "runtime/execution/groups/sequence_table.h"

namespace tandem {

// Whether the next tokens of the group's scheduled sequences can be asked for while the device
// alone knows their last ones.
bool goes_on_ahead(const WorkerGroup& group, int64_t vocabulary, const DeviceSequences& sequences);

class DeviceRows {
 public:
  // `rows` are sampled in the step. Sequences that the device has to keep, and does not have yet,
  // begin there; all their tokens are known.
  DeviceRows(std::span<const SampleRow> rows, int block_size, DeviceDecoder& decoder);

  std::span<const DecoderRow> rows() const { return rows_; }
  std::span<const DeviceDecoder::Round> rounds() const { return rounds_; }

  // Tokens that only the device knows, and where the answer will have them.
  struct Placeholders {
    struct OfRow {
      size_t row;
      SequenceTable::PendingToken token;
    };
    struct OfBeam {
      size_t round;
      int beam;
      SequenceTable::PendingToken token;
    };
    std::vector<OfRow> rows;
    std::vector<OfBeam> beams;
    std::vector<size_t> first_rows;  // of each round
  };
  // After the launch: sequences and beams continue with placeholders for their tokens. Beams that
  // the device does not search are left out; they come with the next message.
  Placeholders go_on(const DeviceDecoder::Flight& flight, SequenceTable& table,
                     DeviceSequences& sequences) const;

 private:
  void begin(std::span<const SampleRow> rows, DeviceDecoder& decoder);
  void add_round(size_t row, const WorkerGroup& group, const DeviceSequences& sequences);
  void go_on_rows(const DeviceDecoder::Flight& flight, SequenceTable& table,
                  Placeholders& out) const;

  int block_size_;
  std::vector<DecoderRow> rows_;
  struct Source {
    const WorkerGroup* group;
    int64_t seq_id;
  };
  std::vector<Source> sources_;  // of rows_
  std::vector<DeviceDecoder::Round> rounds_;
  std::vector<const WorkerGroup*> groups_;  // of rounds_
  // Of rows without beams: the sequence, if the device keeps its tokens where it chooses; else -1.
  std::vector<int64_t> kept_rows_;
};

}  // namespace tandem
