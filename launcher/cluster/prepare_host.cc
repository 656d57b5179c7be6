#include "launcher/cluster/prepare_host.h"

#include <algorithm>

#include "actors/network/credentials.h"
#include "actors/network/process_limits.h"
#include "launcher/cluster/run_directory.h"
#include "runtime/execution/worker_setup.h"

namespace tandem::launcher {
namespace {

// CAF's pool, clock, connections and connecting; two that prepare texts; the commands' own client;
// the launcher of processes, or what looks after signals.
constexpr int kEngineThreads = 2 + 3 + 2 + 1 + 1;
// Credentials, ports, polling, clients' files, the model's while it is read, and first connections.
constexpr int kEngineFiles = 20, kFilesOfRank = 2;

}  // namespace

void prepare_host(const ClusterOptions& options, const EngineConfig& engine, int threads) {
  actors::sweep_access_files();
  sweep_run_directories();
  raise_file_limit();
  const int replicas = options.config.data_parallel_size;
  const int ranks = options.num_ranks();
  threads += kEngineThreads + std::clamp(replicas, 1, 256);
  const bool here = options.backend == "threads" || (options.backend == "auto" && ranks == 1);
  if (here)
    threads +=
        ranks * (engine.loading().threads() > 0 ? engine.loading().threads()
                                                : threads_of_rank(default_threads(), ranks, false));
  check_threads(threads);
  check_files(kEngineFiles + (here ? 0 : kFilesOfRank * ranks));
}

}  // namespace tandem::launcher
