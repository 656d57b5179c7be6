// tandem serve: an engine with its workers, open to clients until a signal or until its workers
// cannot be kept alive.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "actors/in_process_engine.h"
#include "actors/network/process_limits.h"
#include "base/error.h"
#include "base/log/log.h"
#include "launcher/adapter_options.h"
#include "launcher/cluster/cluster_options.h"
#include "launcher/cluster/prepare_host.h"
#include "launcher/commands/command.h"
#include "launcher/commands/http_frontend.h"
#include "launcher/config_file.h"
#include "launcher/hub/hub.h"
#include "launcher/options.h"
#include "launcher/otlp/otlp_settings.h"
#include "launcher/signals.h"
#include "launcher/usage/environment.h"

namespace tandem::launcher {
namespace {

constexpr int kDefaultClientPort = 7070;
constexpr size_t kOwnFiles = 256;     // that are no connections
constexpr unsigned kLongestEnd = 60;  // seconds, once everything is finished or given up

struct ServeOptions {
  EngineOptions engine;
  ClusterOptions cluster;
  HttpOptions http;
  OtlpOptions otlp;
  double drain_timeout = 60;
  std::vector<std::string> warnings;  // about the environment
  std::optional<int> client_port;
};

// Files that let clients and workers in; gone with the object.
class AccessFiles {
 public:
  explicit AccessFiles(actors::Cluster& cluster, const actors::ClusterConfig& config) {
    add(config.host, cluster.client_port(), cluster);
    if (cluster.cluster_port() != 0) add(config.cluster_host, cluster.cluster_port(), cluster);
  }
  const std::filesystem::path& client_file() const { return files_.front().path(); }

 private:
  void add(const std::string& host, int port, actors::Cluster& cluster) {
    files_.emplace_back(
        actors::ClientAccess{host + ":" + std::to_string(port), cluster.issue_client_credentials()},
        port);
  }
  std::vector<actors::AccessFile> files_;
};

// Until everything is delivered, the time is over, or a second signal comes. http: null if there is
// none. Live sessions come first: to the engine the rest of their sound is new requests.
void drain(actors::Cluster& cluster, HttpFrontend* http, double seconds) {
  using Clock = std::chrono::steady_clock;
  log_info("shutting down: finishing what has been begun");
  const auto deadline = Clock::now() + std::chrono::duration<double>(seconds);
  const auto wait_while = [&](const std::function<bool()>& going_on) {
    while (going_on() && !cluster.status().given_up) {
      if (wait_for_signal(20) != 0) {
        log_warning("a second signal: stopping at once");
        return false;
      }
      if (Clock::now() >= deadline) {
        log_warning("not everything was finished in {} s", seconds);
        return false;
      }
    }
    return true;
  };
  if (http != nullptr) {
    http->end_sessions();
    if (!wait_while([&] { return http->has_sessions(); })) return;
  }
  cluster.drain();
  wait_while([&] { return !cluster.status().drained; });
}

int serve(const ServeOptions& options, const EngineConfig& engine,
          const server::ServerConfig& http_config, const OtlpSettings& otlp, MpiSession* job) {
  const auto profile = options.cluster.profile.start("");
  const auto cluster = start_cluster(options.cluster, engine, job);
  const AccessFiles access(*cluster, options.cluster.config);
  log_info("listening on {}:{} (access file {})", options.cluster.config.host,
           cluster->client_port(), access.client_file().string());
  if (cluster->cluster_port() != 0)
    log_info("workers connect to {}:{}", options.cluster.config.cluster_host,
             cluster->cluster_port());
  std::optional<HttpFrontend> http;
  if (!options.http.off) {
    http.emplace(http_config, otlp, std::make_unique<actors::InProcessEngine>(*cluster),
                 cluster->request_processor());
    log_info("HTTP at {}", http->url());
    if (otlp.traces) log_info("traces go to {}", otlp.traces->url);
    if (otlp.metrics) log_info("metrics go to {}", otlp.metrics->url);
    if (http->is_open() && http_config.api_keys.empty())
      log_warning(
          "everybody who reaches {} may send requests: --host lets other machines in, and there is "
          "no --api-key",
          http_config.host);
  }
  int signal = 0;
  const bool up = wait_until_up(*cluster, [&] { return (signal = wait_for_signal(1)) != 0; });
  if (up) {
    log_info("ready");
    while (signal == 0 && !cluster->status().given_up) signal = wait_for_signal(100);
    if (signal != 0) drain(*cluster, http ? &*http : nullptr, options.drain_timeout);
    if (http) http->finish();
  }
  const actors::ClusterStatus status = cluster->status();
  end_within(kLongestEnd);
  http.reset();
  if (profile && job == nullptr) profile->wait_for_ranks(options.cluster.profiled_parts());
  cluster->stop();
  if (profile) profile->finish();
  if (status.given_up) return kInternalError;
  log_info("stopped");
  return 0;
}

// A connection beyond would be one that is never taken: better that an idle one makes room for it.
void fit_file_limit(server::ServerConfig& http) {
  const size_t files = file_limit();
  const size_t room = files > 2 * kOwnFiles ? files - kOwnFiles : files / 2;
  if (http.max_connections <= room) return;
  http.max_connections = room;
  log_debug("at most {} connections, because {} files may be open (ulimit -n)", room, files);
}

int run(ServeOptions& options) {
  catch_signals();
  if (options.engine.model.empty())
    throw invalid_request("MODEL", "is missing: give it as the first argument, or with --model");
  options.cluster.log.apply("engine");
  for (const std::string& warning : options.warnings) log_warning("{}", warning);
  options.cluster.config.client_port = options.client_port.value_or(kDefaultClientPort);
  options.cluster.config.client_port_may_differ = !options.client_port;
  const auto job = join_outer_job();
  if (job && job->rank() != 0) return serve_as_rank(options.cluster, *job);
  EngineConfig engine;
  server::ServerConfig http;
  OtlpSettings otlp;
  try {
    engine = options.engine.parse();
    http = options.http.parse(options.engine.model, options.cluster.config.host);
    otlp = options.otlp.parse([](const char* name) { return std::getenv(name); });
    for (const std::string& warning : otlp.warnings) log_warning("{}", warning);
    http.traces = otlp.sampler;
    http.max_requests = http.max_prompts = options.cluster.config.requests.max_requests;
    const auto stop = [] { return wait_for_signal(0) != 0; };
    engine.mutable_loading()->set_model(
        options.engine.find_model(hub::ModelFiles::kCheckpoint, stop).string());
    options.engine.find_draft_model(engine, stop);
    prepare_host(options.cluster, engine, options.http.off ? 0 : options.http.threads());
    if (!options.http.off) fit_file_limit(http);
  } catch (const hub::Interrupted&) {
    release_ranks(job.get());
    log_info("stopped");
    return 0;
  } catch (...) {
    release_ranks(job.get());
    throw;
  }
  return serve(options, engine, http, otlp, job.get());
}

// MODEL wins over the variable; beside --model it is one too many. Returns whether there is a
// model.
bool settle_model(EngineOptions& engine) {
  const char* variable = std::getenv("TANDEM_MODEL");
  const std::string otherwise = engine.model;
  if (variable != nullptr && otherwise == variable) engine.model.clear();
  engine.settle_model();
  if (engine.model.empty()) engine.model = otherwise;
  return !engine.model.empty();
}

}  // namespace

Run add_serve(CLI::App& app) {
  auto o = std::make_shared<ServeOptions>();
  o->engine.add_model_argument(app);
  o->engine.add_model(app);
  app.get_option("--model")->required(false);
  app.option_defaults()->group("Server");
  app.add_option("--host", o->cluster.config.host,
                 "Address to listen at, for HTTP and for other clients")
      ->capture_default_str();
  app.add_option("--client-port", o->client_port,
                 "Port for Tandem's own clients (docs/client.md); 0 is any free one. Without the "
                 "flag it is 7070, or any free one where that is taken")
      ->default_str("7070");
  app.add_option("--max-requests", o->cluster.config.requests.max_requests,
                 "Refuse requests as overload while that many are unfinished")
      ->capture_default_str();
  app.add_option("--max-queue-time", o->cluster.config.requests.admission.max_queue_time,
                 "Refuse a request as overload if the work before it would take longer; 0 is "
                 "never, unless the request has a timeout (docs/serving.md)")
      ->type_name("SECONDS")
      ->capture_default_str();
  app.add_option(
         "--orphan-timeout", o->cluster.config.requests.orphan_timeout,
         "Go on with a request for so long after its client has gone, in case it comes back")
      ->type_name("SECONDS")
      ->capture_default_str();
  app.add_option("--drain-timeout", o->drain_timeout,
                 "Give requests so long to finish after SIGTERM or Ctrl-C")
      ->type_name("SECONDS")
      ->capture_default_str();
  o->http.add(app);
  o->otlp.add(app);
  o->engine.add_engine(app);
  add_adapter_changes(app, *o->engine.config.mutable_adapters());
  o->cluster.add(app);
  add_environment_and_config(app);
  return [o, &app] {
    const bool settled = settle_model(o->engine);
    const std::string model = o->engine.model;
    apply_config_file(app);
    if (settled) o->engine.model = model;
    o->warnings = unknown_variables(app);
    return run(*o);
  };
}

}  // namespace tandem::launcher
