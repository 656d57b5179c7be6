// How CAF is set up in every process of Tandem: its pool does not spin on cores that compute, its
// ports speak mutual TLS only, a silent peer is given up after a while.
#pragma once

#include <caf/all.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "actors/network/credentials.h"
#include "actors/network/messages.h"

namespace tandem::actors {

struct SystemOptions {
  int threads = 2;                  // of CAF's pool
  double heartbeat_interval = 0.5;  // seconds
  double peer_timeout = 5;          // seconds of silence after which a peer counts as dead
};

// Outlives the actor_system made from it. Without credentials there is no network.
class SystemConfig : public caf::actor_system_config {
 public:
  // Throws WantOfResources if there are not threads and descriptors enough for the actor_system.
  SystemConfig(const SystemOptions& options, const Credentials* credentials);
  // For connections to come (a restarted server has another authority). Needs credentials already;
  // not while a connection is being made.
  void replace_credentials(const Credentials& credentials);

 private:
  std::unique_ptr<CredentialFiles> files_;
};

// "127.0.0.1:7070", "[::1]:7070" → host, port. Throws InputError.
std::pair<std::string, uint16_t> parse_address(const std::string& address);

}  // namespace tandem::actors
