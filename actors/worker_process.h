// A process that is one rank: `tandem worker`, however it was started. No CAF in sight.
#pragma once

#include <memory>
#include <string>

#include "actors/group_launcher.h"
#include "runtime/execution/worker.h"

namespace tandem::actors {

struct WorkerProcessOptions {
  WorkerEndpoint endpoint;
  int replica = 0;
  uint64_t generation = 1;
  int rank = 0;                 // −1: to be given one (joins by address)
  double connect_timeout = 60;  // seconds
  double peer_timeout = 5;      // of silence, after which the engine counts as dead
  std::string crash_record;     // file that says how this process died; "": none
};

// Serves as that rank until the supervisor stops it; returns true if it may join once more. If the
// supervisor is lost, the process exits a second later with status 75. Throws InputError if the
// supervisor cannot be reached.
bool run_worker_process(const WorkerProcessOptions& options, std::shared_ptr<Worker> worker);

// Who this process is, to a supervisor.
proto::WorkerHello hello_of_this_process();

// Makes this process write "signal N" to `file` when it dies of a signal of its own doing.
void record_crashes_in(const std::string& file);
// What record_crashes_in() wrote: the signal, 0 if there is none.
int read_crash_record(const std::string& file);

}  // namespace tandem::actors
