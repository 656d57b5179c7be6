// Routes about the server itself.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "runtime/request/adapter_names.h"
#include "server/api/fields/json_body.h"
#include "server/api/generation/generation_request.h"
#include "server/api/openapi.h"
#include "server/api/routes.h"
#include "server/http/errors.h"
#include "text/languages.h"

namespace tandem::server {

namespace {

constexpr const char* kModelsPath = "/v1/models/";

Json model_object(const AppContext& app, const std::string& name) {
  Json model = {{"id", name},
                {"object", "model"},
                {"created", app.created},
                {"owned_by", "tandem"},
                {"root", app.config.model_names.front()},
                {"parent", nullptr},
                {"max_model_len", app.max_model_len}};
  const LanguageSet& languages = app.tokenizer.languages();
  if (languages.has_source()) model["source_languages"] = languages.names();
  if (!languages.empty()) model["target_languages"] = languages.names();
  if (!languages.default_source().empty())
    model["default_source_language"] = languages.default_source();
  if (!app.tasks.empty()) model["tasks"] = app.tasks;
  if (!app.pipelines.empty()) model["pipelines"] = app.pipelines;
  if (const FixedLanguages& fixed = app.fixed_languages; fixed.is_pair())
    model["language_pair"] = {fixed.source, fixed.target};
  else if (!fixed.source.empty() && fixed.tasks.empty())
    model["source_language"] = fixed.source;
  if (app.reads_images) model["reads_images"] = true;
  if (!app.speech_tasks.empty()) {
    model["speech_tasks"] = app.speech_tasks;
    model["speech_languages"] = app.speech_languages;
    model["speech_times"] = app.speech_times;
  }
  return model;
}

// An adapter, as vLLM lists them.
Json adapter_object(const AppContext& app, const proto::Adapter& adapter) {
  Json model = model_object(app, adapter.name());
  model["root"] = std::filesystem::path(adapter.path()).filename().string();
  model["parent"] = app.config.model_names.front();
  return model;
}

}  // namespace

void get_models(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  Json data = Json::array();
  for (const std::string& name : app.config.model_names) data.push_back(model_object(app, name));
  if (app.config.adapters != nullptr)
    for (const proto::Adapter& adapter : app.config.adapters->list())
      data.push_back(adapter_object(app, adapter));
  exchange->respond({.body = dump_ordered_line({{"object", "list"}, {"data", data}})});
}

void get_model(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  const std::string name = path_of_route(exchange->request().path).substr(std::strlen(kModelsPath));
  const auto& names = app.config.model_names;
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    if (app.config.adapters == nullptr || !app.config.adapters->has(name))
      throw unknown_model(app.config, name);
    return exchange->respond(
        {.body = dump_ordered_line(adapter_object(app, app.config.adapters->find(name)))});
  }
  exchange->respond({.body = dump_ordered_line(model_object(app, name))});
}

// Follows the engine: 503 unless requests are being computed.
void get_health(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  const EngineStatus status = app.engine.status();
  const bool draining = status.draining || app.ending;
  if (status.ready && !draining)
    return exchange->respond({.body = dump_ordered_line({{"status", "ok"}})});
  exchange->respond(error_response(503, draining ? "the server is shutting down" : status.reason));
}

void get_live(AppContext&, const std::shared_ptr<Exchange>& exchange) {
  exchange->respond({.body = dump_ordered_line({{"status", "ok"}})});
}

void get_version(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  exchange->respond({.body = dump_ordered_line({{"version", app.version}})});
}

void get_metrics(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  exchange->respond({.body = app.metrics.text(app.engine.status(), app.num_connections()),
                     .content_type = "text/plain; version=0.0.4; charset=utf-8"});
}

// Pipeline stages since the replica's workers started; without stages empty.
Json stages_of(const proto::SchedulerStats& stats) {
  Json out = Json::array();
  const double whole = stats.pipeline_seconds();
  for (const double busy : stats.stage_seconds())
    out.push_back({{"busy_seconds", busy},
                   {"idle_share", whole > 0 ? std::clamp(1 - busy / whole, 0.0, 1.0) : 0.0}});
  return out;
}

// Ranks that run encoders only; without such ranks empty.
Json encoder_ranks_of(const proto::SchedulerStats& stats) {
  Json out = Json::array();
  for (const double busy : stats.encoder_rank_seconds()) out.push_back({{"busy_seconds", busy}});
  return out;
}

// For the page: what the engine does now.
void get_status(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  const EngineStatus status = app.engine.status();
  Json replicas = Json::array();
  for (const proto::ReplicaInfo& r : status.info.replicas()) {
    const proto::SchedulerStats& stats = r.stats();
    const int used = stats.num_total_blocks() - stats.num_free_blocks();
    replicas.push_back({{"up", r.up()},
                        {"generation", r.generation()},
                        {"num_requests", r.num_requests()},
                        {"running", stats.num_running()},
                        {"waiting", stats.num_waiting()},
                        {"swapped", stats.num_swapped()},
                        {"preemptions", stats.num_preemptions()},
                        {"free_blocks", stats.num_free_blocks()},
                        {"total_blocks", stats.num_total_blocks()},
                        {"self_blocks", used - stats.num_cross_blocks()},
                        {"cross_blocks", stats.num_cross_blocks()},
                        {"free_host_blocks", stats.num_free_host_blocks()},
                        {"cached_blocks", stats.num_idle_blocks()},
                        {"total_host_blocks", stats.num_total_host_blocks()},
                        {"encoder_seconds", stats.encoder_seconds()},
                        {"stages", stages_of(stats)},
                        {"encoder_ranks", encoder_ranks_of(stats)}});
  }
  const Metrics::Totals totals = app.metrics.totals();
  exchange->respond(
      {.body = dump_ordered_line({{"ready", status.ready},
                                  {"draining", status.draining || app.ending},
                                  {"reason", status.reason},
                                  {"version", app.version},
                                  {"model", app.config.model_names.front()},
                                  {"dtype", status.info.dtype()},
                                  {"tensor_parallel_size", status.info.tensor_parallel_size()},
                                  {"num_requests", status.info.num_requests()},
                                  {"expected_wait", status.info.expected_wait()},
                                  {"num_restarts", status.info.num_restarts()},
                                  {"num_connections", app.num_connections()},
                                  {"prompts_under_way", app.prompts_under_way + app.unread},
                                  {"prompt_tokens", totals.prompt_tokens},
                                  {"generation_tokens", totals.generation_tokens},
                                  {"replicas", replicas}})});
}

void get_openapi(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  exchange->respond({.body = openapi_document(app.version, app.config.root_path)});
}

}  // namespace tandem::server
