// Which of its host's devices a rank computes on. Ranks that run encoders share those of the
// decoders' ranks if there are not enough, each on a stream of its own (docs/parallel.md).
#pragma once

#include <cstddef>
#include <string>

#include "models/model.h"
#include "models/stage_plan.h"
#include "runtime/protocol/tandem.pb.h"

namespace tandem {

// Whether --device names one device, which all ranks compute on ("cuda:1").
bool names_one_device(const std::string& device);

struct RankDevice {
  int index = 0;  // for choose_device()
  // Of the encoders' ranks, how many compute on the device of this decoders' rank.
  int encoders = 0;
};
// devices: that the host has. Replicas and ranks follow one another.
RankDevice rank_device(const proto::WorkerSetup& setup, int devices);
// Whether encoders' ranks share devices where so many ranks are on a host. device: --device.
bool encoders_share_devices(const std::string& device, int encoder_ranks, int ranks_of_host,
                            int devices);

// What a rank of encoders takes of the device of a decoders' rank, in bytes: weights, the largest
// step, pages on their way. `spec` is that of the decoders' rank, which is one of `decoder_ranks`.
size_t bytes_of_encoder_rank(const proto::EngineConfig& config, const Context& ctx,
                             const ModelConfig& model, const Stage& encoder,
                             const KvCacheSpec& spec, int decoder_ranks);

}  // namespace tandem
