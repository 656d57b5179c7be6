#include "runtime/execution/ranks/rank_plan.h"

#include <string>

#include "base/log/log.h"
#include "models/inspect.h"
#include "runtime/execution/engine_config.h"

namespace tandem {
namespace {

StageOptions stage_options(const EngineConfig& config) {
  const proto::ParallelConfig& parallel = config.parallel();
  return {.stages = stages_of(config),
          .layers = {parallel.pipeline_layers().data(),
                     static_cast<size_t>(parallel.pipeline_layers_size())},
          .encoder = encoder_ranks_of(config) == 0,
          .input_tokens = parallel.expected_input_tokens(),
          .output_tokens = parallel.expected_output_tokens()};
}

void tell_stage(int i, int ranks, DType dtype, const Stage& stage) {
  log_info("stage {}, rank {}{}: {}, {} of weights{}", i, i * ranks,
           ranks > 1 ? " to " + std::to_string((i + 1) * ranks - 1) : "", stage.text(),
           human_bytes(stage.bytes_of_rank(dtype, ranks)), ranks > 1 ? " on each" : "");
}

void tell_encoders(const EncoderRanks& ranks, DType dtype, const Stage& encoder) {
  log_info("rank {}{}: {} for the others, {} of weights{}", ranks.first,
           ranks.count > 1 ? " to " + std::to_string(ranks.end() - 1) : "", encoder.text(),
           human_bytes(encoder.bytes_of_rank(dtype, 1)), ranks.count > 1 ? " on each" : "");
}

}  // namespace

EncoderRanks encoder_ranks_of(const proto::WorkerSetup& setup) {
  const int count = encoder_ranks_of(setup.config());
  return {setup.size() - count, count};
}

bool answers_steps(const proto::WorkerSetup& setup) {
  const int decoders = encoder_ranks_of(setup).first;
  const int last_stage = decoders - decoders / stages_of(setup.config());
  return setup.rank() >= decoders || setup.rank() == last_stage;
}

std::optional<RankPlan> plan_rank(const proto::WorkerSetup& setup, const ModelConfig& model,
                                  const Checkpoint& checkpoint) {
  const int stages = stages_of(setup.config());
  const EncoderRanks encoders = encoder_ranks_of(setup);
  if (stages == 1 && encoders.count == 0) return std::nullopt;
  const LayerSizes sizes = layer_sizes(model, checkpoint);
  RankPlan plan;
  plan.stages = plan_stages(sizes, stage_options(setup.config()));
  if (encoders.count > 0) plan.encoders = encoder_alone(sizes);
  if (setup.rank() >= encoders.first) {
    plan.own = *plan.encoders;
    plan.decoder = LayerRange::none();
    return plan;
  }
  plan.own = plan.stages[static_cast<size_t>(setup.rank() / (encoders.first / stages))];
  if (stages == 1) {  // all of the decoder, however many layers that are
    plan.encoder = LayerRange::none();
    return plan;
  }
  plan.encoder = plan.own.encoder;
  plan.decoder = plan.own.decoder;
  return plan;
}

void tell_plan(const proto::WorkerSetup& setup, const RankPlan& plan, DType dtype) {
  const EncoderRanks encoders = encoder_ranks_of(setup);
  const int stages = static_cast<int>(plan.stages.size());
  for (int i = 0; i < stages; ++i)
    tell_stage(i, encoders.first / stages, dtype, plan.stages[static_cast<size_t>(i)]);
  if (plan.encoders) tell_encoders(encoders, dtype, *plan.encoders);
}

}  // namespace tandem
