// One child for each rank; what binds them into a group is in ChildProcesses and GroupMemory.

#include "launcher/cluster/process_launcher.h"

#include <signal.h>

#include <utility>

#include "parallel/communicators/communicator.h"

namespace tandem::launcher {

void ProcessLauncher::open(const actors::WorkerEndpoint& endpoint, Exited exited) {
  exited_ = std::move(exited);
  environment_ = worker_environment(endpoint);
  children_ = std::make_unique<ChildProcesses>(
      [told = exited_](const ChildProcesses::Key& key, const std::string& how) {
        told(key.first, key.second, how);
      });
}

void ProcessLauncher::launch(int replica, uint64_t generation, int size) {
  try {
    memory_.make(replica, size);
  } catch (const CommunicatorError& e) {
    return exited_(replica, generation, e.what());
  }
  std::vector<ChildProgram> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ChildProgram program{"rank " + std::to_string(rank), worker_.line(replica, generation),
                         environment_, nullptr};
    program.command.insert(
        program.command.end(),
        {"--rank", std::to_string(rank), "--crash-directory", directory_.path().string()});
    ranks.push_back(std::move(program));
  }
  children_->start({replica, generation}, std::move(ranks));
}

void ProcessLauncher::prepare(int replica, proto::WorkerSetup& setup) {
  memory_.describe(replica, setup);
}

void ProcessLauncher::stop(int replica, uint64_t generation, const std::vector<int64_t>&) {
  children_->end({replica, generation}, SIGKILL);
  memory_.drop(replica);
}

}  // namespace tandem::launcher
