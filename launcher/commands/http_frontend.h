// Flags of the HTTP server, and the server of one engine.
#pragma once

#include <memory>
#include <string>

#include "launcher/cli.h"
#include "launcher/otlp/otlp_settings.h"
#include "runtime/engine/engine_api.h"
#include "runtime/request/answer_reader.h"
#include "runtime/request/request_processor.h"
#include "server/api/application.h"
#include "server/http/config.h"
#include "server/http/http_server.h"
#include "server/telemetry/metric_pusher.h"

namespace tandem::launcher {

struct HttpOptions {
  server::ServerConfig config;
  bool off = false;
  std::string api_key_file;

  void add(CLI::App& app);  // but --host, which the ports share
  // Checked, with keys read and names set. Throws InputError naming the flag.
  server::ServerConfig parse(const std::string& model, const std::string& host) const;
  // That the server will start: its own, two for what would hold them up, two for a collector.
  int threads() const { return config.threads + 4; }
};

// Serves HTTP from its construction on; 503 until the engine is ready.
class HttpFrontend {
 public:
  // `processor`, the engine's own, and what the engine refers to outlive it.
  HttpFrontend(server::ServerConfig config, const OtlpSettings& otlp,
               std::unique_ptr<EngineApi> engine, const RequestProcessor& processor);
  // Connections end first, then the engine: handlers call it to the last.
  ~HttpFrontend();
  uint16_t port() const { return http_->port(); }
  // "http://127.0.0.1:8000/".
  std::string url() const;
  // Whether other hosts reach it.
  bool is_open() const { return !http_->is_local(); }
  // Before the engine drains: live sessions settle what they have heard, and nothing new is taken.
  void end_sessions();
  bool has_sessions() const { return context_->live_sessions > 0; }
  // After the engine has drained: lets the last answers go out.
  void finish();

 private:
  void start(const RequestProcessor& processor, const OtlpSettings& otlp);
  void start_telemetry(const OtlpSettings& otlp);

  server::ServerConfig config_;
  std::unique_ptr<EngineApi> engine_;
  struct Pool;
  std::unique_ptr<Pool> pool_;             // for what would hold up connections
  std::unique_ptr<AnswerReader> answers_;  // of a model that reads images
  std::unique_ptr<server::AppContext> context_;
  std::unique_ptr<server::Application> application_;
  std::unique_ptr<server::HttpServer> http_;
  std::unique_ptr<server::MetricPusher> pusher_;  // null: nobody collects metrics
};

}  // namespace tandem::launcher
