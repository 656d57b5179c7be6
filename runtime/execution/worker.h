// One rank: loads its shard, makes its part of the pools, runs steps. Synchronous; one thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "models/load_model.h"
#include "parallel/communicators/communicator.h"
#include "runtime/execution/engine_config.h"
#include "runtime/execution/step_runner.h"
#include "runtime/protocol/tandem.pb.h"

namespace tandem {

// What a WorkerActor drives. Tests put slow, dying or lying workers in its place.
class Worker : public StepRunner {
 public:
  // Throws InputError naming flag, file or tensor; std::runtime_error otherwise.
  virtual proto::WorkerLoaded load(const proto::WorkerSetup& setup,
                                   const LoadProgress& progress) = 0;
  virtual void start(const proto::WorkerStart& start) = 0;
  // From any thread: makes what is blocked in a collective fail, now and later.
  virtual void abort() = 0;
  // Of a device; on a CPU nothing is counted.
  virtual DecoderStats decoder_stats() const { return {}; }
  // From now on its steps are timed, once it has started.
  virtual void time_decoder() {}
};

// Called once in load(), with the rank and the size that the setup gives.
using CommunicatorFactory =
    std::function<std::shared_ptr<Communicator>(const proto::WorkerSetup& setup)>;
// has_own_cores: the process is bound to cores that no other rank has
// (launcher/cluster/cluster_options.h).
std::unique_ptr<Worker> make_model_worker(CommunicatorFactory make_communicator,
                                          bool has_own_cores = false);

}  // namespace tandem
