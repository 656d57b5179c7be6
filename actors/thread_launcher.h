// Ranks as threads of this process: their messages are pointers, their collectives shared memory.
#pragma once

#include <caf/all.hpp>
#include <functional>
#include <memory>

#include "actors/group_launcher.h"
#include "actors/network/messages.h"
#include "runtime/execution/worker.h"

namespace tandem::actors {

// (replica, size) → the workers of ranks 0, 1, …, for one generation.
using WorkerGroupFactory = std::function<std::vector<std::shared_ptr<Worker>>(int, int)>;
WorkerGroupFactory model_worker_groups();

class ThreadLauncher final : public GroupLauncher {
 public:
  // announce: given if there are other ranks elsewhere, once; then a group cannot be made again.
  ThreadLauncher(caf::actor_system& system, WorkerGroupFactory factory,
                 std::function<void(const WorkerEndpoint&)> announce = {});
  ~ThreadLauncher() override;
  void set_supervisor(ReportHandle supervisor);

  void open(const WorkerEndpoint& endpoint, Exited exited) override;
  void launch(int replica, uint64_t generation, int size) override;
  void stop(int replica, uint64_t generation, const std::vector<int64_t>& pids) override;
  bool can_relaunch() const override;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tandem::actors
