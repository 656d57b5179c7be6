// Which slots of the KV pools have keys and values of the draft model beside the model's: of each
// block the first so many. Blocks are shared, cached, copied and swapped, and take what is in them
// along. Synchronous; one thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/protocol/tandem.pb.h"

namespace tandem {

class DraftSlots {
 public:
  // Of nothing.
  DraftSlots(int block_size, int num_device_blocks, int num_host_blocks);

  // The step's block copies, in the protocol's order.
  void apply_copies(const proto::StepInput& step);
  // Positions [first, end) of the table get other tokens; what was there is void. So is what lies
  // behind them in their blocks.
  void clear(std::span<const int32_t> blocks, int first, int end);
  // Positions up to `end` are there, those before `first` have been.
  void fill(std::span<const int32_t> blocks, int first, int end);
  // How many of the table's first `most` positions are there without a gap.
  int count(std::span<const int32_t> blocks, int most) const;

 private:
  using Copies = google::protobuf::RepeatedPtrField<proto::BlockCopy>;
  static void copy(const Copies& copies, const std::vector<int32_t>& from,
                   std::vector<int32_t>& to);

  int block_size_;
  std::vector<int32_t> device_, host_;  // by block
};

}  // namespace tandem
