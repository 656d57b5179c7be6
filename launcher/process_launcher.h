// Ranks as processes: `tandem worker`, under mpirun where a group has several. However this process
// ends, they end (parent-death signals), and stop() ends them at once.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "actors/group_launcher.h"

namespace tandem::launcher {

struct ProcessLauncherOptions {
  std::string hostfile;                   // for mpirun; "": this host only
  bool several_ranks = false;             // in a group
  std::string worker_program;             // run as `PROGRAM worker …`; "": this one
  std::vector<std::string> worker_flags;  // passed on to every worker
};

class ProcessLauncher final : public actors::GroupLauncher {
 public:
  explicit ProcessLauncher(ProcessLauncherOptions options);
  ~ProcessLauncher() override;  // ends what is left

  void open(const actors::WorkerEndpoint& endpoint, Exited exited) override;
  void launch(int replica, uint64_t generation, int size) override;
  void stop(int replica, uint64_t generation, const std::vector<int64_t>& pids) override;
  std::optional<double> longest_hello() const override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// How a worker's endpoint travels in its environment.
inline constexpr char kEndpointVariable[] = "TANDEM_WORKER_ENDPOINT";
std::string encode_endpoint(const actors::WorkerEndpoint& endpoint);
actors::WorkerEndpoint decode_endpoint(const std::string& text);

}  // namespace tandem::launcher
