#include "runtime/execution/ranks/rank_device.h"

#include <algorithm>

#include "runtime/execution/cache_size.h"
#include "runtime/execution/ranks/rank_plan.h"
#include "runtime/scheduling/steps/encoder_steps.h"

namespace tandem {

bool names_one_device(const std::string& device) { return device.find(':') != std::string::npos; }

bool encoders_share_devices(const std::string& device, int encoder_ranks, int ranks_of_host,
                            int devices) {
  return encoder_ranks > 0 && devices > 0 && (names_one_device(device) || ranks_of_host > devices);
}

RankDevice rank_device(const proto::WorkerSetup& setup, int devices) {
  const EncoderRanks encoders = encoder_ranks_of(setup);
  const std::string& device = setup.config().loading().device();
  const int ranks = std::max(setup.size(), setup.num_ranks());
  if (!encoders_share_devices(device, encoders.count, ranks, devices))
    return {setup.replica() * setup.size() + setup.rank()};
  const int first = setup.replica() * encoders.first;
  if (setup.rank() >= encoders.first)
    return {first + (setup.rank() - encoders.first) % encoders.first};
  if (names_one_device(device)) return {first + setup.rank(), encoders.count};
  // Encoders' ranks go round the decoders'.
  return {first + setup.rank(),
          (encoders.count + encoders.first - 1 - setup.rank()) / encoders.first};
}

size_t bytes_of_encoder_rank(const proto::EngineConfig& config, const Context& ctx,
                             const ModelConfig& model, const Stage& encoder,
                             const KvCacheSpec& spec, int decoder_ranks) {
  const int block = config.cache().block_size();
  const int tokens =
      std::max(EncoderSteps::kTokensOfStep, limits_of(model).encoder_positions.value_or(0));
  // The rank's own, and what others have not taken yet. (A block more for each input's end.)
  constexpr size_t kSteps = EncoderSteps::kStepsOfRank + 2;
  const size_t pages = kSteps * static_cast<size_t>(tokens / block + 16) * spec.block_bytes(block) *
                       static_cast<size_t>(decoder_ranks);
  return encoder.bytes_of_rank(ctx.activations(), 1) + largest_step_bytes(config, ctx, model) +
         pages;
}

}  // namespace tandem
