// How many blocks of keys and values a rank has.
#pragma once

#include <cstddef>
#include <string>

#include "kernels/core/context.h"
#include "models/model.h"
#include "runtime/protocol/tandem.pb.h"

namespace tandem {

// The pools of one rank, in blocks.
struct CacheSize {
  int num_device_blocks = 0;
  int num_host_blocks = 0;
  // Not of the cache, but workers say it with it: SchedulerConfig's.
  int beam_vocabulary = 0;
  int max_drafts = 0;         // of a sequence in a step, which they verify
  double rows_of_a_step = 0;  // step_times.h; 0: not said
};
// kv_cache_memory, num_gpu_blocks_override and swap_space decide. Without them, need and free
// memory do. `ranks_on_host` ranks share the free memory. On a GPU free is what
// gpu_memory_utilization leaves beside the weights and the largest step.
//
// of_draft_model: bytes of a block of the draft model. It has as many blocks.
// of_others: bytes of device memory that recorded steps and other ranks of the device will take.
//
// Throws InputError (kResource) if not even one block fits.
CacheSize cache_size_for(const proto::EngineConfig& config, const Context& ctx,
                         const ModelConfig& model, const KvCacheSpec& spec, int ranks_on_host = 1,
                         size_t of_draft_model = 0, size_t of_others = 0);
// Of a rank that keeps no pages between steps: the others say how many there are.
CacheSize any_cache_size();
// Scratch of the largest step, roughly, in bytes.
size_t largest_step_bytes(const proto::EngineConfig& config, const Context& ctx,
                          const ModelConfig& model);
CacheSize cache_of(const proto::WorkerLoaded& worker);
// Caches on CPUs take memory as they fill. Returns a warning for the user if they are larger than
// the free memory, else "".
std::string cache_warning(size_t bytes_of_all_ranks, size_t free_memory);

}  // namespace tandem
