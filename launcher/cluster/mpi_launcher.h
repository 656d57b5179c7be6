// Ranks as processes under `mpirun`, one for each group: on the hosts of a host file, or on this
// one. mpirun opens ports of its own to everybody (docs/cluster.md §6).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "actors/group_launcher.h"
#include "launcher/cluster/child_processes.h"
#include "launcher/cluster/run_directory.h"
#include "launcher/cluster/worker_command.h"

namespace tandem::launcher {

class MpiLauncher final : public actors::GroupLauncher {
 public:
  // hostfile "": this host only.
  MpiLauncher(WorkerCommand worker, std::string hostfile);

  void open(const actors::WorkerEndpoint& endpoint, Exited exited) override;
  void launch(int replica, uint64_t generation, int size) override;
  void stop(int replica, uint64_t generation, const std::vector<int64_t>& pids) override;
  // Other hosts are reached through their own ways of logging in.
  std::optional<double> longest_hello() const override { return hostfile_.empty() ? 10 : 60; }

 private:
  std::vector<std::string> command_line(int replica, uint64_t generation, int size) const;
  // For mpirun's own files and its ranks'.
  std::string scratch(const ChildProcesses::Key& key) const;

  WorkerCommand worker_;
  std::string hostfile_, mpirun_;
  RunDirectory directory_;
  std::vector<std::string> environment_;
  Exited exited_;
  std::unique_ptr<ChildProcesses> children_;  // the last: it uses the others until it ends
};

}  // namespace tandem::launcher
