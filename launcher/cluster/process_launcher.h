// Ranks as processes of this host: children of this process that meet in memory which it made.
// There is no MPI in it, and nothing listens: they connect to the supervisor's port.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "actors/group_launcher.h"
#include "actors/group_memory.h"
#include "launcher/cluster/child_processes.h"
#include "launcher/cluster/run_directory.h"
#include "launcher/cluster/worker_command.h"

namespace tandem::launcher {

class ProcessLauncher final : public actors::GroupLauncher {
 public:
  explicit ProcessLauncher(WorkerCommand worker) : worker_(std::move(worker)) {}

  void open(const actors::WorkerEndpoint& endpoint, Exited exited) override;
  void launch(int replica, uint64_t generation, int size) override;
  void prepare(int replica, proto::WorkerSetup& setup) override;
  void stop(int replica, uint64_t generation, const std::vector<int64_t>& pids) override;
  std::optional<double> longest_hello() const override { return 10; }

 private:
  WorkerCommand worker_;
  RunDirectory directory_;  // of crash records
  std::vector<std::string> environment_;
  Exited exited_;
  actors::GroupMemory memory_;
  std::unique_ptr<ChildProcesses> children_;  // the last: it uses the others until it ends
};

}  // namespace tandem::launcher
