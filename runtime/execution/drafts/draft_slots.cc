#include "runtime/execution/drafts/draft_slots.h"

#include <algorithm>

#include "base/check.h"

namespace tandem {

DraftSlots::DraftSlots(int block_size, int num_device_blocks, int num_host_blocks)
    : block_size_(block_size),
      device_(static_cast<size_t>(num_device_blocks), 0),
      host_(static_cast<size_t>(num_host_blocks), 0) {}

void DraftSlots::apply_copies(const proto::StepInput& step) {
  copy(step.swap_out(), device_, host_);
  copy(step.swap_in(), host_, device_);
  copy(step.copy(), device_, device_);
}

// No block of a list is read and written.
void DraftSlots::copy(const Copies& copies, const std::vector<int32_t>& from,
                      std::vector<int32_t>& to) {
  for (const proto::BlockCopy& c : copies)
    to.at(static_cast<size_t>(c.dst())) = from.at(static_cast<size_t>(c.src()));
}

void DraftSlots::clear(std::span<const int32_t> blocks, int first, int end) {
  for (int p = first; p < end; p += block_size_ - p % block_size_) {
    int32_t& filled = device_.at(static_cast<size_t>(blocks[static_cast<size_t>(p / block_size_)]));
    filled = std::min(filled, p % block_size_);
  }
}

void DraftSlots::fill(std::span<const int32_t> blocks, int first, int end) {
  for (int p = first; p < end; p += block_size_ - p % block_size_) {
    const int page = p / block_size_;
    int32_t& filled = device_.at(static_cast<size_t>(blocks[static_cast<size_t>(page)]));
    TANDEM_CHECK_GE(filled, p % block_size_);
    filled = std::max(filled, std::min(block_size_, end - page * block_size_));
  }
}

int DraftSlots::count(std::span<const int32_t> blocks, int most) const {
  int there = 0;
  while (there < most) {
    const int32_t filled =
        device_.at(static_cast<size_t>(blocks[static_cast<size_t>(there / block_size_)]));
    there += filled;
    if (filled < block_size_) break;
  }
  return std::min(there, most);
}

}  // namespace tandem
