// The listening port and its connections. Owns the threads that run them.
#pragma once

#include <cstdint>
#include <memory>

#include "server/http/config.h"
#include "server/http/connections/connection_hooks.h"

namespace tandem::server {

class HttpServer {
 public:
  // Listens at once: connections are taken, and wait for start(). Throws InputError naming the
  // flag: an address that does not resolve, a port in use, a certificate that cannot be read.
  // config and hooks outlive the server.
  HttpServer(const ServerConfig& config, ConnectionHooks& hooks);
  // stop(). No Exchange may be used afterwards, or still be held.
  ~HttpServer();

  // Starts the threads, which call the hooks. Throws std::system_error if there is no thread. Once.
  void start();
  uint16_t port() const;
  // Whether only programs of this host reach it.
  bool is_local() const;
  int num_connections() const;
  // Those that have WebSockets are told to finish and to end them; all else goes on.
  void end_sockets();
  // Takes no new connections; those there are end with their answers.
  void drain();
  // Ends all connections and the threads: no hook and no handler runs afterwards. Idempotent.
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem::server
