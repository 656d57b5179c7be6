// The device's and the host's blocks, and the caches that decide which free one of the device goes
// first.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/scheduling/blocks/block_caches.h"
#include "runtime/scheduling/blocks/block_pool.h"
#include "runtime/scheduling/blocks/block_table.h"

namespace tandem {

class BlockPools {
 public:
  BlockPools(int block_size, int num_device_blocks, int num_host_blocks, CacheOptions caches);
  BlockPools(const BlockPools&) = delete;
  BlockPools& operator=(const BlockPools&) = delete;

  int block_size() const { return block_size_; }
  int blocks_for(int tokens) const;  // ceil

  BlockPool& device() { return device_; }
  const BlockPool& device() const { return device_; }
  const BlockPool& host() const { return host_; }
  BlockPool& of(const BlockTable& table) { return table.on_host ? host_ : device_; }
  const BlockPool& of(const BlockTable& table) const { return table.on_host ? host_ : device_; }
  BlockCaches& caches() { return caches_; }
  const BlockCaches& caches() const { return caches_; }

  // A free block, with one reference; of the device, an idle one is evicted if none is unused.
  int32_t take(bool on_host);
  // One reference more, or less, to each block of a table.
  void add_refs(const BlockTable& table);
  void release(const BlockTable& table);
  void reset();

  // `device` and `host`: how often tables mention each block.
  void check_integrity(const std::vector<int32_t>& device, const std::vector<int32_t>& host) const;

 private:
  int block_size_;
  BlockPool device_, host_;
  BlockCaches caches_;
};

}  // namespace tandem
