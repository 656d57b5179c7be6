// tandem bench: serve (a running server under load), throughput and latency (an engine of its own).
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>

#include "launcher/bench_client.h"
#include "launcher/bench_report.h"
#include "launcher/command.h"
#include "launcher/options.h"
#include "launcher/progress.h"
#include "launcher/requests.h"
#include "runtime/llm_engine.h"
#include "runtime/request_json.h"

namespace tandem::launcher {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

// What is asked: prompts of random tokens, or the lines of a file.
struct Dataset {
  std::string path;
  int input_len = 256, output_len = 64;
  double range_ratio = 0;  // lengths vary by ± this share
  int num_prompts = 100;
  uint64_t seed = 0;
  int vocabulary = 1000;

  void add(CLI::App& app) {
    app.add_option("--dataset-path", path, "texts to ask for, a line each; default: random tokens");
    const auto option = [&](const char* name, auto& value, const char* help) {
      return app.add_option(name, value, help)->capture_default_str();
    };
    option("--random-input-len", input_len, "tokens of a random prompt")
        ->check(CLI::Range(3, 1 << 20));
    option("--random-output-len", output_len,
           "tokens to generate; 0: what the model's end token says")
        ->check(CLI::Range(0, 1 << 20));
    option("--random-range-ratio", range_ratio, "lengths vary by that share, both ways")
        ->check(CLI::Range(0.0, 0.99));
    option("--random-vocab", vocabulary, "random tokens are below")
        ->check(CLI::Range(100, 1 << 24));
    option("--num-prompts", num_prompts, "requests to send")->check(CLI::Range(1, 1 << 24));
    option("--seed", seed, "of lengths, tokens and arrivals");
  }

  struct Item {
    nlohmann::json prompt;
    int output_len;
  };
  std::vector<Item> items(std::mt19937_64& random) const {
    std::vector<std::string> lines;
    if (!path.empty()) {
      std::ifstream file(path);
      if (!file) throw invalid_request("--dataset-path", "cannot read " + path);
      for (std::string line; std::getline(file, line);)
        if (!line.empty()) lines.push_back(line);
      if (lines.empty()) throw invalid_request("--dataset-path", path + " has no text");
    }
    const auto vary = [&](int length) {
      std::uniform_int_distribution<int> around(
          std::max(1, static_cast<int>(std::floor(length * (1 - range_ratio)))),
          std::max(1, static_cast<int>(std::ceil(length * (1 + range_ratio)))));
      return around(random);
    };
    std::vector<Item> out;
    for (int i = 0; i < num_prompts; ++i) {
      Item item{nlohmann::json(), output_len > 0 ? vary(output_len) : 0};
      if (!lines.empty()) {
        item.prompt = lines[static_cast<size_t>(i) % lines.size()];
      } else {
        std::vector<int> ids;
        std::uniform_int_distribution<int> token(50, vocabulary - 1);
        for (int n = std::max(1, vary(input_len)); n > 0; --n) ids.push_back(token(random));
        item.prompt = ids;
      }
      out.push_back(std::move(item));
    }
    return out;
  }
};

struct Options {
  Dataset data;
  EngineOptions engine;
  std::string base_url = "http://127.0.0.1:8000", endpoint = "/v1/completions", api_key,
              extra_body = "{}";
  std::string request_rate = "inf", percentiles = "50,95,99", save, plot;
  std::vector<std::string> goodput;
  double burstiness = 1;
  int max_concurrency = 0, batch = 8, iterations = 10, warmup = 2;
};

nlohmann::json parse_object(const std::string& text, const char* flag) {
  auto value = nlohmann::json::parse(text, nullptr, false);
  if (!value.is_object()) throw invalid_request(flag, "\"" + text + "\" is not a JSON object");
  return value;
}

double parse_rate(const std::string& text) {
  if (text == "inf") return std::numeric_limits<double>::infinity();
  char* end = nullptr;
  const double rate = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || *end != 0 || !(rate > 0))
    throw invalid_request("--request-rate", "\"" + text + "\" is neither a rate above 0 nor inf");
  return rate;
}

BenchOptions parse_report(const Options& o) {
  BenchOptions report;
  report.percentiles.clear();
  std::stringstream list(o.percentiles);
  for (std::string word; std::getline(list, word, ',');) {
    char* end = nullptr;
    const double q = std::strtod(word.c_str(), &end);
    if (word.empty() || *end != 0 || !(q >= 0 && q <= 100))
      throw invalid_request("--metric-percentiles", "\"" + word + "\" is not from 0 to 100");
    report.percentiles.push_back(q);
  }
  for (const std::string& pair : o.goodput) {
    const size_t colon = pair.find(':');
    const std::string name = pair.substr(0, colon);
    char* end = nullptr;
    const double most =
        colon == std::string::npos ? -1 : std::strtod(pair.c_str() + colon + 1, &end);
    if ((name != "ttft" && name != "tpot" && name != "e2el") || !(most > 0) || *end != 0)
      throw invalid_request("--goodput", "\"" + pair + "\" is not ttft, tpot or e2el:MILLISECONDS");
    report.goodput[name] = most;
  }
  return report;
}

void write_file(const std::string& path, const std::string& text, const char* flag) {
  std::ofstream file(path);
  file << text;
  if (!file.flush()) throw invalid_request(flag, "cannot write " + path);
}

std::string date_now() {
  const std::time_t now = std::time(nullptr);
  char text[32];
  std::strftime(text, sizeof text, "%Y%m%d-%H%M%S", std::localtime(&now));
  return text;
}

void report(const Options& o, Json head, const std::vector<BenchRequest>& requests, double duration,
            const std::string& title) {
  const Json summary = bench_summary(requests, duration, parse_report(o));
  std::fputs(bench_table(summary).c_str(), stdout);
  head.update(summary);
  if (!o.save.empty()) write_file(o.save, head.dump(1) + "\n", "--save-result");
  if (!o.plot.empty()) write_file(o.plot, bench_svg(requests, duration, title), "--plot");
}

int bench_serve(const Options& o) {
  BenchTarget target = parse_base_url(o.base_url);
  target.path = o.endpoint;
  target.api_key = o.api_key;
  const double rate = parse_rate(o.request_rate);
  const nlohmann::json extra = parse_object(o.extra_body, "--extra-body");
  parse_report(o);
  const auto models = nlohmann::json::parse(http_get(target, "/v1/models"));
  const std::string model = models.at("data").at(0).at("id");
  std::mt19937_64 random(o.data.seed);
  // Gaps of a gamma distribution, as in vLLM: burstiness 1 is Poisson, below it is burstier.
  std::gamma_distribution<double> gap(o.burstiness,
                                      std::isinf(rate) ? 0 : 1 / (rate * o.burstiness));
  std::vector<BenchJob> jobs;
  double time = 0;
  for (const Dataset::Item& item : o.data.items(random)) {
    nlohmann::json body = {{"model", model},
                           {"prompt", item.prompt},
                           {"stream", true},
                           {"stream_options", {{"include_usage", true}}}};
    if (item.output_len > 0) {
      body["max_tokens"] = item.output_len;
      body["ignore_eos"] = true;
    }
    body.update(extra);
    jobs.push_back({body.dump(), time});
    if (!std::isinf(rate)) time += gap(random);
  }
  std::vector<BenchRequest> requests;
  const auto begun = Clock::now();
  {
    ProgressBar bar("Requests");
    requests = run_load(target, jobs, o.max_concurrency, [&](size_t done, size_t failed) {
      bar.update(done, jobs.size(), failed > 0 ? std::to_string(failed) + " failed" : "");
    });
  }
  const double duration = std::chrono::duration<double>(Clock::now() - begun).count();
  Json head = {{"date", date_now()},
               {"backend", "openai"},
               {"model", model},
               {"num_prompts", jobs.size()},
               {"burstiness", o.burstiness},
               {"max_concurrency", o.max_concurrency > 0 ? Json(o.max_concurrency) : Json()}};
  head["request_rate"] = std::isinf(rate) ? Json("inf") : Json(rate);
  report(o, head, requests, duration, model + ", " + o.request_rate + " requests/s");
  return std::all_of(requests.begin(), requests.end(), [](const BenchRequest& r) { return r.ok; })
             ? 0
             : 1;
}

// Batches repeat: what is measured is the work, not that it can be saved.
EngineConfig without_caches(EngineConfig config) {
  config.enable_encoder_cache = config.enable_prefix_caching = false;
  return config;
}

// Gives the engine all items at once. Times from then on.
std::vector<BenchRequest> run_batch(LLMEngine& engine, const std::vector<Dataset::Item>& items,
                                    const nlohmann::json& extra, const std::string& title) {
  std::vector<BenchRequest> requests(items.size());
  const auto begun = Clock::now();
  const auto now = [&] { return std::chrono::duration<double>(Clock::now() - begun).count(); };
  for (size_t i = 0; i < items.size(); ++i) {
    nlohmann::json params = nlohmann::json::object();
    if (items[i].output_len > 0)
      params = {{"max_tokens", items[i].output_len}, {"ignore_eos", true}};
    params.update(extra);
    engine.add_request(std::to_string(i), items[i].prompt, params);
  }
  ProgressBar bar(title);
  size_t done = 0;
  while (engine.has_unfinished_requests()) {
    for (const proto::RequestOutput& output : engine.step()) {
      BenchRequest& r = requests[std::stoul(output.request_id())];
      int tokens = 0;
      for (const auto& sequence : output.outputs()) tokens += sequence.token_ids_size();
      if (tokens == r.output_tokens && !output.finished()) continue;
      const double time = now();
      if (r.first < 0)
        r.first = time;
      else
        r.gaps.push_back(time - r.last);
      r.last = time;
      r.output_tokens = tokens;
      r.input_tokens = output.inputs().encoder_prompt_token_ids_size();
      if (output.finished()) {
        r.ok = true;
        bar.update(++done, items.size());
      }
    }
  }
  return requests;
}

int bench_throughput(const Options& o) {
  const nlohmann::json extra = parse_object(o.extra_body, "--extra-body");
  parse_report(o);
  std::mt19937_64 random(o.data.seed);
  const auto items = o.data.items(random);
  const auto engine = load_engine(without_caches(o.engine.parse_and_find_model()));
  const auto begun = Clock::now();
  const auto requests = run_batch(*engine, items, extra, "Requests");
  const double duration = std::chrono::duration<double>(Clock::now() - begun).count();
  report(o,
         {{"date", date_now()},
          {"backend", "tandem"},
          {"model", o.engine.model},
          {"num_prompts", items.size()}},
         requests, duration, "throughput");
  return 0;
}

int bench_latency(Options o) {
  const nlohmann::json extra = parse_object(o.extra_body, "--extra-body");
  parse_report(o);
  o.data.num_prompts = o.batch;
  std::mt19937_64 random(o.data.seed);
  const auto items = o.data.items(random);
  const auto engine = load_engine(without_caches(o.engine.parse_and_find_model()));
  std::vector<double> times;
  for (int i = 0; i < o.warmup + o.iterations; ++i) {
    const auto begun = Clock::now();
    run_batch(*engine, items, extra,
              i < o.warmup ? "Warming up" : "Iteration " + std::to_string(i - o.warmup + 1));
    if (i >= o.warmup) times.push_back(std::chrono::duration<double>(Clock::now() - begun).count());
  }
  double sum = 0;
  for (const double t : times) sum += t;
  Json out = {{"avg_latency", sum / static_cast<double>(times.size())}, {"latencies", times}};
  out["percentiles"] = Json::object();
  std::printf("Average latency of a batch of %d: %.4f s\n", o.batch,
              out["avg_latency"].get<double>());
  for (const double q : parse_report(o).percentiles) {
    char name[32];
    std::snprintf(name, sizeof name, "%g", q);
    out["percentiles"][name] = percentile(times, q);
    std::printf("%s%% percentile: %.4f s\n", name, percentile(times, q));
  }
  if (!o.save.empty()) write_file(o.save, out.dump(1) + "\n", "--save-result");
  return 0;
}

void add_common(CLI::App& app, Options& o) {
  o.data.add(app);
  app.add_option("--extra-body", o.extra_body,
                 "generation parameters for each request, a JSON object")
      ->capture_default_str();
  app.add_option("--metric-percentiles", o.percentiles, "percentiles to report")
      ->capture_default_str();
  app.add_option("--save-result", o.save, "file for the figures, as JSON");
}

}  // namespace

Run add_bench(CLI::App& app) {
  auto o = std::make_shared<Options>();
  auto run = std::make_shared<Run>();
  app.require_subcommand(1);
  CLI::App* serve = app.add_subcommand("serve", "a running OpenAI-compatible server under load");
  CLI::App* throughput =
      app.add_subcommand("throughput", "an engine of its own, all requests at once");
  CLI::App* latency =
      app.add_subcommand("latency", "an engine of its own, one batch again and again");
  for (CLI::App* sub : {serve, throughput, latency}) add_common(*sub, *o);
  const auto option = [](CLI::App* sub, const char* name, auto& value, const char* help) {
    return sub->add_option(name, value, help)->capture_default_str();
  };
  option(serve, "--base-url", o->base_url, "the server");
  option(serve, "--endpoint", o->endpoint, "its route for completions");
  option(serve, "--api-key", o->api_key, "key to send")->envname("OPENAI_API_KEY");
  option(serve, "--request-rate", o->request_rate, "requests a second; inf: all at once");
  option(serve, "--burstiness", o->burstiness,
         "1: Poisson arrivals; less: burstier; more: more even")
      ->check(CLI::Range(0.01, 1e6));
  option(serve, "--max-concurrency", o->max_concurrency, "requests under way at most; 0: no bound")
      ->check(CLI::Range(0, 1 << 20));
  serve->add_option("--goodput", o->goodput,
                    "bounds of good requests: ttft, tpot, e2el:MILLISECONDS");
  for (CLI::App* sub : {serve, throughput})
    sub->add_option("--plot", o->plot, "file for a picture (SVG) of all requests over time");
  for (CLI::App* sub : {throughput, latency}) {
    o->engine.add_model(*sub);
    // --seed is the dataset's here.
  }
  option(latency, "--batch-size", o->batch, "requests of a batch")->check(CLI::Range(1, 1 << 16));
  option(latency, "--num-iters", o->iterations, "batches to time")->check(CLI::Range(1, 1 << 20));
  option(latency, "--num-iters-warmup", o->warmup, "batches before")->check(CLI::Range(0, 1 << 20));
  serve->callback([o, run] { *run = [o] { return bench_serve(*o); }; });
  throughput->callback([o, run] { *run = [o] { return bench_throughput(*o); }; });
  latency->callback([o, run] { *run = [o] { return bench_latency(*o); }; });
  return [run] { return (*run)(); };
}

}  // namespace tandem::launcher
