// The plain cores of a cluster, wired as the actors wire them, on a virtual clock. What passes
// between them takes time; order is kept from each sender to each receiver.
#pragma once

#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/engine/core/engine_core.h"
#include "runtime/engine/engine_journal.h"
#include "runtime/engine/supervisor_core.h"
#include "runtime/request/request_error.h"
#include "tests/support/engine/engine_log.h"
#include "tests/support/simulation/simulated_client.h"
#include "tests/support/simulation/simulated_group.h"
#include "tests/support/simulation/simulated_scheduler.h"
#include "tests/text/fake_tokenizer.h"

namespace tandem::testing_support {

class SimulatedCluster : public EngineOutbox,
                         public SupervisorOutbox,
                         public GroupListener,
                         public SchedulerListener,
                         public ClientPort {
 public:
  SimulatedCluster(World& world, const ClusterTraits& traits)
      : world_(world), traits_(traits), core_(traits.engine, tokenizer_, *this) {
    for (int r = 0; r < traits.engine.num_replicas; ++r) {
      replicas_.push_back(std::make_unique<Replica>(world, *this, r));
      SupervisorConfig config = traits.supervisor;
      config.replica = r;
      config.size = traits.group.size;
      at(r).supervisor = std::make_unique<SupervisorCore>(config, *this);
    }
  }

  void start() {
    for (auto& replica : replicas_) replica->supervisor->start(world_.now());
    tick();
  }
  void add_plan(const Plan& plan) {
    plans_[plan.request.params.seed()] = &plan;
    if (plan.poisonous) poison_[plan.id] = plan.steps_until_crash;
  }

  // What the engine hears and says from now on, for a second one to repeat. Before start().
  void keep_log(EngineLog& log) {
    log_ = &log;
    journal_.emplace(core_, [&log](proto::EngineEvent event) { log.heard.push_back(event); });
    inputs_ = &*journal_;
  }

  // --- What the simulation asks ---
  EngineCore& engine() { return core_; }
  EngineInputs& inputs() { return *inputs_; }
  const EngineCoreConfig& engine_config() const { return traits_.engine; }
  SupervisorCore& supervisor(int r) { return *at(r).supervisor; }
  SimulatedGroup& group(int r) { return *at(r).groups.back(); }
  const FakeTokenizer& tokenizer() const { return tokenizer_; }
  int num_replicas() const { return static_cast<int>(replicas_.size()); }
  bool given_up() const { return given_up_; }
  uint64_t num_preemptions() const {
    return sum_of([](const SimulatedScheduler& one) { return one.num_preemptions(); });
  }
  uint64_t num_accepted() const {  // drafts
    return sum_of([](const SimulatedScheduler& one) { return one.num_accepted(); });
  }
  uint64_t num_silent() const { return num_silent_; }
  int crashes_of(const std::string& id) { return crashes_[id]; }
  int crashes_blamed_on(const std::string& id) const {
    return blamed_.count(id) > 0 ? blamed_.at(id) : 0;
  }
  bool quiet() {
    for (const auto& one : replicas_)
      if (const auto& loop = one->scheduler.loop())
        if (loop->has_unfinished() || loop->steps_in_flight()) return false;
    return core_.num_requests() == 0;
  }
  std::string state() {
    std::string text = "the engine keeps " + std::to_string(core_.num_requests()) + " requests, " +
                       std::to_string(core_.num_unfinished()) + " unfinished";
    for (int r = 0; r < num_replicas(); ++r)
      if (const auto& loop = at(r).scheduler.loop())
        text += ", replica " + std::to_string(r) + ": " + loop->stats().ShortDebugString() + ", " +
                std::to_string(loop->steps_in_flight()) + " steps";
    return text;
  }
  void check_free_blocks() {
    for (int r = 0; r < num_replicas(); ++r)
      if (const auto& loop = at(r).scheduler.loop())
        SIM_CHECK(loop->stats().num_free_blocks() == loop->stats().num_total_blocks(),
                  "blocks are lost");
  }

  // --- ClientPort ---
  std::shared_ptr<Connection> connect(SimulatedClient& client) override {
    auto connection = std::make_shared<Connection>();
    connection->id = ++next_client_;
    connections_[connection->id] = {connection, &client};
    world_.send(connection->to_engine, [this, connection] {
      inputs_->client_connected(connection->id, ClientKind::kRemote);
      connected_.insert(connection->id);
      core_.check_integrity();
    });
    return connection;
  }
  void lose(const std::shared_ptr<Connection>& connection) override {
    connection->alive = false;
    connection->to_engine.longest = 0.3;  // until it is noticed
    world_.send(connection->to_engine, [this, connection] {
      SIM_LOG(world_, "engine: client " + std::to_string(connection->id) + " is gone");
      inputs_->client_gone(connection->id, world_.now());
      connected_.erase(connection->id);
      core_.check_integrity();
    });
  }
  void send(const std::shared_ptr<Connection>& connection,
            const proto::ClientMessage& message) override {
    world_.send(connection->to_engine, [=, this] {
      if (!connection->alive || connected_.count(connection->id) == 0) return;
      on_client(connection, message);
      core_.check_integrity();
    });
  }

 private:
  struct Replica {
    SimulatedScheduler scheduler;
    std::unique_ptr<SupervisorCore> supervisor;
    std::vector<std::unique_ptr<SimulatedGroup>> groups;  // by generation, from 1
    std::vector<Link> supervisor_to_workers;
    Link to_engine, from_engine, to_supervisor, from_supervisor;

    Replica(World& world, SchedulerListener& listener, int index)
        : scheduler(world, listener, index) {}
  };
  struct Client {
    std::shared_ptr<Connection> connection;
    SimulatedClient* client;
  };

  Replica& at(int r) { return *replicas_[static_cast<size_t>(r)]; }
  uint64_t sum_of(uint64_t (*of)(const SimulatedScheduler&)) const {
    uint64_t sum = 0;
    for (const auto& one : replicas_) sum += of(one->scheduler);
    return sum;
  }

  // --- Engine ---
  void on_client(const std::shared_ptr<Connection>& connection,
                 const proto::ClientMessage& message) {
    const double now = world_.now();
    try {
      if (message.has_submit()) {
        const Plan& plan = *plans_.at(std::stoull(message.submit().prompt().encoder().text()));
        if (plan.request.params.seed() % 3 == 0) inputs_->enter_unread(plan.id, now);
        inputs_->reserve(connection->id, message.submit(), now);
        SIM_LOG(world_, "engine: reserves " + plan.id);
        world_.after(world_.one_in(15) ? 0.6 : world_.between(0, 0.01), [this, &plan] {
          if (plan.invalid)
            inputs_->failed(plan.id, invalid_request("prompt", "is invalid"), world_.now());
          else
            inputs_->prepared(plan.id, plan.request, world_.now());
          core_.check_integrity();
        });
      }
      if (message.has_resume()) inputs_->resume(connection->id, message.resume(), now);
      if (message.has_cancel()) inputs_->cancel(message.cancel().request_id(), now);
      if (message.has_acknowledge())
        inputs_->acknowledge(connection->id, message.acknowledge().message(), now);
    } catch (const InputError& error) {
      proto::ServerMessage refusal;
      proto::RequestChunk& chunk = *refusal.add_chunks();
      chunk.set_request_id(message.has_submit() ? message.submit().request_id()
                                                : message.resume().request_id());
      chunk.set_finished(true);
      *chunk.mutable_error() = to_proto(error);
      send_to_client(connection->id, refusal);
    }
  }
  void to_client(ClientId id, proto::ServerMessage message) override {
    if (log_ != nullptr) log_->said.to_client(id, message);
    send_to_client(id, std::move(message));
  }
  void send_to_client(ClientId id, proto::ServerMessage message) {
    SIM_CHECK(connected_.count(id) > 0, "a message to a client that is gone");
    const Client& client = connections_.at(id);
    world_.send(client.connection->to_client, [=, message = std::move(message)] {
      if (client.connection->alive) client.client->receive(client.connection, message);
    });
  }
  void to_reader(const std::string& id) override {
    if (log_ != nullptr) log_->said.to_reader(id);
  }
  void to_preparer(proto::SubmitRequest) override { SIM_CHECK(false, "there is no sound here"); }
  void to_scheduler(int r, proto::SchedulerCommand command) override {
    if (log_ != nullptr) log_->said.to_scheduler(r, command);
    world_.send(at(r).from_engine,
                [this, r, command = std::move(command)] { at(r).scheduler.command(command); });
  }

  // --- Scheduler ---
  void scheduler_event(const proto::SchedulerEvent& event, const proto::StepOutput* step) override {
    auto output = step ? std::make_shared<proto::StepOutput>(*step) : nullptr;
    world_.send(at(event.replica()).to_engine, [this, event, output] {
      if (output)
        inputs_->replica_step(event, *output, world_.now());
      else
        inputs_->replica_event(event, world_.now());
      core_.check_integrity();
    });
  }
  void scheduler_fault(int r, uint64_t generation, const std::string& cause) override {
    SIM_LOG(world_, "scheduler " + std::to_string(r) + ": fault: " + cause);
    world_.send(at(r).to_supervisor, [=, this] {
      at(r).supervisor->fault(generation, cause, death_kind(r), world_.now());
      at(r).supervisor->check_integrity();
    });
  }
  void report_to_scheduler(const proto::WorkerReport& report) override {
    at(report.replica()).scheduler.report(report);
  }

  // --- Supervisor ---
  SimulatedGroup& group_of(int r, uint64_t generation) { return *at(r).groups.at(generation - 1); }
  DeathKind death_kind(int r) {
    return group(r).crashed() ? DeathKind::kCrash : DeathKind::kUnknown;
  }
  void report_to_supervisor(const proto::WorkerReport& report) override {
    SupervisorCore& supervisor = *at(report.replica()).supervisor;
    const DeathKind kind = report.has_failed() ? death_kind(report.replica()) : DeathKind::kUnknown;
    try {
      supervisor.worker_report(report, world_.now(), kind);
    } catch (const std::runtime_error& e) {
      supervisor.fault(report.generation(), e.what(), DeathKind::kUnknown, world_.now());
    }
    supervisor.check_integrity();
  }
  void connection_lost(int r, uint64_t generation, int rank) override {
    at(r).supervisor->worker_down(generation, rank, "its connection is gone", death_kind(r),
                                  world_.now());
    at(r).supervisor->check_integrity();
  }
  void launch_ended(int r, uint64_t generation, const std::string& status) override {
    at(r).supervisor->launch_exited(generation, status, world_.now(), death_kind(r));
    at(r).supervisor->check_integrity();
  }
  void crashes_now(const std::string& request_id) override { ++crashes_[request_id]; }
  int steps_until_crash(const std::string& request_id) override {
    return poison_.count(request_id) > 0 ? poison_.at(request_id) : std::numeric_limits<int>::max();
  }

  void launch(int r, uint64_t generation) override {
    SIM_LOG(world_, "replica " + std::to_string(r) + ": launch " + std::to_string(generation));
    Replica& replica = at(r);
    for (const auto& old : replica.groups) SIM_CHECK(old->ended(), "two generations at once");
    replica.groups.push_back(
        std::make_unique<SimulatedGroup>(world_, *this, traits_.group, r, generation));
    SIM_CHECK(replica.groups.size() == generation, "generations are counted");
    replica.supervisor_to_workers.assign(static_cast<size_t>(traits_.group.size), Link());
    if (world_.now() < traits_.launches_fail_until)
      group(r).end("no such program");
    else
      group(r).launch(/*silent=*/world_.one_in(12) && ++num_silent_ > 0);
  }
  void stop(int r, uint64_t generation) override {
    if (world_.one_in(10)) return;  // in vain; it is repeated
    SimulatedGroup& target = group_of(r, generation);
    world_.after(world_.between(0, 0.03), [&target] { target.end("stopped"); });
  }
  void to_worker(int r, int rank, proto::WorkerCommand command) override {
    SimulatedGroup& to = group(r);
    world_.send(at(r).supervisor_to_workers[static_cast<size_t>(rank)],
                [&to, rank, command = std::move(command)] { to.command(rank, command); });
  }
  void group_up(int r, uint64_t generation, const CacheSize& cache) override {
    SIM_LOG(world_, "replica " + std::to_string(r) + ": up " + std::to_string(generation));
    world_.send(at(r).from_supervisor, [=, this] {
      SchedulerConfig config = traits_.group.scheduler;
      config.num_device_blocks = cache.num_device_blocks;
      config.num_host_blocks = cache.num_host_blocks;
      config.max_steps_in_flight = traits_.max_steps_in_flight;
      at(r).scheduler.up(generation, group_of(r, generation), config);
    });
  }
  void group_down(int r, uint64_t generation, const std::string& cause, bool crashed) override {
    SIM_LOG(world_,
            "replica " + std::to_string(r) + ": down" + (crashed ? ", crashed: " : ": ") + cause);
    world_.send(at(r).from_supervisor, [=, this] {
      const auto in_flight = at(r).scheduler.down(generation, cause, crashed);
      if (!in_flight) return;
      for (const auto& id : std::set(in_flight->begin(), in_flight->end())) blamed_[id] += crashed;
    });
  }
  void loading(int, uint64_t done, uint64_t total) override { SIM_CHECK(done <= total, "loading"); }
  void give_up(int, const std::string& reason, bool) override {
    if (given_up_) return;
    given_up_ = true;
    SIM_LOG(world_, "given up: " + reason);
    world_.after(0.001, [this, reason] {
      inputs_->give_up(reason, world_.now());
      core_.check_integrity();
    });
  }

  void tick() {
    inputs_->tick(world_.now());
    core_.check_integrity();
    for (int r = 0; r < num_replicas(); ++r) {
      Replica& replica = at(r);
      replica.supervisor->tick(world_.now());
      replica.supervisor->check_integrity();
      replica.scheduler.tick(traits_.step_timeout);
    }
    world_.after(0.1, [this] { tick(); });
  }

  World& world_;
  ClusterTraits traits_;
  FakeTokenizer tokenizer_;
  EngineCore core_;
  EngineInputs* inputs_ = &core_;
  EngineLog* log_ = nullptr;
  std::optional<EngineJournal> journal_;
  std::vector<std::unique_ptr<Replica>> replicas_;
  std::unordered_map<uint64_t, const Plan*> plans_;  // by the request's seed
  std::unordered_map<std::string, int> poison_;
  std::unordered_map<ClientId, Client> connections_;
  std::set<ClientId> connected_;  // as the engine sees it
  ClientId next_client_ = 0;
  std::unordered_map<std::string, int> crashes_, blamed_;  // by request
  uint64_t num_silent_ = 0;
  bool given_up_ = false;
};

}  // namespace tandem::testing_support
