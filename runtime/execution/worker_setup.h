// What a worker is told before it loads, and what follows from it.
#pragma once

#include "kernels/core/types.h"
#include "parallel/communicators/communicator.h"
#include "runtime/execution/engine_config.h"
#include "runtime/protocol/tandem.pb.h"

namespace tandem {

// Throws InputError naming the field or flag.
void check_setup(const proto::WorkerSetup& setup);

// Compute threads of a rank on a process's `cores`, which it shares with num_ranks - 1 others
// unless they are its own.
int threads_of_rank(int cores, int num_ranks, bool has_own_cores);

// What the setup says of the group's collectives.
CommunicatorOptions communicator_options(const proto::WorkerSetup& setup);

// The setup of workers: the config, with the type that its dtype comes to. rank and size are left
// open.
proto::WorkerSetup setup_for(const EngineConfig& config, DType dtype);

}  // namespace tandem
