#include "runtime/scheduling/blocks/block_pools.h"

#include "base/check.h"

namespace tandem {

BlockPools::BlockPools(int block_size, int num_device_blocks, int num_host_blocks,
                       CacheOptions caches)
    : block_size_(block_size),
      device_(num_device_blocks),
      host_(num_host_blocks),
      caches_(caches, block_size, device_) {
  TANDEM_CHECK_GT(block_size, 0);
}

int BlockPools::blocks_for(int tokens) const {
  TANDEM_CHECK_GE(tokens, 0);
  return tokens / block_size_ + (tokens % block_size_ != 0);
}

int32_t BlockPools::take(bool on_host) {
  if (on_host) return host_.allocate();
  if (device_.num_unused() == 0) caches_.evict(device_.oldest_idle());
  return device_.allocate();
}

void BlockPools::add_refs(const BlockTable& table) {
  for (const int32_t block : table.blocks) of(table).add_ref(block);
}

void BlockPools::release(const BlockTable& table) {
  // Backwards, so that the blocks go out again in the same order.
  for (auto it = table.blocks.rbegin(); it != table.blocks.rend(); ++it) of(table).release(*it);
}

void BlockPools::reset() {
  caches_.clear();
  device_.reset();
  host_.reset();
}

void BlockPools::check_integrity(const std::vector<int32_t>& device,
                                 const std::vector<int32_t>& host) const {
  device_.check_integrity(device);
  host_.check_integrity(host);
  caches_.check_integrity();
}

}  // namespace tandem
