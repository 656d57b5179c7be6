// `tandem worker` as launchers start it: its command line and its environment.
#pragma once

#include <string>
#include <vector>

#include "actors/group_launcher.h"

namespace tandem::launcher {

// The path of the file that this process runs.
std::string this_program();

struct WorkerCommand {
  std::string program;             // run as `PROGRAM worker …`
  std::vector<std::string> flags;  // passed on to every worker

  std::vector<std::string> line(int replica, uint64_t generation) const;
};

// This process's environment and the way to the supervisor; without what an outer mpirun has set
// for this process alone.
std::vector<std::string> worker_environment(const actors::WorkerEndpoint& endpoint);

// How a worker's endpoint travels in its environment.
inline constexpr char kEndpointVariable[] = "TANDEM_WORKER_ENDPOINT";
std::string encode_endpoint(const actors::WorkerEndpoint& endpoint);
actors::WorkerEndpoint decode_endpoint(const std::string& text);

}  // namespace tandem::launcher
