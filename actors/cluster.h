// An engine with its worker groups, from the outside: no CAF in sight. Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "actors/group_launcher.h"
#include "actors/network/credentials.h"
#include "runtime/engine/core/engine_core.h"
#include "runtime/engine/supervisor_core.h"
#include "runtime/execution/engine_config.h"
#include "runtime/execution/worker.h"
#include "runtime/request/request_processor.h"

namespace tandem::actors {

struct ClusterConfig {
  EngineConfig engine;
  int tensor_parallel_size = 1;  // ranks of a stage
  int data_parallel_size = 1;
  int max_steps_in_flight = 2;  // 1: no run-ahead
  EngineCoreConfig requests;    // num_replicas is set from data_parallel_size
  int max_restarts = 10;        // of each replica, within restart_window seconds
  double restart_window = 60;
  double startup_timeout = 600;         // seconds
  double step_timeout = 300;            // seconds a step may take before its workers count as hung
  double worker_timeout = 5;            // seconds of silence before a worker's host counts as dead
  std::optional<int> client_port;       // 0: any free one; absent: no clients but those in process
  bool client_port_may_differ = false;  // if it is taken
  std::string host = "127.0.0.1";       // that the client port binds to
  std::string cluster_host = "127.0.0.1";  // that the workers' port binds to
  int cluster_port = 0;

  // Of a replica.
  int num_ranks() const {
    return tensor_parallel_size * stages_of(engine) + encoder_ranks_of(engine);
  }
};

// What happened so far, for whoever waits.
struct ClusterStatus {
  int replicas_up = 0;
  uint64_t loading_done = 0, loading_total = 0;  // bytes
  int restarts = 0;                              // launches of worker groups after their first
  std::optional<std::string> given_up;           // the reason; the cluster will not recover
  bool bad_input = false;                        // given up because of the model or a flag
  bool drained = false;
  bool stopped = false;
};

// Ranks that someone else has started (an outer mpirun): this process is rank 0 of replica 0, the
// others learn from `announce` where to report.
struct ExternalRanks {
  std::function<void(const WorkerEndpoint&)> announce;
  std::shared_ptr<Worker> rank0;
};

// Ranks that come by themselves: `tandem worker --connect`. A group of several shares memory of
// this process, so they run on this host.
std::unique_ptr<GroupLauncher> make_join_launcher();

class Cluster {
 public:
  // launcher null: the ranks are threads of this process. Reads config and tokenizer. Throws
  // InputError naming flag or file, std::runtime_error if a port cannot be opened. Starts at once.
  Cluster(const ClusterConfig& config, std::unique_ptr<GroupLauncher> launcher);
  Cluster(const ClusterConfig& config, ExternalRanks ranks);
  // Ranks as threads with another worker than the model's; for tests and benchmarks.
  Cluster(const ClusterConfig& config, std::function<std::unique_ptr<Worker>()> make_worker);
  ~Cluster();  // stops

  // 0 where the port is not open.
  uint16_t client_port() const;
  uint16_t cluster_port() const;
  // For clients of any host.
  Credentials issue_client_credentials();

  int num_replicas() const;
  // The model's config and tokenizer, as requests are prepared with them.
  const RequestProcessor& request_processor() const;
  ClusterStatus status() const;
  // Until the status differs from `seen` or the time is over.
  ClusterStatus wait_for_change(const ClusterStatus& seen, std::chrono::milliseconds most) const;
  // Until all replicas are up. Calls `loading` with bytes, done and in all. Throws InputError or
  // std::runtime_error if they will not be up; returns false if `stop` says so.
  bool wait_until_up(const std::function<void(uint64_t done, uint64_t total)>& loading,
                     const std::function<bool()>& stop) const;
  // No new requests; status().drained once the others have finished and been delivered.
  void drain();
  // Ends everything now. Idempotent; returns when no worker is left.
  void stop();

  struct Impl;  // for in_process_engine.h and clients in this process
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

bool operator==(const ClusterStatus& a, const ClusterStatus& b);

}  // namespace tandem::actors
