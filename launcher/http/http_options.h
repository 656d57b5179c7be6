// Flags of the HTTP server, and the server of one cluster.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "actors/cluster.h"
#include "server/api/application.h"
#include "server/http/config.h"
#include "server/http/http_server.h"

namespace tandem::launcher {

struct HttpOptions {
  server::ServerConfig config;
  bool off = false;
  std::string api_key_file;

  void add(CLI::App& app);  // but --host, which the ports share
  // Checked, with keys read and names set. Throws InputError naming the flag.
  server::ServerConfig parse(const std::string& model, const std::string& host) const;
  // That the server will start: its own, one for what would hold them up, one for the figures.
  int threads() const { return config.threads + 2; }
};

// Serves HTTP from its construction on; 503 until the cluster is up. The cluster outlives it.
class HttpFrontend {
 public:
  HttpFrontend(server::ServerConfig config, actors::Cluster& cluster);
  ~HttpFrontend();
  uint16_t port() const { return http_->port(); }
  // After the cluster has drained: lets the last answers go out.
  void finish();

 private:
  void start(actors::Cluster& cluster);

  server::ServerConfig config_;
  std::unique_ptr<server::EngineApi> engine_;
  struct Pool;
  std::unique_ptr<Pool> pool_;  // for what would hold up connections
  std::unique_ptr<server::AppContext> context_;
  std::unique_ptr<server::Application> application_;
  std::unique_ptr<server::HttpServer> http_;
};

}  // namespace tandem::launcher
