// SupervisorActor: the cluster port's actor. Worker groups report here; SupervisorCore (one for
// each replica) decides; the launcher starts and ends processes.

#include <algorithm>
#include <map>
#include <unordered_map>

#include "actors/spawn.h"
#include "actors/worker_process.h"
#include "base/log/log.h"
#include "runtime/engine/supervisor_core.h"
#include "runtime/execution/worker_setup.h"
#include "runtime/request/adapter_names.h"

namespace tandem::actors {
namespace {

constexpr size_t kMaxSpare = 64;
constexpr double kLongestFarewell = 2;  // seconds

// A worker that has said hello.
struct Member {
  WorkerHandle handle;
  int64_t local_pid = 0;  // 0: on another host, or a thread of this process
  std::string crash_record;
};
struct Place {
  int replica;
  uint64_t generation;
  int rank;
};

struct SupervisorState : SupervisorOutbox {
  std::shared_ptr<Shared> shared;
  std::vector<SchedulerHandle> schedulers;
  EngineActorHandle engine;
  std::shared_ptr<GroupLauncher> launcher;
  SupervisorHandle::pointer self = nullptr;
  std::vector<std::unique_ptr<SupervisorCore>> cores;
  std::vector<std::map<int, Member>> members;  // by replica, then rank; of the current generation
  std::unordered_map<caf::actor_addr, Place> places;
  // Joined by address, and without a place so far; or ranks of an outer job that came before the
  // start.
  std::vector<std::pair<WorkerHandle, WorkerReportMessage>> spare;
  std::vector<double> down_at;  // by replica; 0: it is up, or was never down
  proto::WorkerHello here = hello_of_this_process();
  std::vector<bool> told;  // by replica: why its group went down has been logged
  bool started = false, given_up = false, shutting_down = false;
  double farewell_until =
      0;  // when shutting down: workers that do not end are waited for until then

  SupervisorCore& core(int replica) { return *cores[static_cast<size_t>(replica)]; }
  std::map<int, Member>& group(int replica) { return members[static_cast<size_t>(replica)]; }

  // --- SupervisorOutbox ---
  void launch(int replica, uint64_t generation) override {
    group(replica).clear();
    told[static_cast<size_t>(replica)] = false;
    if (generation > 1) shared->board.update([](ClusterStatus& s) { ++s.restarts; });
    log_info("replica {}: starting {} worker(s), generation {}", replica,
             shared->config.num_ranks(), generation);
    launcher->launch(replica, generation, shared->config.num_ranks());
    for (auto& [worker, report] : std::exchange(spare, {})) self->send(self, worker, report);
  }
  void stop(int replica, uint64_t generation) override {
    if (!told[static_cast<size_t>(replica)] && !shutting_down)
      log_warning("replica {}: did not come up: {}", replica, core(replica).last_cause());
    told[static_cast<size_t>(replica)] = true;
    std::vector<int64_t> pids;
    proto::WorkerCommand command;
    command.set_generation(generation);
    command.mutable_stop()->set_again(!shutting_down && !given_up);
    const WorkerCommandMessage message(std::move(command));
    for (const auto& [rank, member] : group(replica)) {
      if (member.local_pid != 0) pids.push_back(member.local_pid);
      self->send(member.handle, message);
    }
    launcher->stop(replica, generation, pids);
  }
  void to_worker(int replica, int rank, proto::WorkerCommand command) override {
    if (command.has_setup()) {
      command.mutable_setup()->set_replica(replica);
      launcher->prepare(replica, *command.mutable_setup());
    }
    self->send(group(replica).at(rank).handle, WorkerCommandMessage(std::move(command)));
  }
  void group_up(int replica, uint64_t generation, const CacheSize& cache) override {
    GroupUp up{generation, {}, cache};
    for (const auto& [rank, member] : group(replica)) up.workers.push_back(member.handle);
    self->send(schedulers[static_cast<size_t>(replica)], std::move(up));
    double& down = down_at[static_cast<size_t>(replica)];
    const std::string back =
        down > 0 ? fmt::format(", back after {:.0f} ms", (now() - down) * 1e3) : "";
    log_info("replica {}: up, generation {}, {} + {} cache blocks{}", replica, generation,
             cache.num_device_blocks, cache.num_host_blocks, back);
    down = 0;
    shared->board.update([](ClusterStatus& s) { ++s.replicas_up; });
  }
  void group_down(int replica, uint64_t generation, const std::string& cause,
                  bool crashed) override {
    self->send(schedulers[static_cast<size_t>(replica)], GroupDown{generation, cause, crashed});
    down_at[static_cast<size_t>(replica)] = now();
    told[static_cast<size_t>(replica)] = true;
    log_at(shutting_down ? LogLevel::kDebug : LogLevel::kWarning, "replica {}: down: {}", replica,
           cause);
    shared->board.update([](ClusterStatus& s) { --s.replicas_up; });
  }
  void loading(int replica, uint64_t done, uint64_t total) override {
    if (replica != 0) return;  // the others do the same
    shared->board.update([&](ClusterStatus& s) { s.loading_done = done, s.loading_total = total; });
  }
  void give_up(int replica, const std::string& reason, bool bad_input) override {
    if (given_up) return;
    given_up = true;
    log_error("replica {}: {}", replica, reason);
    self->send(engine, GiveUp{reason});
    shared->board.update([&](ClusterStatus& s) {
      s.given_up = reason;
      s.bad_input = bad_input;
    });
  }

  // --- Reports ---
  // A worker without a rank gets the first place that is free.
  bool assign(proto::WorkerReport& report) {
    for (size_t r = 0; r < cores.size(); ++r) {
      if (cores[r]->state() != SupervisorCore::State::kStarting) continue;
      for (int rank = 0; rank < shared->config.num_ranks(); ++rank) {
        if (members[r].count(rank) > 0) continue;
        report.set_replica(static_cast<int32_t>(r));
        report.set_rank(rank);
        report.set_generation(cores[r]->generation());
        return true;
      }
    }
    return false;
  }

  // Until a group is launched.
  void keep(const WorkerHandle& worker, proto::WorkerReport report) {
    self->monitor(worker);
    spare.emplace_back(worker, WorkerReportMessage(std::move(report)));
  }

  void on_hello(const WorkerHandle& worker, proto::WorkerReport report) {
    const proto::WorkerHello& hello = report.hello();
    if (report.rank() >= 0 && !started && !shutting_down) return keep(worker, std::move(report));
    if (report.rank() < 0 && !assign(report)) {
      if (spare.size() < kMaxSpare && !shutting_down && !given_up) {
        log_info("a worker of {} (pid {}) waits until it is needed", hello.hostname(), hello.pid());
        return keep(worker, std::move(report));
      }
      log_warning("a worker of {} (pid {}) is not needed", hello.hostname(), hello.pid());
      turn_away(worker, report.generation());
      return;
    }
    const int replica = report.replica();
    if (replica < 0 || static_cast<size_t>(replica) >= cores.size() ||
        report.generation() != core(replica).generation() ||
        group(replica).count(report.rank()) > 0) {
      turn_away(worker, report.generation());
      return;
    }
    Member member{worker, 0, ""};
    if (hello.host_id() == here.host_id()) {
      if (hello.pid() != here.pid()) member.local_pid = hello.pid();
      member.crash_record = hello.crash_record();
    }
    group(replica)[report.rank()] = member;
    places[worker.address()] = {replica, report.generation(), report.rank()};
    self->monitor(worker);
    deliver(worker, report);
  }

  void turn_away(const WorkerHandle& worker, uint64_t generation) {
    proto::WorkerCommand command;
    command.set_generation(generation);
    command.mutable_stop();
    self->send(worker, WorkerCommandMessage(std::move(command)));
  }

  void deliver(const WorkerHandle& worker, const proto::WorkerReport& report) {
    try {
      const DeathKind kind = !report.has_failed()        ? DeathKind::kUnknown
                             : report.failed().in_step() ? DeathKind::kCrash
                                                         : death_kind(report.replica());
      core(report.replica()).worker_report(report, now(), kind);
      if (report.has_loaded()) shared->processor->adapters().worker_loaded(report.loaded());
    } catch (const std::exception& e) {
      core(report.replica()).fault(report.generation(), e.what(), DeathKind::kUnknown, now());
    }
  }

  void on_report(const WorkerHandle& worker, const WorkerReportMessage& report) {
    if (report->has_hello()) {
      on_hello(worker, *report);
      return;
    }
    // What it says it is must be what it was told to be.
    const auto place = places.find(worker.address());
    if (place == places.end() || place->second.generation != report->generation() ||
        place->second.replica != report->replica() || place->second.rank != report->rank())
      return;
    if (report->has_failed() && report->failed().what().empty()) return;
    deliver(worker, *report);
  }

  DeathKind death_kind(int replica) {
    for (const auto& [rank, member] : group(replica))
      if (!member.crash_record.empty() && read_crash_record(member.crash_record) > 0)
        return DeathKind::kCrash;
    return DeathKind::kUnknown;
  }

  void on_down(const caf::down_msg& down) {
    std::erase_if(spare, [&](const auto& s) { return s.first.address() == down.source; });
    const auto it = places.find(down.source);
    if (it == places.end()) return;
    const Place place = it->second;
    places.erase(it);
    if (shutting_down) end_with_the_last();
    if (place.generation != core(place.replica).generation()) return;
    const DeathKind kind = death_kind(place.replica);
    core(place.replica)
        .worker_down(place.generation, place.rank,
                     kind == DeathKind::kCrash ? "crashed" : "its connection is gone", kind, now());
  }

  // Workers elsewhere must have heard that they are to stop before the connection to them closes.
  void end_with_the_last() {
    const bool all_gone =
        std::all_of(cores.begin(), cores.end(), [](auto& c) { return c->gone(); });
    if (all_gone && (places.empty() || now() >= farewell_until))
      shared->board.update([](ClusterStatus& s) { s.stopped = true; });
  }

  void tick() {
    for (auto& c : cores) c->tick(now());
    end_with_the_last();
    self->delayed_send(self, kTickInterval, Tick{});
  }
};

constexpr int kFirstBackoffMs = 20;

SupervisorConfig core_config(const Shared& shared, int replica, const GroupLauncher& launcher) {
  SupervisorConfig c;
  c.replica = replica;
  c.size = shared.config.num_ranks();
  c.can_relaunch = launcher.can_relaunch();
  c.max_restarts = shared.config.max_restarts;
  c.restart_window = shared.config.restart_window;
  c.startup_timeout = shared.config.startup_timeout;
  c.hello_timeout = c.startup_timeout;
  if (const auto longest = launcher.longest_hello())
    c.hello_timeout = std::min(c.startup_timeout, std::max(shared.config.worker_timeout, *longest));
  c.first_backoff = kFirstBackoffMs * 1e-3;
  c.setup = setup_for(shared.config.engine, shared.dtype);
  c.setup.set_num_ranks(shared.config.num_ranks() * shared.config.data_parallel_size);
  c.setup.set_communicator_timeout(shared.config.step_timeout);
  return c;
}

SupervisorHandle::behavior_type supervisor(SupervisorHandle::stateful_pointer<SupervisorState> self,
                                           std::shared_ptr<Shared> shared,
                                           std::vector<SchedulerHandle> schedulers,
                                           EngineActorHandle engine,
                                           std::shared_ptr<GroupLauncher> launcher) {
  SupervisorState& s = self->state;
  s.self = self;
  s.shared = std::move(shared);
  s.schedulers = std::move(schedulers);
  s.engine = std::move(engine);
  s.launcher = std::move(launcher);
  const auto replicas = static_cast<size_t>(s.shared->config.data_parallel_size);
  s.members.resize(replicas);
  s.down_at.resize(replicas);
  s.told.resize(replicas);
  for (size_t r = 0; r < replicas; ++r)
    s.cores.push_back(std::make_unique<SupervisorCore>(
        core_config(*s.shared, static_cast<int>(r), *s.launcher), s));
  self->set_down_handler([self](caf::down_msg& down) { self->state.on_down(down); });
  self->set_exception_handler(stop_loudly("supervisor"));
  return {
      [self](const WorkerHandle& worker, const WorkerReportMessage& report) {
        self->state.on_report(worker, report);
      },
      [self](const StartAll&) {
        self->state.started = true;
        for (auto& core : self->state.cores) core->start(now());
        self->state.tick();
      },
      [self](const ShutDown&) {
        self->state.shutting_down = true;
        self->state.farewell_until = now() + kLongestFarewell;
        for (const auto& [worker, report] : std::exchange(self->state.spare, {}))
          self->state.turn_away(worker, report->generation());
        for (auto& core : self->state.cores) core->shut_down(now());
      },
      [self](const GroupFault& f) {
        SupervisorState& s = self->state;
        s.core(f.replica).fault(f.generation, f.cause, s.death_kind(f.replica), now());
      },
      [self](const LaunchExited& e) {
        SupervisorState& s = self->state;
        const DeathKind kind = tells_of_want(e.status) ? DeathKind::kWant : s.death_kind(e.replica);
        s.core(e.replica).launch_exited(e.generation, e.status, now(), kind);
        // A relaunch that is due sooner than the next tick.
        self->delayed_send(self, std::chrono::milliseconds(kFirstBackoffMs + 1), Pump{});
      },
      [self](const Pump&) {
        for (auto& core : self->state.cores) core->tick(now());
      },
      [self](const Tick&) { self->state.tick(); },
  };
}

}  // namespace

SupervisorHandle spawn_supervisor(caf::actor_system& system, std::shared_ptr<Shared> shared,
                                  std::vector<SchedulerHandle> schedulers, EngineActorHandle engine,
                                  std::shared_ptr<GroupLauncher> launcher) {
  return system.spawn(supervisor, std::move(shared), std::move(schedulers), std::move(engine),
                      std::move(launcher));
}

}  // namespace tandem::actors
