// What is behind Cluster, for those who live in the same actor system (in_process_engine.h).
#pragma once

#include "actors/internal.h"
#include "actors/network/system_config.h"

namespace tandem::actors {

struct Cluster::Impl {
  std::shared_ptr<Shared> shared = std::make_shared<Shared>();
  CertificateAuthority authority;
  Credentials own;
  std::unique_ptr<SystemConfig> system_config;
  std::unique_ptr<caf::actor_system> system;
  EngineActorHandle engine;
  std::vector<SchedulerHandle> schedulers;
  SupervisorHandle supervisor;
  std::shared_ptr<GroupLauncher> launcher;
  uint16_t client_port = 0, cluster_port = 0;
  std::mutex mutex;  // of authority, stopped
  bool stopped = false;
};

}  // namespace tandem::actors
