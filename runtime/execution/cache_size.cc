#include "runtime/execution/cache_size.h"

#include <algorithm>
#include <limits>
#include <string>

#include "base/error.h"
#include "models/config/limits.h"
#include "models/inspect.h"
#include "runtime/execution/engine_config.h"
#include "runtime/execution/kv_cache.h"

namespace tandem {
namespace {

constexpr size_t kMaxDefaultCacheBytes = size_t{4} << 30;

size_t default_cache_bytes(const EngineConfig& config, const Context& ctx, const ModelConfig& m,
                           int ranks_on_host, size_t of_others) {
  if (const DeviceBackend* backend = ctx.backend_or_null()) {
    const DeviceMemory memory = backend->memory();
    const auto allowed = static_cast<size_t>(static_cast<double>(memory.total) *
                                             config.cache().gpu_memory_utilization());
    const size_t taken = memory.total - memory.free - memory.scratch +
                         std::max(memory.scratch, largest_step_bytes(config, ctx, m)) + of_others;
    return allowed > taken ? allowed - taken : 0;
  }
  // No more than half of what is free, and 4 GiB.
  return std::min(kMaxDefaultCacheBytes,
                  available_memory() / 2 / static_cast<size_t>(std::max(1, ranks_on_host)));
}

}  // namespace

// What is alive at once of a layer, and logits with the room
// that choosing among them takes: as they were before processors, for those who list them.
size_t largest_step_bytes(const EngineConfig& config, const Context& ctx, const ModelConfig& m) {
  const ModelLimits limits = limits_of(m);
  const int longest =
      std::max(limits.encoder_positions.value_or(0), limits.decoder_positions.value_or(0));
  const auto tokens =
      static_cast<size_t>(int64_t{std::max(config.scheduling().max_num_batched_tokens(), longest)} +
                          int64_t{config.scheduling().max_num_seqs()} * limits.rows_per_sequence);
  const auto logits =
      static_cast<size_t>(config.scheduling().max_num_seqs()) * static_cast<size_t>(m.vocab_size);
  size_t bytes = tokens * limits.scratch_bytes_per_token(ctx.activations()) +
                 3 * logits * sizeof(float) + (size_t{256} << 20);
  // A product of many rows has its weight in the activations' type and its sums in f32.
  if (quantization_of(config) != Quantization::kNone)
    bytes += static_cast<size_t>(limits.widest_linear) *
             (static_cast<size_t>(limits.hidden_size) * size_of(ctx.activations()) +
              tokens * sizeof(float));
  return bytes;
}

CacheSize any_cache_size() {
  return {std::numeric_limits<int>::max(), std::numeric_limits<int>::max()};
}

CacheSize cache_size_for(const EngineConfig& config, const Context& ctx, const ModelConfig& model,
                         const KvCacheSpec& spec, int ranks_on_host, size_t of_draft_model,
                         size_t of_others) {
  if (stages_of(config) > 1 && spec.num_layers == 0) return any_cache_size();  // of the encoder
  // As many bytes as requests of maximal length could use, if there are so many.
  const proto::CacheConfig& asked = config.cache();
  const size_t bytes = asked.has_kv_cache_memory()
                           ? asked.kv_cache_memory()
                           : default_cache_bytes(config, ctx, model, ranks_on_host, of_others);
  const auto blocks = [&](size_t pool) {
    return device_blocks_for(spec, asked.block_size(), pool, config.scheduling().max_num_seqs(),
                             limits_of(model), of_draft_model);
  };
  const CacheSize size{
      asked.has_num_gpu_blocks_override() ? asked.num_gpu_blocks_override() : blocks(bytes),
      blocks(asked.swap_space())};
  if (size.num_device_blocks < 1)
    throw InputError(ErrorKind::kResource,
                     "--kv-cache-memory: " + std::to_string(bytes) + " bytes hold no block of " +
                         std::to_string(spec.block_bytes(asked.block_size()) + of_draft_model) +
                         " bytes",
                     "--kv-cache-memory");
  return size;
}

std::string cache_warning(size_t bytes_of_all_ranks, size_t free_memory) {
  if (bytes_of_all_ranks <= free_memory) return {};
  return "--kv-cache-memory: the cache may grow to " + human_bytes(bytes_of_all_ranks) +
         ", but only " + human_bytes(free_memory) +
         " of memory are free; the kernel ends the process when they are used up";
}

CacheSize cache_of(const proto::WorkerLoaded& worker) {
  return {worker.num_device_blocks(), worker.num_host_blocks(), worker.beam_vocabulary(),
          worker.max_drafts(), worker.rows_of_a_step()};
}

}  // namespace tandem
