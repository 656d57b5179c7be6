#include "actors/thread_launcher.h"

#include <map>
#include <utility>

#include "actors/spawn.h"
#include "base/mutex.h"
#include "parallel/communicators/shared_memory_communicator.h"
#include "runtime/execution/worker_setup.h"

namespace tandem::actors {

WorkerGroupFactory model_worker_groups() {
  return [](int, int size) {
    // The timeout is in the setup; all ranks get the same one, so the group is made by the first.
    struct Group {
      Mutex mutex;
      std::vector<std::shared_ptr<Communicator>> comms GUARDED_BY(mutex);
    };
    const auto group = std::make_shared<Group>();
    std::vector<std::shared_ptr<Worker>> workers;
    for (int rank = 0; rank < size; ++rank)
      workers.push_back(make_model_worker([group](const proto::WorkerSetup& setup) {
        const MutexLock lock(group->mutex);
        if (group->comms.empty())
          for (auto& comm : make_thread_communicators(setup.size(), communicator_options(setup)))
            group->comms.push_back(std::move(comm));
        return group->comms.at(static_cast<size_t>(setup.rank()));
      }));
    return workers;
  };
}

struct ThreadLauncher::State {
  struct Group {
    std::vector<std::shared_ptr<Worker>> workers;
    std::vector<WorkerHandle> actors;
    int alive = 0;
  };
  caf::actor_system& system;
  WorkerGroupFactory factory;
  std::function<void(const WorkerEndpoint&)> announce;
  ReportHandle supervisor;
  Exited exited;
  Mutex mutex;
  std::map<std::pair<int, uint64_t>, Group> groups GUARDED_BY(mutex);

  // One rank's thread has ended.
  void ended(int replica, uint64_t generation) {
    {
      const MutexLock lock(mutex);
      const auto it = groups.find({replica, generation});
      if (it == groups.end() || --it->second.alive > 0) return;
      groups.erase(it);
    }
    exited(replica, generation, "its threads have ended");
  }
};

ThreadLauncher::ThreadLauncher(caf::actor_system& system, WorkerGroupFactory factory,
                               std::function<void(const WorkerEndpoint&)> announce)
    : state_(new State{system, std::move(factory), std::move(announce), {}, {}, {}, {}}) {}

ThreadLauncher::~ThreadLauncher() = default;

void ThreadLauncher::set_supervisor(ReportHandle supervisor) {
  state_->supervisor = std::move(supervisor);
}

bool ThreadLauncher::can_relaunch() const { return !state_->announce; }

void ThreadLauncher::open(const WorkerEndpoint& endpoint, Exited exited) {
  state_->exited = std::move(exited);
  if (state_->announce) state_->announce(endpoint);
}

void ThreadLauncher::launch(int replica, uint64_t generation, int size) {
  State::Group group;
  group.workers = state_->factory(replica, size);
  const int here = static_cast<int>(group.workers.size());
  group.alive = here;
  for (int rank = 0; rank < here; ++rank)
    group.actors.push_back(spawn_worker(state_->system, state_->supervisor,
                                        {replica, generation, rank, ""},
                                        group.workers[static_cast<size_t>(rank)]));
  const auto actors = group.actors;
  {
    const MutexLock lock(state_->mutex);
    state_->groups[{replica, generation}] = std::move(group);
  }
  for (const WorkerHandle& actor : actors)
    caf::actor_cast<caf::actor>(actor)->attach_functor(
        [state = state_, replica, generation](const caf::error&) {
          state->ended(replica, generation);
        });
}

void ThreadLauncher::stop(int replica, uint64_t generation, const std::vector<int64_t>&) {
  const MutexLock lock(state_->mutex);
  const auto it = state_->groups.find({replica, generation});
  if (it == state_->groups.end()) return;
  if (it->second.actors.empty()) {  // all of them are elsewhere
    state_->groups.erase(it);
    state_->exited(replica, generation, "it was stopped");
    return;
  }
  for (const auto& worker : it->second.workers) worker->abort();
  for (const WorkerHandle& actor : it->second.actors)
    caf::anon_send_exit(actor, caf::exit_reason::kill);
}

}  // namespace tandem::actors
