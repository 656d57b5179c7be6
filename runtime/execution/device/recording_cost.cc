// Two recordings, measured (recording_cost.h).
#include "runtime/execution/device/recording_cost.h"

#include "runtime/execution/device/device_decoder.h"
#include "runtime/execution/kv_cache.h"

namespace tandem {
namespace {

// Not measured on a device: a step's nodes at a KiB or two each, and NCCL's launches, which take
// more.
constexpr size_t kLater = size_t{64} << 20;
constexpr size_t kOfGroup = size_t{2} << 20;

}  // namespace

RecordingCost cost_of_recordings(Context& ctx, Model& model, const EngineConfig& config,
                                 std::span<const int> sizes, int ranks) {
  if (ctx.on_cpu() || config.loading().enforce_eager()) return {};
  if (sizes.empty()) return {0, kLater};
  if (ranks > 1) return {sizes.size() * kOfGroup, kLater};
  KvCachePools pools(ctx, model.kv_cache_spec(), config.cache().block_size(),
                     /*num_device_blocks=*/1,
                     /*num_host_blocks=*/0);
  DeviceDecoder decoder(ctx, model, config.cache().block_size(), /*record=*/true,
                        config.scheduling().max_num_seqs());
  const auto first = decoder.prepare_decoding(sizes.front(), pools.device());
  RecordingCost cost{first.bytes, kLater};
  if (sizes.size() > 1) {
    const auto last = decoder.prepare_decoding(sizes.back(), pools.device());
    cost.at_start += last.bytes * (sizes.size() - 1);
  }
  decoder.forget_recordings();
  return cost;
}

}  // namespace tandem
