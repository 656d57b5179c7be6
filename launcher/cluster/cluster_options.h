// Flags of commands that run a cluster, and the ways in which its ranks come to be.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "actors/cluster.h"
#include "launcher/cli.h"
#include "launcher/logging.h"
#include "launcher/profile/profile_options.h"
#include "parallel/communicators/mpi_session.h"

namespace tandem::launcher {

struct ClusterOptions {
  std::string backend = "auto";
  std::string hostfile;
  std::string worker_program;
  std::string cpu_binding = "auto";
  int run_ahead = 1;
  proto::ParallelConfig parallel;
  actors::ClusterConfig config;
  LogOptions log;
  ProfileOptions profile;

  void add(CLI::App& app);
  // What ranks in processes of their own on this host, which this one starts, add to the profile's
  // name.
  std::vector<std::string> profiled_parts() const;
  // Of all replicas.
  int num_ranks() const;
  // Of --cpu-binding: ranks that run encoders are not bound unless asked, since they share the
  // cores with the others.
  std::string binding() const;
  // More than one process's plain engine is asked for.
  bool wants_cluster() const;
};

// This process's rank in an outer mpirun or srun job of more than one rank, if there is one. Throws
// InputError where the job cannot be joined.
std::unique_ptr<MpiSession> join_outer_job();

// Starts the cluster as the flags say. job: null, or rank 0 of an outer job.
std::unique_ptr<actors::Cluster> start_cluster(ClusterOptions options, const EngineConfig& engine,
                                               MpiSession* job);
// The part of the other ranks of an outer job: serves until the cluster ends; the exit status.
int serve_as_rank(const ClusterOptions& options, MpiSession& job);
// Rank 0, if it cannot start: the others end. job may be null.
void release_ranks(MpiSession* job);

// Waits, with a progress bar, until all replicas are up. Throws InputError or std::runtime_error if
// they will not be; returns false if `stop` says so.
bool wait_until_up(actors::Cluster& cluster, const std::function<bool()>& stop);

// NCCL would choose an address of this host that others reach. Where a group's ranks are all on
// this host the loopback is enough; a NCCL_SOCKET_IFNAME that is set stays.
void keep_nccl_on_loopback();

// Binds this process to part `index` of `parts` equal parts of its cores. Returns whether it did.
// mode: "rank" binds always, "none" never, "auto" if a part has two cores or more. Throws
// InputError for another mode.
bool bind_to_cores(const std::string& mode, int index, int parts);

}  // namespace tandem::launcher
