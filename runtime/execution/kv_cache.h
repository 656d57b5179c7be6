// The memory behind the block manager's numbers: the device pool and the host (swap) pool.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "models/model.h"
#include "runtime/protocol/tandem.pb.h"

namespace tandem {

// Pages of the swap pool's kind: in host memory that the context's device reaches. Throws
// InputError (kResource).
KvCache make_host_pages(Context& ctx, const KvCacheSpec& spec, int block_size, int num_blocks);
// Pages of the pool that steps compute in: on the context's device. Throws InputError (kResource).
KvCache make_device_pages(Context& ctx, const KvCacheSpec& spec, int block_size, int num_blocks);

// Copies blocks of all layers. pairs: block of `from`, block of `to`, and so on; all are there.
void copy_pages(Context& ctx, const KvCache& from, const KvCache& to,
                const std::vector<int32_t>& pairs);

// Owned by the model runner. All layers have the same number of blocks.
class KvCachePools {
 public:
  KvCachePools(Context& ctx, const KvCacheSpec& spec, int block_size, int num_device_blocks,
               int num_host_blocks);

  KvCache& device() { return device_; }
  // Makes the pool larger if it has fewer blocks. Then its contents are lost: for a rank that keeps
  // nothing between steps. Throws InputError (kResource).
  void make_room(Context& ctx, int num_device_blocks);
  // The step's block copies, in the protocol's order: swap out, swap in, copy.
  void apply_copies(Context& ctx, const proto::StepInput& step);

 private:
  using Copies = google::protobuf::RepeatedPtrField<proto::BlockCopy>;
  void copy(Context& ctx, const KvCache& from, const KvCache& to, const Copies& copies,
            const char* field) const;

  KvCacheSpec spec_;
  KvCache device_, host_;
};

// Blocks of the device pool. Memory is bounded by `bytes`; more blocks than max_num_seqs requests
// of the limits' lengths can use are not made. Without a limit on either side, all that fit.
// of_draft_model: bytes of a block of its, of which there are as many.
int device_blocks_for(const KvCacheSpec& spec, int block_size, size_t bytes, int max_num_seqs,
                      const ModelLimits& limits, size_t of_draft_model = 0);

// Bytes of memory that the system could give now (Linux: MemAvailable, and the cgroup's limit).
size_t available_memory();

}  // namespace tandem
