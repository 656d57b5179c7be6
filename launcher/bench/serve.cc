// tandem bench serve: what a running server does under load.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <memory>
#include <random>
#include <string>

#include "base/error.h"
#include "base/json.h"
#include "launcher/bench/api.h"
#include "launcher/bench/commands.h"
#include "launcher/bench/dataset.h"
#include "launcher/bench/load.h"
#include "launcher/bench/output.h"
#include "launcher/progress.h"

namespace tandem::bench {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

struct ServeOptions {
  Dataset data;
  OutputOptions output;
  Target target;
  std::string backend = "openai", model, api_key, extra_body = "{}", request_rate = "inf";
  std::vector<std::string> headers;
  double burstiness = 1;
  int max_concurrency = 0, warmups = 0;
};

double parse_rate(const std::string& text) {
  if (text == "inf") return std::numeric_limits<double>::infinity();
  char* end = nullptr;
  const double rate = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || *end != 0 || !(rate > 0))
    throw invalid_request("--request-rate", "\"" + text + "\" is neither a rate above 0 nor inf");
  return rate;
}

// "Name: value" as for curl, or NAME=VALUE as for vLLM.
std::string parse_header(const std::string& text) {
  const size_t at = text.find_first_of(":=");
  if (at == 0 || at == std::string::npos || text.find_first_of("\r\n") != std::string::npos ||
      text.find_first_of(" \t") < at)
    throw invalid_request("--header", "\"" + text + "\" is neither \"NAME: VALUE\" nor NAME=VALUE");
  const size_t value = text.find_first_not_of(" \t", at + 1);
  // libcurl sends a header without a value as "Name;".
  if (value == std::string::npos) return text.substr(0, at) + ";";
  return text.substr(0, at) + ": " + text.substr(value);
}

Target target_of(const ServeOptions& o, Api api) {
  Target target = o.target;
  if (target.path.empty()) target.path = default_path(api);
  url_of(target, target.path);  // both make sense
  if (!o.api_key.empty()) {
    if (o.api_key.find_first_of("\r\n") != std::string::npos)
      throw invalid_request("--api-key", "has a line break");
    target.headers.push_back("Authorization: Bearer " + o.api_key);
  }
  if (!target.ca_cert.empty() && !std::filesystem::exists(target.ca_cert))
    throw invalid_request("--ca-cert", "there is no " + target.ca_cert);
  for (const std::string& header : o.headers) target.headers.push_back(parse_header(header));
  return target;
}

std::string first_model(const Target& target) {
  const auto models = json_or_discarded<nlohmann::json>(http_get(target, "/v1/models"));
  const auto id = nlohmann::json::json_pointer("/data/0/id");
  if (!models.is_object() || !models.contains(id) || !models.at(id).is_string())
    throw invalid_request("--base-url",
                          url_of(target, "/v1/models") + " names no model; give one with --model");
  return models.at(id);
}

// Gaps of a gamma distribution, as in vLLM: burstiness 1 is Poisson, below it is burstier.
void set_arrivals(std::vector<Job>& jobs, double rate, double burstiness, std::mt19937_64& random) {
  if (std::isinf(rate)) return;
  std::gamma_distribution<double> gap(burstiness, 1 / (rate * burstiness));
  double time = 0;
  for (Job& job : jobs) {
    job.arrival = time;
    time += gap(random);
  }
}

std::vector<BenchRequest> run_with_bar(const Target& target, Api api, const std::vector<Job>& jobs,
                                       int max_concurrency, const std::string& title) {
  launcher::ProgressBar bar(title);
  return run_load(target, api, jobs, max_concurrency, [&](size_t done, size_t failed) {
    bar.update(done, jobs.size(), failed > 0 ? std::to_string(failed) + " failed" : "");
  });
}

int run_serve(const ServeOptions& o) {
  const Api api = parse_api(o.backend);
  const Target target = target_of(o, api);
  const double rate = parse_rate(o.request_rate);
  const nlohmann::json extra = parse_object(o.extra_body, "--extra-body");
  o.output.check();
  std::mt19937_64 random(o.data.seed);
  const std::vector<Item> items = o.data.items(api, random);
  const std::string model = o.model.empty() ? first_model(target) : o.model;
  std::vector<Job> jobs;
  for (const Item& item : items) jobs.push_back(make_job(api, model, item, extra));
  if (o.warmups > 0) {
    std::vector<Job> some;
    for (int i = 0; i < o.warmups; ++i) some.push_back(jobs[static_cast<size_t>(i) % jobs.size()]);
    run_with_bar(target, api, some, o.max_concurrency, "Warming up");
  }
  set_arrivals(jobs, rate, o.burstiness, random);
  const auto begun = Clock::now();
  const auto requests = run_with_bar(target, api, jobs, o.max_concurrency, "Requests");
  const double duration = std::chrono::duration<double>(Clock::now() - begun).count();
  Json head = {{"date", date_now()},
               {"backend", o.backend},
               {"model", model},
               {"base_url", o.target.base_url},
               {"endpoint", target.path},
               {"num_prompts", jobs.size()},
               {"burstiness", o.burstiness},
               {"max_concurrency", o.max_concurrency > 0 ? Json(o.max_concurrency) : Json()}};
  head["request_rate"] = std::isinf(rate) ? Json("inf") : Json(rate);
  std::string title = model + ": " + std::to_string(jobs.size()) + " requests, ";
  title += std::isinf(rate) ? "all at once" : o.request_rate + " per second";
  if (o.max_concurrency > 0)
    title += ", at most " + std::to_string(o.max_concurrency) + " under way";
  return o.output.write(head, requests, duration, title);
}

}  // namespace

launcher::Run add_serve(CLI::App& app) {
  auto o = std::make_shared<ServeOptions>();
  const auto option = [&](const char* name, auto& value, const char* help, const char* group) {
    return app.add_option(name, value, help)->capture_default_str()->group(group);
  };
  const char* const server = "The server";
  option("--base-url", o->target.base_url, "where it is: http:// or https://", server);
  option("--backend,--endpoint-type", o->backend,
         "which route is asked: openai (completions), openai-chat, openai-embeddings, openai-audio "
         "(transcriptions)",
         server);
  option("--endpoint", o->target.path, "path of that route, where it is not OpenAI's", server);
  option("MODEL,--model", o->model, "model to ask for; default: the first of /v1/models", server)
      ->type_name("NAME");
  option("--api-key", o->api_key, "key to send", server)->envname("OPENAI_API_KEY");
  app.add_option("--header", o->headers, "another header to send, \"NAME: VALUE\"; also several")
      ->allow_extra_args(false)
      ->group(server);
  option("--ca-cert", o->target.ca_cert,
         "file or folder of certificates to trust (PEM); default: the system's", server)
      ->type_name("FILE");
  app.add_flag("--insecure", o->target.insecure, "trust any certificate")->group(server);
  option("--request-timeout", o->target.timeout,
         "seconds that a request may take; then it has failed. 0: any time", server)
      ->check(CLI::Range(0.0, 1e6));
  o->data.add(app);
  o->data.add_audio(app);
  o->data.add_num_prompts(app);
  o->data.add_seed(app);
  option("--extra-body", o->extra_body,
         "more fields of each request, a JSON object; null takes a field out", "What is asked for");
  const char* const load = "When";
  option("--request-rate", o->request_rate, "requests a second; inf: all at once", load);
  option("--burstiness", o->burstiness,
         "1: arrivals as of independent users (Poisson); less: burstier; more: more even", load)
      ->check(CLI::Range(0.01, 1e6));
  option("--max-concurrency", o->max_concurrency, "requests under way at most; 0: no bound", load)
      ->check(CLI::Range(0, 1 << 20));
  option("--num-warmups", o->warmups, "requests before, which are not measured", load)
      ->check(CLI::Range(0, 1 << 20));
  o->output.add(app);
  o->output.add_goodput(app);
  o->output.add_plot(app);
  app.footer("The exit status is 1 if a request failed.");
  return [o] { return run_serve(*o); };
}

}  // namespace tandem::bench
