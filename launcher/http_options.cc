#include "launcher/http_options.h"

#include <sys/stat.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/system/system_error.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <thread>

#include "kernels/core/error.h"
#include "launcher/http_engine.h"
#include "runtime/engine_config.h"
#include "runtime/version.h"

namespace tandem::launcher {
namespace {

constexpr const char* kGroup = "HTTP server (docs/serving.md)";

void add_seconds(CLI::App& app, const char* name, std::chrono::milliseconds& value,
                 const char* help) {
  app.add_option_function<double>(
         name,
         [&value](double s) { value = std::chrono::milliseconds(static_cast<int64_t>(s * 1e3)); },
         help)
      ->type_name("SECONDS")
      ->check(CLI::Range(0.01, 1e6))
      ->default_str(std::to_string(value.count() / 1000))
      ->group(kGroup);
}

void add_bytes(CLI::App& app, const char* name, size_t& value, const char* help) {
  app.add_option_function<std::string>(
         name, [&value, name](const std::string& text) { value = parse_bytes(text, name); }, help)
      ->type_name("BYTES")
      ->default_str(std::to_string(value))
      ->group(kGroup);
}

}  // namespace

void HttpOptions::add(CLI::App& app) {
  const auto option = [&](const char* name, auto& value, const char* help) {
    return app.add_option(name, value, help)->capture_default_str()->group(kGroup);
  };
  option("--port", config.port, "port of the HTTP server; 0: any free one")
      ->check(CLI::Range(0, 65535));
  app.add_flag("--no-http", off, "no HTTP server; clients of docs/client.md only")->group(kGroup);
  app.add_option("--served-model-name", config.model_names,
                 "names that requests may give the model; default: the directory's, or the id")
      ->group(kGroup);
  app.add_option("--api-key", config.api_keys, "keys, one of which requests must have")
      ->group(kGroup);
  option("--api-key-file", api_key_file, "file with a key on each line");
  option("--ssl-certfile", config.tls_certificate, "certificate chain (PEM); makes it HTTPS");
  option("--ssl-keyfile", config.tls_key, "its private key; default: in the same file");
  app.add_option("--allowed-origins", config.allowed_origins,
                 "web origins whose pages may ask (CORS), or *")
      ->group(kGroup);
  option("--prompt-template", config.prompt_template,
         "how chat messages become the encoder's text: {system}, {user}");
  option("--http-threads", config.threads, "threads of the HTTP server")->check(CLI::Range(1, 64));
  option("--max-http-prompts", config.max_requests,
         "prompts under way; requests beyond are answered with 429")
      ->check(CLI::Range(1, 1 << 20));
  option("--max-connections", config.max_connections, "open connections; more are closed at once")
      ->check(CLI::Range(1, 1 << 20));
  add_bytes(app, "--max-body-size", config.max_body_bytes, "largest body of a request");
  add_bytes(app, "--max-header-size", config.max_header_bytes, "largest header of a request");
  option("--request-timeout", config.request_timeout,
         "seconds that any request may take; 0: as long as it needs")
      ->check(CLI::Range(0.0, 1e6));
  add_seconds(app, "--keep-alive-timeout", config.idle_timeout,
              "idle connections are closed after it");
  add_seconds(app, "--header-timeout", config.header_timeout, "time for the header of a request");
  add_seconds(app, "--body-timeout", config.body_timeout, "time for its body");
  add_seconds(app, "--write-timeout", config.write_timeout,
              "clients that read nothing for so long are given up");
  app.add_flag("!--disable-access-log", config.access_log, "no line in the log for each request")
      ->group(kGroup);
}

server::ServerConfig HttpOptions::parse(const std::string& model, const std::string& host) const {
  server::ServerConfig c = config;
  c.host = host;
  if (c.model_names.empty()) {
    std::error_code ignored;
    if (std::filesystem::is_directory(model, ignored)) {
      const auto path = std::filesystem::weakly_canonical(model, ignored);
      c.model_names = {path.filename().string()};
      if (path.string() != model) c.model_names.push_back(model);
    } else {
      c.model_names = {model};  // an id at the hub
    }
  }
  if (!api_key_file.empty()) {
    std::ifstream file(api_key_file);
    if (!file) throw invalid_request("--api-key-file", "cannot read " + api_key_file);
    for (std::string line; std::getline(file, line);) {
      while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
      if (!line.empty()) c.api_keys.push_back(line);
    }
    if (c.api_keys.empty()) throw invalid_request("--api-key-file", api_key_file + " has no key");
  }
  for (const std::string& key : c.api_keys)
    if (key.empty()) throw invalid_request("--api-key", "is empty");
  if (c.prompt_template.find("{user}") == std::string::npos)
    throw invalid_request("--prompt-template", "has no {user}");
  if (c.max_header_bytes < 1024)
    throw invalid_request("--max-header-size", "must be 1 KiB at least");
  return c;
}

struct HttpFrontend::Pool {
  boost::asio::thread_pool threads{1};
};

HttpFrontend::HttpFrontend(server::ServerConfig config, actors::Cluster& cluster)
    : config_(std::move(config)) {
  try {
    start(cluster);
  } catch (const boost::system::system_error& e) {  // of its constructors: no thread, no descriptor
    throw std::system_error(e.code().value(), std::generic_category(), e.what());
  }
}

void HttpFrontend::start(actors::Cluster& cluster) {
  engine_ = make_http_engine(cluster);
  pool_ = std::make_unique<Pool>();
  const RequestProcessor& processor = cluster.request_processor();
  context_ = std::unique_ptr<server::AppContext>(new server::AppContext{
      config_, *engine_, processor.tokenizer(), processor.model_config().max_position_embeddings,
      processor.model_config().d_model, kVersion, server::Metrics(config_.model_names.front())});
  context_->run_apart = [this](std::function<void()> f) {
    boost::asio::post(pool_->threads, std::move(f));
  };
  application_ = std::make_unique<server::Application>(*context_);
  http_ = std::make_unique<server::HttpServer>(config_, *application_);
  context_->num_connections = [this] { return http_ ? http_->num_connections() : 0; };
}

HttpFrontend::~HttpFrontend() {
  engine_.reset();
  pool_->threads.join();
  http_.reset();
}

void HttpFrontend::finish() {
  http_->drain();
  for (int i = 0; i < 300 && http_->num_connections() > 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

}  // namespace tandem::launcher
