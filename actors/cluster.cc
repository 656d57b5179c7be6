#include "actors/cluster.h"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "actors/cluster_impl.h"
#include "actors/network/network.h"
#include "actors/network/process_limits.h"
#include "actors/thread_launcher.h"
#include "base/error.h"
#include "base/log/log.h"
#include "base/seconds_since.h"
#include "kernels/core/plugin.h"
#include "runtime/execution/compute_type.h"

namespace tandem::actors {

double now() {
  static const auto start = std::chrono::steady_clock::now();
  return seconds_since(start);
}

std::function<caf::error(std::exception_ptr&)> stop_loudly(const char* actor) {
  return [actor](std::exception_ptr& e) -> caf::error {
    try {
      std::rethrow_exception(e);
    } catch (const std::exception& what) {
      const std::string want = want_of_resources(what);
      if (!want.empty()) end_for_want(want);
      log_critical("{}: {}", actor, what.what());
    }
    std::abort();
  };
}

bool operator==(const ClusterStatus& a, const ClusterStatus& b) {
  return a.replicas_up == b.replicas_up && a.loading_done == b.loading_done &&
         a.loading_total == b.loading_total && a.restarts == b.restarts &&
         a.given_up == b.given_up && a.drained == b.drained && a.stopped == b.stopped;
}

namespace {

constexpr int kMostRanks = 1024;

void check(const ClusterConfig& c) {
  check_config(c.engine);
  check_range("--tensor-parallel-size", c.tensor_parallel_size, 1, 256);
  if (c.num_ranks() > kMostRanks)
    throw invalid_request(
        "--pipeline-parallel-size",
        fmt::format("a group has at most {} ranks, and {} stages of {} are {}", kMostRanks,
                    stages_of(c.engine), c.tensor_parallel_size, c.num_ranks()));
  check_range("--data-parallel-size", c.data_parallel_size, 1, 256);
  const auto seconds = [](const char* flag, double value, double least) {
    if (!(value >= least && value <= 1e9))
      throw invalid_request(
          flag, fmt::format("{} is out of range, expected at least {} seconds", value, least));
  };
  seconds("--restart-window", c.restart_window, 0);
  seconds("--startup-timeout", c.startup_timeout, 0.1);
  seconds("--step-timeout", c.step_timeout, 0.1);
  seconds("--worker-timeout", c.worker_timeout, 0.1);
  seconds("--orphan-timeout", c.requests.orphan_timeout, 0);
  seconds("--max-queue-time", c.requests.admission.max_queue_time, 0);
  check_range("--max-requests", c.requests.max_requests, 1, 1 << 30);
  check_range("--max-restarts", c.max_restarts, 0, 1 << 20);
  check_range("--run-ahead", c.max_steps_in_flight - 1, 0, 16);
  if (c.client_port) check_range("--client-port", *c.client_port, 0, 65535);
  check_range("--cluster-port", c.cluster_port, 0, 65535);
}

// A CPU is as fast as it gets with so many sequences a step; a GPU with as many as it may have.
constexpr int kCpuBatch = 32, kLeastCpuBatch = 16;
constexpr int kMostSeats = 1 << 16;  // beyond, no number is measured to be any good

bool on_cpu(const std::string& device) {
  try {
    return choose_device(device).device == Device::kCpu;
  } catch (const InputError&) {  // not here; its workers are elsewhere
    return false;
  }
}

std::unique_ptr<Cluster::Impl> make_impl(const ClusterConfig& config) {
  check(config);
  auto impl = std::make_unique<Cluster::Impl>();
  Shared& shared = *impl->shared;
  shared.config = config;
  shared.config.requests.num_replicas = config.data_parallel_size;
  AdmissionConfig& admission = shared.config.requests.admission;
  const int seats =
      config.data_parallel_size * std::min(config.engine.scheduling().max_num_seqs(), kMostSeats);
  admission.most_unmeasured = seats;
  const bool cpu = on_cpu(config.engine.loading().device());
  admission.batch = cpu ? std::min(seats, kCpuBatch * config.data_parallel_size) : seats;
  // A full batch, and what takes the place of those that end in it.
  const int batch = admission.batch / config.data_parallel_size;
  shared.config.requests.most_at_replica = batch + std::max(1, batch / 4);
  shared.config.requests.least_at_replica =
      cpu ? std::min(kLeastCpuBatch, shared.config.requests.most_at_replica) : 0;
  shared.processor = std::make_shared<RequestProcessor>(config.engine);
  const auto stored = shared.processor->model_config().checkpoint_dtype;
  shared.dtype = resolve_dtype(config.engine, stored);
  log_info("{}", describe_compute_type(shared.dtype, stored, cpu));
  return impl;
}

// Everything but the supervisor and what it needs.
void spawn_actors(Cluster::Impl& impl, bool network) {
  impl.own = impl.issue("tandem engine");
  SystemOptions options;
  options.peer_timeout = impl.shared->config.worker_timeout;
  impl.system_config = std::make_unique<SystemConfig>(options, network ? &impl.own : nullptr);
  impl.system = std::make_unique<caf::actor_system>(*impl.system_config);
  impl.engine = spawn_engine(*impl.system, impl.shared);
  for (int r = 0; r < impl.shared->config.data_parallel_size; ++r)
    impl.schedulers.push_back(spawn_scheduler(*impl.system, impl.shared, r, impl.engine));
  caf::anon_send(impl.engine, Wiring{impl.schedulers});
}

// A port that nobody asked for gives way to one that is free.
void open_client_port(Cluster::Impl& impl) {
  const ClusterConfig& config = impl.shared->config;
  const auto engine = caf::actor_cast<EngineHandle>(impl.engine);
  const int port = *config.client_port;
  try {
    impl.client_port = publish(*impl.system, engine, config.host, static_cast<uint16_t>(port));
  } catch (const PortTaken&) {
    if (!config.client_port_may_differ) throw;
    impl.client_port = publish(*impl.system, engine, config.host, 0);
    log_warning("port {} is taken (another server?): clients of docs/client.md connect to {}:{}",
                port, config.host, impl.client_port);
  }
}

void run(Cluster::Impl& impl, std::shared_ptr<GroupLauncher> launcher, bool remote_workers) {
  const ClusterConfig& config = impl.shared->config;
  impl.launcher = std::move(launcher);
  impl.supervisor =
      spawn_supervisor(*impl.system, impl.shared, impl.schedulers, impl.engine, impl.launcher);
  if (auto* threads = dynamic_cast<ThreadLauncher*>(impl.launcher.get()))
    threads->set_supervisor(impl.supervisor);
  WorkerEndpoint endpoint;
  if (remote_workers) {
    impl.cluster_port =
        publish(*impl.system, caf::actor_cast<ReportHandle>(impl.supervisor), config.cluster_host,
                static_cast<uint16_t>(config.cluster_port), "--cluster-port");
    endpoint = {config.cluster_host + ":" + std::to_string(impl.cluster_port),
                impl.issue("tandem worker")};
  }
  if (config.client_port) open_client_port(impl);
  impl.launcher->open(endpoint, [supervisor = impl.supervisor](int replica, uint64_t generation,
                                                               const std::string& status) {
    caf::anon_send(supervisor, LaunchExited{replica, generation, status});
  });
  caf::anon_send(impl.supervisor, StartAll{});
}

// Actors tick for ever, and their system's end waits for them.
void end_actors(Cluster::Impl& impl) {
  for (const auto& scheduler : impl.schedulers)
    caf::anon_send_exit(scheduler, caf::exit_reason::user_shutdown);
  if (impl.engine) caf::anon_send_exit(impl.engine, caf::exit_reason::user_shutdown);
  if (impl.supervisor) {
    caf::anon_send_exit(impl.supervisor, caf::exit_reason::user_shutdown);
    // It holds the launcher, which must be gone: whoever calls may end the process next.
    caf::scoped_actor self(*impl.system);
    self->wait_for(impl.supervisor);
  }
  impl.schedulers.clear();
  impl.engine = nullptr;
  impl.supervisor = nullptr;
  impl.launcher.reset();
}

// For constructors, whose object's destructor will not run.
template <class Start>
void start_or_end(Cluster::Impl& impl, const Start& start) {
  try {
    start();
  } catch (const std::system_error& e) {
    // CAF counts a thread before it has it, and would wait for its end for ever.
    const std::string want = want_of_resources(e);
    if (!want.empty()) end_for_want(want);
    end_actors(impl);
    throw;
  } catch (...) {
    end_actors(impl);
    throw;
  }
}

void run_threads(Cluster::Impl& impl, WorkerGroupFactory factory) {
  spawn_actors(impl, impl.shared->config.client_port.has_value());
  run(impl, std::make_shared<ThreadLauncher>(*impl.system, std::move(factory)),
      /*remote_workers=*/false);
}

}  // namespace

Cluster::Cluster(const ClusterConfig& config, std::unique_ptr<GroupLauncher> launcher)
    : impl_(make_impl(config)) {
  start_or_end(*impl_, [&] {
    if (launcher == nullptr) {
      run_threads(*impl_, model_worker_groups());
    } else {
      spawn_actors(*impl_, /*network=*/true);
      run(*impl_, std::move(launcher), /*remote_workers=*/true);
    }
  });
}

Cluster::Cluster(const ClusterConfig& config, std::function<std::unique_ptr<Worker>()> make_worker)
    : impl_(make_impl(config)) {
  start_or_end(*impl_, [&] {
    run_threads(*impl_, [make_worker](int, int size) {
      std::vector<std::shared_ptr<Worker>> workers;
      for (int rank = 0; rank < size; ++rank) workers.push_back(make_worker());
      return workers;
    });
  });
}

Cluster::Cluster(const ClusterConfig& config, ExternalRanks ranks) : impl_(make_impl(config)) {
  start_or_end(*impl_, [&] {
    spawn_actors(*impl_, /*network=*/true);
    auto launcher = std::make_shared<ThreadLauncher>(
        *impl_->system,
        [rank0 = ranks.rank0](int replica, int) {
          return replica == 0 ? std::vector{rank0} : std::vector<std::shared_ptr<Worker>>();
        },
        ranks.announce);
    run(*impl_, std::move(launcher), /*remote_workers=*/true);
  });
}

Cluster::~Cluster() { stop(); }

uint16_t Cluster::client_port() const { return impl_->client_port; }
uint16_t Cluster::cluster_port() const { return impl_->cluster_port; }

Credentials Cluster::issue_client_credentials() { return impl_->issue("tandem client"); }

const RequestProcessor& Cluster::request_processor() const { return *impl_->shared->processor; }
int Cluster::num_replicas() const { return impl_->shared->config.data_parallel_size; }
ClusterStatus Cluster::status() const { return impl_->shared->board.get(); }

ClusterStatus Cluster::wait_for_change(const ClusterStatus& seen,
                                       std::chrono::milliseconds most) const {
  return impl_->shared->board.wait(seen, most);
}

bool Cluster::wait_until_up(const std::function<void(uint64_t done, uint64_t total)>& loading,
                            const std::function<bool()>& stop) const {
  ClusterStatus status = this->status();
  while (!status.given_up && status.replicas_up < num_replicas()) {
    if (stop()) return false;
    loading(status.loading_done, status.loading_total);
    status = wait_for_change(status, std::chrono::milliseconds(100));
  }
  if (!status.given_up) return true;
  if (status.bad_input) throw InputError(ErrorKind::kInvalidModel, *status.given_up);
  throw std::runtime_error(*status.given_up);
}

void Cluster::drain() { caf::anon_send(impl_->engine, Drain{}); }

void Cluster::stop() {
  {
    const MutexLock lock(impl_->mutex);
    if (impl_->stopped) return;
    impl_->stopped = true;
  }
  caf::anon_send(impl_->supervisor, ShutDown{});
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  ClusterStatus status = this->status();
  while (!status.stopped && std::chrono::steady_clock::now() < deadline)
    status = wait_for_change(status, std::chrono::milliseconds(100));
  if (!status.stopped) log_error("workers have not ended in 30 s");
  end_actors(*impl_);
}

}  // namespace tandem::actors
