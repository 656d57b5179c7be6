// Which part of a model a rank of a group has: its stage of the layers, or the encoder alone
// (docs/parallel.md).
#pragma once

#include <optional>
#include <vector>

#include "models/stage_plan.h"
#include "parallel/layers/build.h"
#include "runtime/execution/ranks/encoder_exchange.h"
#include "runtime/protocol/tandem.pb.h"

namespace tandem {

// Of the group: those that run decoders are before those that run encoders for them.
EncoderRanks encoder_ranks_of(const proto::WorkerSetup& setup);
// Whether this rank's answers to steps count: the first one of the last stage, and each that runs
// encoders.
bool answers_steps(const proto::WorkerSetup& setup);

struct RankPlan {
  Stage own;                      // of this rank
  LayerRange encoder, decoder;    // that it loads
  std::vector<Stage> stages;      // of the group
  std::optional<Stage> encoders;  // of the ranks that run encoders
};
// Nothing: every rank has all layers. Throws as plan_stages().
std::optional<RankPlan> plan_rank(const proto::WorkerSetup& setup, const ModelConfig& model,
                                  const Checkpoint& checkpoint);
// To the log.
void tell_plan(const proto::WorkerSetup& setup, const RankPlan& plan, DType dtype);

}  // namespace tandem
