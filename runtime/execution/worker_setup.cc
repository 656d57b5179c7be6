#include "runtime/execution/worker_setup.h"

#include <algorithm>
#include <chrono>
#include <string>

#include "base/error.h"
#include "runtime/execution/compute_type.h"
#include "runtime/execution/ranks/rank_plan.h"

namespace tandem {

void check_setup(const proto::WorkerSetup& setup) {
  check_config(setup.config());
  if (!asked_dtype(setup.config()))
    throw invalid_request("setup.config.loading.dtype", "a worker is told one");
  if (setup.size() < 1 || setup.rank() < 0 || setup.rank() >= setup.size())
    throw invalid_request("setup.rank",
                          std::to_string(setup.rank()) + " of " + std::to_string(setup.size()));
  const EncoderRanks encoders = encoder_ranks_of(setup);
  if (encoders.first < 1)
    throw invalid_request("--encoder-ranks", std::to_string(encoders.count) + " of " +
                                                 std::to_string(setup.size()) +
                                                 " ranks, and none is left for decoders");
  if (const int stages = stages_of(setup.config()); encoders.first % stages != 0)
    throw invalid_request("--pipeline-parallel-size", std::to_string(encoders.first) +
                                                          " ranks cannot be " +
                                                          std::to_string(stages) + " equal stages");
}

int threads_of_rank(int cores, int num_ranks, bool has_own_cores) {
  return has_own_cores ? cores : std::max(1, cores / num_ranks);
}

CommunicatorOptions communicator_options(const proto::WorkerSetup& setup) {
  CommunicatorOptions options;
  if (setup.communicator_timeout() > 0)
    options.timeout =
        std::chrono::milliseconds(static_cast<int64_t>(setup.communicator_timeout() * 1e3));
  return options;
}

proto::WorkerSetup setup_for(const EngineConfig& config, DType dtype) {
  proto::WorkerSetup out;
  *out.mutable_config() = config;
  out.mutable_config()->mutable_loading()->set_dtype(name_of(dtype));
  out.mutable_config()->mutable_loading()->set_quantization(name_of(resolve_quantization(config)));
  return out;
}

}  // namespace tandem
