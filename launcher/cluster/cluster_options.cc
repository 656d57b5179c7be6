#include "launcher/cluster/cluster_options.h"

#include <sched.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "actors/worker_process.h"
#include "base/error.h"
#include "base/log/log.h"
#include "kernels/core/plugin.h"
#include "launcher/cluster/mpi_launcher.h"
#include "launcher/cluster/process_launcher.h"
#include "launcher/cluster/worker_command.h"
#include "launcher/progress.h"
#include "runtime/execution/ranks/rank_device.h"
#include "runtime/execution/worker_setup.h"

namespace tandem::launcher {

void ClusterOptions::add(CLI::App& app) {
  const std::string group = "Cluster (docs/cluster.md)";
  const auto option = [&](const char* name, auto& value, const char* help) {
    return app.add_option(name, value, help)->capture_default_str()->group(group);
  };
  option("--tensor-parallel-size,--tp", config.tensor_parallel_size,
         "Number of ranks that share the heads and the vocabulary of a model");
  app.add_option_function<int>(
         "--pipeline-parallel-size,--pp",
         [this](int stages) { parallel.set_pipeline_parallel_size(stages); },
         "Number of stages that share the layers of a model, each with --tensor-parallel-size "
         "ranks")
      ->default_str("1")
      ->group(group);
  const auto number = [&](const char* name, const auto& set, const char* help) {
    app.add_option_function<int>(name, set, help)->default_str("0")->group(group);
  };
  number(
      "--encoder-ranks", [this](int ranks) { parallel.set_encoder_ranks(ranks); },
      "Number of ranks of each replica that run encoders only, besides the others, which then run "
      "decoders only: long inputs do not hold up streams. Where GPUs are too few, they share the "
      "decoders'");
  number(
      "--expected-input-tokens", [this](int n) { parallel.set_expected_input_tokens(n); },
      "Tokens of a usual input, by which stages share layers; 0 if they are not known");
  number(
      "--expected-output-tokens", [this](int n) { parallel.set_expected_output_tokens(n); },
      "Tokens of a usual output, likewise");
  app.add_option_function<std::vector<int>>(
         "--pipeline-layers",
         [this](const std::vector<int>& layers) {
           parallel.mutable_pipeline_layers()->Assign(layers.begin(), layers.end());
         },
         "Number of layers of each stage, the encoder's first, as in 4,4,2,2; without it, stages "
         "have about equally many parameters")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("N,N,")
      ->group(group);
  option("--data-parallel-size,--dp", config.data_parallel_size, "Number of replicas of the model");
  option("--distributed-executor-backend", backend,
         "How ranks run: threads (of this process), processes (of this host, which this one "
         "starts; also called mp), mpi (through mpirun, whose ports others must not reach), join "
         "(`tandem worker` processes that connect), or auto (threads for one rank, mpi with "
         "--hostfile, else processes)");
  app.add_option("--hostfile", hostfile, "Host file of mpirun, for ranks on several hosts")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--worker-program", worker_program,
                 "Program to run in place of this one for each rank, as `PROGRAM worker ...`: a "
                 "wrapper such as numactl, or another build")
      ->type_name("FILE")
      ->group(group);
  option("--cpu-binding", cpu_binding,
         "Whether a rank keeps to its share of the cores: auto, rank or none");
  option("--run-ahead", run_ahead, "Number of steps that workers are sent ahead of the results");
  option("--max-restarts", config.max_restarts,
         "Replace the workers of a replica that often within --restart-window, then end");
  option("--restart-window", config.restart_window,
         "Time in which the restarts of a replica are counted")
      ->type_name("SECONDS");
  option("--startup-timeout", config.startup_timeout, "Time that workers have to be ready")
      ->type_name("SECONDS");
  option("--step-timeout", config.step_timeout, "Take workers for hung after so long in a step")
      ->type_name("SECONDS");
  option("--worker-timeout", config.worker_timeout,
         "Take a process or a host for dead after so long a silence")
      ->type_name("SECONDS");
  option("--cluster-host", config.cluster_host, "Address that workers connect to");
  option("--cluster-port", config.cluster_port, "Port that workers connect to; 0 is any free one");
  log.add(app);
  profile.add(app);
}

// (Numbers that are out of range are refused later.)
int ClusterOptions::num_ranks() const {
  constexpr int64_t kMost = 1 << 16;
  const int64_t of_replica =
      std::clamp<int64_t>(int64_t{config.tensor_parallel_size} * parallel.pipeline_parallel_size() +
                              parallel.encoder_ranks(),
                          1, kMost);
  return static_cast<int>(std::clamp<int64_t>(of_replica * config.data_parallel_size, 1, kMost));
}

std::string ClusterOptions::binding() const {
  return cpu_binding == "auto" && parallel.encoder_ranks() > 0 ? "none" : cpu_binding;
}

bool ClusterOptions::wants_cluster() const {
  const bool split = parallel.pipeline_parallel_size() != 1 || parallel.encoder_ranks() != 0 ||
                     !parallel.pipeline_layers().empty();
  return num_ranks() > 1 || split || backend != "auto" || !hostfile.empty();
}

std::unique_ptr<MpiSession> join_outer_job() {
  if (!MpiSession::launched_by_mpi()) return nullptr;
  std::unique_ptr<MpiSession> job;
  try {
    job = std::make_unique<MpiSession>();
  } catch (const CommunicatorError& error) {  // MPI's plugin is missing, say
    throw InputError(
        ErrorKind::kUnavailable,
        std::string("mpirun or srun started this process as a rank, but ") + error.what());
  }
  return job->size() > 1 ? std::move(job) : nullptr;
}

namespace {

void check_binding(const std::string& mode) {
  if (mode != "auto" && mode != "rank" && mode != "none")
    throw invalid_request("--cpu-binding", "\"" + mode + "\" is not one of auto, rank, none");
}

std::shared_ptr<Worker> rank_of_job(MpiSession& job, bool has_own_cores) {
  return make_model_worker(
      [&job](const proto::WorkerSetup& setup) {
        return std::shared_ptr<Communicator>(
            job.make_communicator(communicator_options(setup), setup.size()));
      },
      has_own_cores);
}

// `announced` is set when the other ranks know where to report.
std::unique_ptr<actors::Cluster> start_in_job(ClusterOptions& options, MpiSession& job,
                                              bool& announced) {
  const bool has_own_cores = bind_to_cores(options.binding(), job.rank(), job.size());
  actors::ClusterConfig& c = options.config;
  const int replicas = c.data_parallel_size;
  check_config(c.engine);
  const int stages = stages_of(c.engine), encoders = encoder_ranks_of(c.engine);
  if (c.tensor_parallel_size == 1)
    c.tensor_parallel_size = std::max(1, (job.size() / std::max(1, replicas) - encoders) / stages);
  if (c.num_ranks() * replicas != job.size())
    throw invalid_request(
        "--tensor-parallel-size",
        std::to_string(c.tensor_parallel_size) +
            (stages > 1 ? " x --pipeline-parallel-size " + std::to_string(stages) : "") +
            (encoders > 0 ? " + --encoder-ranks " + std::to_string(encoders) + ", each" : "") +
            " x --data-parallel-size " + std::to_string(replicas) + " is not the job's " +
            std::to_string(job.size()) + " ranks");
  std::string text = std::to_string(c.num_ranks()) + " ";
  actors::ExternalRanks ranks;
  ranks.announce = [&job, &announced, text](const actors::WorkerEndpoint& endpoint) {
    announced = true;
    std::string bytes = text + encode_endpoint(endpoint);
    job.broadcast(bytes, 0);
  };
  ranks.rank0 = rank_of_job(job, has_own_cores);
  return std::make_unique<actors::Cluster>(c, std::move(ranks));
}

}  // namespace

namespace {

// Streams of one process run beside each other on a GPU; processes take turns.
bool encoders_share_devices(const ClusterOptions& options) {
  const std::string& device = options.config.engine.loading().device();
  return tandem::encoders_share_devices(device, options.parallel.encoder_ranks(),
                                        options.num_ranks(), devices_for(device));
}

// One of threads, processes, mpi, join.
std::string find_backend(const ClusterOptions& options) {
  const std::string& asked = options.backend;
  const bool several = options.num_ranks() > 1;
  if (!options.hostfile.empty()) {
    if (asked == "auto" || asked == "mpi") return "mpi";
    throw invalid_request("--hostfile", "is mpirun's: --distributed-executor-backend " + asked +
                                            " has no use for it");
  }
  if (asked == "auto") return several && !encoders_share_devices(options) ? "processes" : "threads";
  if (asked == "mp") return "processes";
  for (const char* backend : {"threads", "processes", "mpi", "join"})
    if (asked == backend) return asked;
  throw invalid_request("--distributed-executor-backend",
                        "\"" + asked + "\" is not one of auto, threads, processes, mpi, join");
}

void check_given_files(const ClusterOptions& options) {
  for (const auto& [flag, file] : {std::pair("--hostfile", options.hostfile),
                                   std::pair("--worker-program", options.worker_program)})
    if (!file.empty() && !std::filesystem::exists(file))
      throw invalid_request(flag, file + ": no such file");
  const std::string& program = options.worker_program;
  if (!program.empty() &&
      (std::filesystem::is_directory(program) || access(program.c_str(), X_OK) != 0))
    throw invalid_request("--worker-program", program + ": is not a program that can be run");
}

WorkerCommand worker_command(const ClusterOptions& options) {
  const int replicas = options.config.data_parallel_size;
  WorkerCommand worker{options.worker_program, options.log.flags()};
  if (worker.program.empty()) worker.program = this_program();
  for (const std::string& flag : options.profile.flags()) worker.flags.push_back(flag);
  for (const auto& flag :
       {std::string("--cpu-binding"), options.binding(), std::string("--replicas"),
        std::to_string(replicas), std::string("--ranks"),
        std::to_string(options.num_ranks() / std::max(1, replicas)),
        std::string("--worker-timeout"), std::to_string(options.config.worker_timeout)})
    worker.flags.push_back(flag);
  return worker;
}

// Null: the ranks are threads.
std::unique_ptr<actors::GroupLauncher> make_launcher(const ClusterOptions& options) {
  const std::string backend = find_backend(options);
  if (backend == "join") return actors::make_join_launcher();
  if (backend == "mpi")
    return std::make_unique<MpiLauncher>(worker_command(options), options.hostfile);
  keep_nccl_on_loopback();
  if (backend == "threads") return nullptr;
  return std::make_unique<ProcessLauncher>(worker_command(options));
}

}  // namespace

std::vector<std::string> ClusterOptions::profiled_parts() const {
  std::vector<std::string> out;
  if (profile.file.empty()) return out;
  const std::string asked = find_backend(*this);
  if (asked != "processes" && asked != "mpi") return out;
  for (int replica = 0; replica < config.data_parallel_size; ++replica)
    for (int rank = 0; rank < num_ranks() / config.data_parallel_size; ++rank)
      out.push_back(rank_part(replica, config.data_parallel_size, rank));
  return out;
}

void keep_nccl_on_loopback() { setenv("NCCL_SOCKET_IFNAME", "lo", /*overwrite=*/0); }

std::unique_ptr<actors::Cluster> start_cluster(ClusterOptions options, const EngineConfig& engine,
                                               MpiSession* job) {
  actors::ClusterConfig& c = options.config;
  c.engine = engine;
  *c.engine.mutable_parallel() = options.parallel;
  c.engine.mutable_loading()->set_model(
      std::filesystem::absolute(engine.loading().model()).string());
  c.max_steps_in_flight = options.run_ahead + 1;
  if (job == nullptr) {
    check_binding(options.cpu_binding);
    check_given_files(options);
    return std::make_unique<actors::Cluster>(c, make_launcher(options));
  }
  bool announced = false;
  try {
    return start_in_job(options, *job, announced);
  } catch (...) {
    if (!announced) release_ranks(job);
    throw;
  }
}

void release_ranks(MpiSession* job) {
  if (job == nullptr) return;
  std::string nothing;  // they wait for an address
  job->broadcast(nothing, 0);
}

int serve_as_rank(const ClusterOptions& options, MpiSession& job) {
  const bool has_own_cores = bind_to_cores(options.binding(), job.rank(), job.size());
  std::string bytes;
  job.broadcast(bytes, 0);
  if (bytes.empty()) return 1;  // rank 0 has told why
  const size_t space = bytes.find(' ');
  const int group_size = std::max(1, std::stoi(bytes.substr(0, space)));
  actors::WorkerProcessOptions worker;
  worker.endpoint = decode_endpoint(bytes.substr(space + 1));
  worker.replica = job.rank() / group_size;
  worker.rank = job.rank() % group_size;
  worker.peer_timeout = options.config.worker_timeout;
  options.log.apply("worker " + std::to_string(worker.replica) + "." + std::to_string(worker.rank));
  const auto profile =
      options.profile.start(rank_part(worker.replica, job.size() / group_size, worker.rank));
  actors::run_worker_process(worker, rank_of_job(job, has_own_cores));
  if (profile) profile->finish();
  return 0;
}

bool wait_until_up(actors::Cluster& cluster, const std::function<bool()>& stop) {
  ProgressBar bar("Loading");
  return cluster.wait_until_up([&](uint64_t done, uint64_t total) { bar.update(done, total); },
                               stop);
}

bool bind_to_cores(const std::string& mode, int index, int parts) {
  check_binding(mode);
  cpu_set_t all, mine;
  CPU_ZERO(&all);
  CPU_ZERO(&mine);
  if (mode == "none" || parts < 2 || sched_getaffinity(0, sizeof(all), &all) != 0) return false;
  const int cores = CPU_COUNT(&all);
  if (cores < parts || (mode == "auto" && cores < 2 * parts)) return false;
  int seen = 0;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &all)) continue;
    if (static_cast<int64_t>(seen) * parts / cores == index) CPU_SET(cpu, &mine);
    ++seen;
  }
  if (sched_setaffinity(0, sizeof(mine), &mine) != 0) return false;
  log_debug("bound to {} of {} cores", CPU_COUNT(&mine), cores);
  return true;
}

}  // namespace tandem::launcher
