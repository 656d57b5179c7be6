// MPI helpers of the session and the communicator. Everything is non-blocking and polled, so each
// wait has a deadline and can be given up.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "parallel/communicators/communicator.h"
#include "parallel/communicators/mpi_calls.h"

namespace tandem::mpi {

// Throws CommunicatorError with MPI's text unless code is kSuccess.
void check(int code, const std::string& what);

// Polls until the request is done; false: the timeout is over. Holds the core for `spin`, then
// sleeps between polls, a little longer each time, up to a millisecond. look_around() is called
// every few polls and may throw. Unless true is returned the request is still active: its buffers
// must live on.
bool wait(Handle& request, std::chrono::milliseconds timeout, std::chrono::microseconds spin,
          const std::function<void()>& look_around);

// Keeps the buffers of an active request until the process ends, because it may still write to
// them.
void keep_for_ever(std::shared_ptr<void> buffers);

// Takes over `comm`, a communicator of its own. `broken` is set when a call fails: MPI_Finalize
// would hang from then on.
std::unique_ptr<Communicator> make_communicator(Handle comm, const CommunicatorOptions& options,
                                                std::shared_ptr<std::atomic<bool>> broken);

}  // namespace tandem::mpi
