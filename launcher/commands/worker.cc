// tandem worker: one rank of a worker group. The launcher starts it; by hand, it joins a server.
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "actors/network/endpoint_probe.h"
#include "actors/network/system_config.h"
#include "actors/worker_process.h"
#include "base/error.h"
#include "base/log/log.h"
#include "launcher/cluster/cluster_options.h"
#include "launcher/cluster/worker_command.h"
#include "launcher/commands/command.h"
#include "parallel/communicators/shared_memory_communicator.h"
#include "runtime/execution/worker_setup.h"

namespace tandem::launcher {
namespace {

struct WorkerOptions {
  std::string address, access_file, crash_directory, cpu_binding = "auto";
  int replica = 0, replicas = 1, rank = 0, ranks = 1;
  uint64_t generation = 0;
  bool mpi = false;
  double worker_timeout = 5;
  LogOptions log;
  ProfileOptions profile;
  WrapWorker wrap;

  std::shared_ptr<Worker> make(CommunicatorFactory communicator, bool has_own_cores) const {
    std::shared_ptr<Worker> worker = make_model_worker(std::move(communicator), has_own_cores);
    return wrap ? wrap(std::move(worker)) : worker;
  }
};

// Of a group that was put together by the supervisor: alone, or in memory that it made.
std::shared_ptr<Communicator> joined_communicator(const proto::WorkerSetup& setup) {
  if (setup.size() == 1) return make_local_communicator();
  const CommunicatorOptions options = communicator_options(setup);
  auto region = SharedMemoryRegion::open(static_cast<pid_t>(setup.memory_pid()), setup.memory_fd(),
                                         setup.size(), options.chunk_bytes);
  region->join(setup.rank());
  region->wait_until_all_joined(options.timeout);
  return make_shared_memory_communicator(std::move(region), setup.rank(), options);
}

int join_by_address(const WorkerOptions& o) {
  o.log.apply("worker");
  keep_nccl_on_loopback();
  const auto profile = o.profile.start("");
  bool again = true;
  while (again) {
    const actors::ClientAccess access = actors::read_client_access(o.address, o.access_file);
    actors::WorkerProcessOptions worker;
    worker.endpoint = {o.address.empty() ? access.address : o.address, access.credentials};
    worker.rank = -1;
    worker.generation = 0;
    worker.peer_timeout = o.worker_timeout;
    log_info("joining {}", worker.endpoint.address);
    again =
        actors::run_worker_process(worker, o.make(joined_communicator, /*has_own_cores=*/false));
  }
  if (profile) profile->finish();
  return 0;
}

int join(const WorkerOptions& o) {
  try {
    return join_by_address(o);
  } catch (const InputError& e) {
    const bool of_connection =
        e.kind() == ErrorKind::kUnavailable || e.kind() == ErrorKind::kInvalidRequest;
    if (o.address.empty() || !of_connection) throw;
    const auto [host, port] = actors::parse_address(o.address);
    const auto endpoint = actors::probe_endpoint(host, port, std::chrono::seconds(1));
    throw InputError(ErrorKind::kUnavailable,
                     actors::explain_connection_failure(endpoint, o.address, e.what(),
                                                        "worker port (--cluster-port)"),
                     "--connect");
  }
}

int run_launched(const WorkerOptions& o, const std::string& endpoint) {
  actors::WorkerProcessOptions worker;
  worker.endpoint = decode_endpoint(endpoint);
  worker.replica = o.replica;
  worker.rank = o.rank;
  worker.generation = o.generation;
  worker.peer_timeout = o.worker_timeout;
  unsetenv(kEndpointVariable);
  // With the engine, or with mpirun, which goes with the engine; a wrapper may have come between.
  // It is how a rank that is stopped, or that nobody has heard of yet, ends.
  const pid_t parent = getppid();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) return 75;
  std::unique_ptr<MpiSession> job;
  CommunicatorFactory communicator = joined_communicator;
  if (o.mpi) {
    job = std::make_unique<MpiSession>();
    worker.rank = job->rank();
    communicator = [&job](const proto::WorkerSetup& setup) {
      return std::shared_ptr<Communicator>(job->make_communicator(communicator_options(setup)));
    };
  }
  const std::string name = std::to_string(worker.replica) + "." + std::to_string(worker.rank);
  o.log.apply("worker " + name);
  if (!o.crash_directory.empty())
    worker.crash_record =
        o.crash_directory + "/" + name + "." + std::to_string(worker.generation) + ".crash";
  const bool has_own_cores =
      bind_to_cores(o.cpu_binding, o.replica * o.ranks + worker.rank, o.replicas * o.ranks);
  const auto profile = o.profile.start(rank_part(o.replica, o.replicas, worker.rank));
  actors::run_worker_process(worker, o.make(communicator, has_own_cores));
  if (profile) profile->finish();
  std::_Exit(0);  // the others may have ended already; nothing is left to be said to them
}

int run(const WorkerOptions& options) {
  const char* endpoint = getenv(kEndpointVariable);
  if (endpoint != nullptr && options.address.empty()) return run_launched(options, endpoint);
  return join(options);
}

}  // namespace

Run add_worker(CLI::App& app, WrapWorker wrap) {
  auto o = std::make_shared<WorkerOptions>();
  o->wrap = std::move(wrap);
  app.option_defaults()->group("Server");
  app.add_option("--connect", o->address,
                 "Join a server at its worker port (`tandem serve --cluster-port`)")
      ->type_name("HOST:PORT");
  app.add_option("--access-file", o->access_file,
                 "File that lets this worker in; without it, the one that a server on this host "
                 "wrote for the port")
      ->type_name("FILE");
  app.add_option("--worker-timeout", o->worker_timeout,
                 "Take the server for dead after so many seconds of silence")
      ->type_name("SECONDS")
      ->capture_default_str();
  app.add_option("--cpu-binding", o->cpu_binding,
                 "Whether the rank keeps to its share of the cores: auto, rank or none")
      ->group("Device")
      ->capture_default_str();
  app.option_defaults()->group("Set by a server that starts this worker");
  app.add_option("--replica", o->replica, "Number of the replica that the rank is part of");
  app.add_option("--replicas", o->replicas, "Number of replicas on this host");
  app.add_option("--rank", o->rank, "Number of the rank in its replica");
  app.add_option("--ranks", o->ranks, "Number of ranks of a replica");
  app.add_option("--generation", o->generation, "How often the replica has been started");
  app.add_option("--crash-directory", o->crash_directory, "Where to leave a record of a crash")
      ->type_name("DIR");
  app.add_flag("--mpi", o->mpi, "Take the rank's number from MPI");
  o->log.add(app);
  o->profile.add(app);
  return [o] { return run(*o); };
}

}  // namespace tandem::launcher
