#include "launcher/commands/http_frontend.h"

#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/system/system_error.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <thread>

#include "base/error.h"
#include "launcher/otlp/curl_transport.h"
#include "models/config/limits.h"
#include "models/config/model_uses.h"
#include "models/config/task_params.h"
#include "runtime/execution/engine_config.h"
#include "runtime/media/sound/speech_settings.h"
#include "runtime/version.h"
#include "server/http/url.h"
#include "text/language_names.h"

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

// Where the model lies on this machine is nobody's business: a directory's own name is its model's.
// Requests may give the path too, as they did once.
void set_names(const std::string& model, server::ServerConfig& c) {
  std::error_code ignored;
  const bool directory = std::filesystem::is_directory(model, ignored);
  std::string name = model;  // an id at the hub
  if (directory) {
    name = std::filesystem::weakly_canonical(model, ignored).filename().string();
    if (name.empty()) name = "model";
    c.silent_names = {model};
  }
  if (c.model_names.empty()) c.model_names = {name};
  for (const std::string& given : c.model_names)
    if (given.empty()) throw invalid_request("--served-model-name", "is empty");
}

// What the model hears. One of a single language has no tokens for it.
void set_speech(const SpeechSettings& settings, server::AppContext& context) {
  context.speech_tasks = {"transcribe"};
  context.speech_times = settings.no_timestamps.has_value();
  context.voice = settings.voice;
  if (settings.multilingual == false) return;
  if (settings.tasks.contains("translate")) context.speech_tasks.push_back("translate");
  for (const auto& [token, id] : settings.languages)
    if (const std::string code = language_code_of_token(token); !code.empty())
      context.speech_languages.push_back(code);
}

// "prefix/" → "/prefix". It stands in the page and in URLs.
std::string checked_root(std::string root) {
  while (root.ends_with('/')) root.pop_back();
  if (!root.empty() && !root.starts_with('/')) root.insert(0, "/");
  const auto fits = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           std::string_view("/-._~").find(c) != std::string_view::npos;
  };
  if (!std::all_of(root.begin(), root.end(), fits))
    throw invalid_request("--root-path", "takes letters, digits, and / - . _ ~");
  return root;
}

}  // namespace

void HttpOptions::add(CLI::App& app) {
  const auto option = [&](const char* name, auto& value, const char* help) {
    return app.add_option(name, value, help)->capture_default_str()->group(kGroup);
  };
  option("--port", config.port, "Port of the HTTP server; 0 is any free one")
      ->check(CLI::Range(0, 65535));
  app.add_flag("--no-http", off, "Run no HTTP server; only Tandem's own clients are served")
      ->group(kGroup);
  app.add_option(
         "--served-model-name", config.model_names,
         "Names by which requests may call the model; without them, its directory's or its id")
      ->type_name("NAME")
      ->group(kGroup);
  app.add_option("--api-key", config.api_keys, "Keys, one of which every request must have")
      ->type_name("KEY")
      ->group(kGroup);
  option("--api-key-file", api_key_file, "File with such a key on each line")->type_name("FILE");
  option("--ssl-certfile", config.tls_certificate,
         "Serve HTTPS with the chain of certificates in this PEM file")
      ->type_name("FILE");
  option("--ssl-keyfile", config.tls_key,
         "PEM file with the certificate's private key, if it is not in --ssl-certfile")
      ->type_name("FILE");
  app.add_option("--allowed-origins", config.allowed_origins,
                 "Web origins whose pages may send requests (CORS), or *")
      ->type_name("ORIGIN")
      ->group(kGroup);
  option("--root-path", config.root_path,
         "Path that a proxy puts before each path; routes answer with it and without it")
      ->type_name("/PATH");
  option("--prompt-template", config.prompt_template,
         "How chat messages become the text for the encoder, with {system} and {user} in it");
  option("--http-threads", config.threads, "Number of threads of the HTTP server")
      ->check(CLI::Range(1, 64));
  option("--max-connections", config.max_connections,
         "When that many connections are open, close the longest idle one for a new one")
      ->check(CLI::Range(1, 1 << 20));
  option("--max-live-sessions", config.max_live_sessions,
         "Answer with 429 while that many live transcriptions are open")
      ->check(CLI::Range(1, 1 << 16));
  add_bytes(app, "--max-body-size", config.max_body_bytes, "Largest body of a request");
  add_bytes(app, "--max-audio-size", config.max_audio_bytes,
            "Largest body of a request with a file of sound");
  add_bytes(
      app, "--max-body-memory", config.max_body_memory,
      "Answer requests with 429 while all bodies, read and parsed, take that much memory; files "
      "do not count");
  add_bytes(app, "--max-upload-disk", config.max_upload_disk,
            "Answer requests with 429 while the files of all requests take that much of the disk "
            "(in TMPDIR, /var/tmp or /tmp)");
  add_bytes(app, "--max-header-size", config.max_header_bytes, "Largest header of a request");
  option("--request-timeout", config.request_timeout,
         "Longest time that a request may take; 0 is as long as it needs")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.0, 1e6));
  add_seconds(app, "--keep-alive-timeout", config.idle_timeout,
              "Close connections that are idle for so long");
  add_seconds(app, "--header-timeout", config.header_timeout,
              "Time that a client has to send the header of a request");
  add_seconds(app, "--body-timeout", config.body_timeout,
              "Time that a client has to send the body of a request, and a second more per 64 KiB");
  add_seconds(app, "--write-timeout", config.write_timeout,
              "Give clients up that read nothing for so long");
  app.add_flag("!--disable-access-log", config.access_log, "Do not log a line for each request")
      ->group(kGroup);
}

server::ServerConfig HttpOptions::parse(const std::string& model, const std::string& host) const {
  server::ServerConfig c = config;
  c.host = host;
  c.root_path = checked_root(c.root_path);
  set_names(model, c);
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
  if (c.max_body_memory < c.max_body_bytes)
    throw invalid_request("--max-body-memory", "must not be less than --max-body-size");
  if (c.max_header_bytes < 1024)
    throw invalid_request("--max-header-size", "must be 1 KiB at least");
  return c;
}

struct HttpFrontend::Pool {
  boost::asio::thread_pool threads{1};
};

HttpFrontend::HttpFrontend(server::ServerConfig config, const OtlpSettings& otlp,
                           std::unique_ptr<EngineApi> engine, const RequestProcessor& processor)
    : config_(std::move(config)), engine_(std::move(engine)) {
  try {
    start(processor, otlp);
  } catch (const boost::system::system_error& e) {  // of its constructors: no thread, no descriptor
    throw std::system_error(e.code().value(), std::generic_category(), e.what());
  }
}

void HttpFrontend::start(const RequestProcessor& processor, const OtlpSettings& otlp) {
  pool_ = std::make_unique<Pool>();
  config_.adapters = &processor.adapters();
  const ModelLimits limits = limits_of(processor.model_config());
  context_ = std::unique_ptr<server::AppContext>(new server::AppContext{
      config_, *engine_, processor.tokenizer(), limits.encoder_positions.value_or(0),
      limits.hidden_size, kVersion, server::Metrics(config_.model_names.front())});
  for (const auto& [name, task] : task_params(processor.model_config()))
    context_->tasks.push_back(name);
  ModelUses uses = model_uses(processor.model_config());
  context_->pipelines = std::move(uses.pipelines);
  const LanguageSet& languages = processor.tokenizer().languages();
  if (languages.empty() && uses.language_pair.first.empty())
    context_->fixed_languages = server::languages_of_tasks(context_->tasks);
  else if (!languages.has_source())
    context_->fixed_languages.source = one_language(uses.language_pair.first);
  if (languages.empty()) context_->fixed_languages.target = one_language(uses.language_pair.second);
  context_->reads_images = processor.reads_images();
  if (context_->reads_images) {
    answers_ = std::make_unique<AnswerReader>(processor.model_config(), processor.tokenizer());
    if (answers_->has_forms()) context_->answers = answers_.get();
  }
  const auto& generation = processor.model_config().generation;
  context_->sets_length =
      generation.contains("max_length") || generation.contains("max_new_tokens");
  if (const SpeechSettings* speech = processor.speech_settings()) set_speech(*speech, *context_);
  context_->run_apart = [this](std::function<void()> f) {
    boost::asio::post(pool_->threads, std::move(f));
  };
  application_ = std::make_unique<server::Application>(*context_);
  http_ = std::make_unique<server::HttpServer>(config_, *application_);
  context_->num_connections = [this] { return http_->num_connections(); };
  start_telemetry(otlp);
  http_->start();  // what its threads read is complete
}

void HttpFrontend::start_telemetry(const OtlpSettings& otlp) {
  server::Metrics& metrics = context_->metrics;
  if (otlp.traces)
    context_->spans = std::make_unique<server::SpanExporter>(
        otlp.spans, otlp.resource, std::make_unique<CurlTransport>(*otlp.traces), metrics);
  if (otlp.metrics)
    pusher_ = std::make_unique<server::MetricPusher>(
        otlp.metric_interval, otlp.spans.end, otlp.resource,
        std::make_unique<CurlTransport>(*otlp.metrics), metrics, [this] {
          return context_->metrics.collect(engine_->status(), context_->num_connections());
        });
}

// Whoever holds a connection goes before the sockets' event loop, which goes with the server.
HttpFrontend::~HttpFrontend() {
  http_->stop();
  pusher_.reset();  // asks the engine
  pool_->threads.stop();
  pool_->threads.join();
  pool_.reset();
  engine_.reset();
  http_.reset();
}

std::string HttpFrontend::url() const {
  return (config_.tls_certificate.empty() ? "http://" : "https://") +
         server::bracketed(config_.host) + ":" + std::to_string(port()) + config_.root_path + "/";
}

void HttpFrontend::end_sessions() {
  context_->ending = true;
  http_->end_sockets();
}

void HttpFrontend::finish() {
  http_->drain();
  for (int i = 0; i < 300 && http_->num_connections() > 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

}  // namespace tandem::launcher
