// tandem bench throughput and latency: engines of their own, with the flags of tandem generate.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <thread>

#include "base/profile/summary.h"
#include "base/seconds_since.h"
#include "launcher/bench/commands.h"
#include "launcher/bench/dataset.h"
#include "launcher/bench/output.h"
#include "launcher/command_requests.h"
#include "launcher/commands/requests.h"
#include "launcher/progress.h"
#include "runtime/protocol/encoder_input.h"

namespace tandem::bench {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;
using launcher::CommandRequests;

struct OfflineOptions {
  Dataset data;
  OutputOptions output;
  launcher::RequestOptions requests;
  std::string extra_body = "{}";
  int batch = 8, iterations = 10, warmup = 2;
  const CLI::Option *batch_flag = nullptr, *iterations_flag = nullptr, *prompts_flag = nullptr;
};

// Gives the engine all items at once, or as many as wait in its queue. Times from then on.
class Batch {
 public:
  Batch(EngineApi& engine, const std::vector<Item>& items, const nlohmann::json& extra,
        const std::string& lora)
      : sent_(engine, lora), items_(items), extra_(extra), requests_(items.size()) {
    sent_.stream_to([this](uint64_t number, const proto::RequestChunk& chunk,
                           Clock::time_point at) { take(number, chunk, at); });
  }
  Batch(const Batch&) = delete;

  std::vector<BenchRequest> run(const std::string& title) {
    launcher::ProgressBar bar(title);
    while (ended_ < items_.size()) {
      while (next_ < items_.size() && next_ - ended_ < kMostWaiting) submit(next_++);
      for (const CommandRequests::Finished& finished : sent_.poll()) {
        BenchRequest& request = requests_[finished.number];
        end(finished.number, finished.error ? &*finished.error : nullptr);
        request.input_tokens = encoder_length(finished.output.inputs());
        for (const auto& sequence : finished.output.outputs())
          request.output_tokens += sequence.token_ids_size();
      }
      bar.update(ended_, items_.size());
    }
    return std::move(requests_);
  }

 private:
  static constexpr size_t kMostWaiting = 4096;  // more than an engine runs at once

  void submit(size_t i) {
    nlohmann::json params = nlohmann::json::object();
    if (items_[i].output_len > 0)
      params = {{"max_tokens", items_[i].output_len}, {"ignore_eos", true}};
    params.update(extra_);
    requests_[i].sent = seconds_since(begun_);
    try {
      sent_.submit(i, request_from_json({{"prompt", items_[i].prompt}}, params));
    } catch (const InputError& e) {
      end(i, &e);
    }
  }

  void take(uint64_t number, const proto::RequestChunk& chunk, Clock::time_point at) {
    BenchRequest& request = requests_[number];
    int tokens = 0;
    for (const auto& sequence : chunk.outputs()) tokens += sequence.token_ids_size();
    if (tokens == 0) return;
    request.take_event(std::chrono::duration<double>(at - begun_).count());
  }

  void end(uint64_t number, const InputError* error) {
    BenchRequest& request = requests_[number];
    if (error != nullptr) {
      request.failure = api_name(error->kind());
      request.message = error->what();
    }
    if (error != nullptr || request.first < 0) request.last = seconds_since(begun_);
    ++ended_;
  }

  CommandRequests sent_;
  const std::vector<Item>& items_;
  const nlohmann::json& extra_;
  std::vector<BenchRequest> requests_;
  size_t next_ = 0, ended_ = 0;
  Clock::time_point begun_ = Clock::now();
};

std::vector<Item> items_of(const OfflineOptions& o) {
  std::mt19937_64 random(o.requests.engine.config.seed());
  return o.data.items(Api::kCompletions, random);
}

// Of this process, all threads; ranks in others have their own.
double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

std::string engine_name(const OfflineOptions& o) {
  return o.requests.engine.model.empty() ? o.requests.address : o.requests.engine.model;
}

constexpr std::chrono::milliseconds kOldestStatus{300};

// Drafts of all replicas' steps so far; nothing where there are none.
std::optional<proto::SchedulerStats> drafts_of(EngineApi& engine) {
  proto::SchedulerStats sum;
  const EngineStatus status = engine.status();
  for (const proto::ReplicaInfo& replica : status.info.replicas()) {
    const proto::SchedulerStats& stats = replica.stats();
    sum.set_spec_drafts(sum.spec_drafts() + stats.spec_drafts());
    sum.set_spec_draft_tokens(sum.spec_draft_tokens() + stats.spec_draft_tokens());
    sum.set_spec_accepted_tokens(sum.spec_accepted_tokens() + stats.spec_accepted_tokens());
    auto& by_position = *sum.mutable_spec_accepted_tokens_per_position();
    for (int i = 0; i < stats.spec_accepted_tokens_per_position_size(); ++i) {
      if (i == by_position.size()) by_position.Add(0);
      by_position[i] += stats.spec_accepted_tokens_per_position(i);
    }
  }
  if (sum.spec_accepted_tokens_per_position().empty()) return std::nullopt;
  return sum;
}

// Of all steps so far, in which sequences got `tokens`. A server's steps are not this command's
// alone.
Json report_drafts(const OfflineOptions& o, EngineApi& engine, int64_t tokens) {
  if (o.requests.is_remote() || !drafts_of(engine)) return nullptr;
  std::this_thread::sleep_for(kOldestStatus);
  const auto stats = drafts_of(engine);
  if (!stats) return nullptr;
  const auto ratio = [](int64_t a, int64_t b) { return b > 0 ? double(a) / double(b) : 0.0; };
  const double per_step = ratio(tokens, tokens - stats->spec_accepted_tokens());
  std::printf("Drafts: %lld of %lld tokens were right; %.2f tokens of a sequence a step\n",
              static_cast<long long>(stats->spec_accepted_tokens()),
              static_cast<long long>(stats->spec_draft_tokens()), per_step);
  return {{"num_drafts", stats->spec_drafts()},
          {"num_draft_tokens", stats->spec_draft_tokens()},
          {"num_accepted_tokens", stats->spec_accepted_tokens()},
          {"num_accepted_tokens_per_pos", stats->spec_accepted_tokens_per_position()},
          {"tokens_per_step", per_step}};
}

// What this process saw of it; ranks in other processes have their own files.
void print_profile() {
  if (Profile* profile = process_profile())
    std::fputs(format_summary(summarize_profile(*profile)).c_str(), stdout);
}

int64_t output_tokens(const std::vector<BenchRequest>& requests) {
  int64_t tokens = 0;
  for (const BenchRequest& request : requests) tokens += request.output_tokens;
  return tokens;
}

int run_throughput(OfflineOptions& o) {
  const nlohmann::json extra = parse_object(o.extra_body, "--extra-body");
  o.output.check();
  o.requests.settle_model();
  std::vector<Item> items;
  return launcher::run_on_engine(
      o.requests, [&] { items = items_of(o); },
      [&](EngineApi& engine) {
        const auto begun = Clock::now();
        const double cpu_before = cpu_seconds();
        const auto requests = Batch(engine, items, extra, o.requests.lora).run("Requests");
        const double duration = seconds_since(begun), cpu = cpu_seconds() - cpu_before;
        Json head = {{"date", date_now()},
                     {"backend", "tandem"},
                     {"model", engine_name(o)},
                     {"num_prompts", items.size()},
                     {"cpu_seconds", cpu}};
        if (Json drafts = report_drafts(o, engine, output_tokens(requests)); !drafts.is_null())
          head["spec_decode"] = std::move(drafts);
        const int status = o.output.write(
            std::move(head), requests, duration,
            engine_name(o) + ": " + std::to_string(items.size()) + " requests, all at once");
        print_profile();
        return status;
      });
}

// --batch-size, --num-prompts and --num-iters as far as they were given: each prompt once, or one
// batch again and again.
void settle_batches(OfflineOptions& o) {
  const bool prompts = o.prompts_flag->count() > 0;
  if (!prompts) o.data.num_prompts = o.batch;
  if (o.batch > o.data.num_prompts) {
    if (o.batch_flag->count() > 0)
      throw invalid_request("--batch-size", "is more than --num-prompts");
    o.batch = o.data.num_prompts;
  }
  if (prompts && o.iterations_flag->count() == 0)
    o.iterations = (o.data.num_prompts + o.batch - 1) / o.batch;
}

// The `number`-th batch; the prompts come round again behind the last.
std::vector<Item> batch_of(const std::vector<Item>& items, int batch, int number) {
  std::vector<Item> out;
  for (int i = 0; i < batch; ++i)
    out.push_back(
        items[(static_cast<size_t>(number) * static_cast<size_t>(batch) + static_cast<size_t>(i)) %
              items.size()]);
  return out;
}

void report_latency(const OfflineOptions& o, const std::vector<double>& times, double cpu,
                    Json drafts) {
  const double mean =
      std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size());
  Json out = {{"batch_size", o.batch},        {"num_prompts", o.data.num_prompts},
              {"num_iters", o.iterations},    {"avg_latency", mean},
              {"latencies", times},           {"avg_cpu", cpu / static_cast<double>(times.size())},
              {"percentiles", Json::object()}};
  std::printf("%d batches of %d, %d prompts\nAverage latency of a batch: %.4f s\n", o.iterations,
              o.batch, o.data.num_prompts, mean);
  for (const double q : o.output.parse().percentiles) {
    char name[32];
    std::snprintf(name, sizeof name, "%g", q);
    out["percentiles"][name] = percentile(times, q);
    std::printf("%s%% percentile: %.4f s\n", name, percentile(times, q));
  }
  if (!drafts.is_null()) out["spec_decode"] = std::move(drafts);
  o.output.save_json(out);
}

int run_latency(OfflineOptions& o) {
  const nlohmann::json extra = parse_object(o.extra_body, "--extra-body");
  o.output.check();
  settle_batches(o);
  o.requests.settle_model();
  std::vector<Item> items;
  return launcher::run_on_engine(
      o.requests, [&] { items = items_of(o); },
      [&](EngineApi& engine) {
        std::vector<double> times;
        int64_t tokens = 0;
        double cpu = 0;
        for (int i = -o.warmup; i < o.iterations; ++i) {
          if (Profile* profile = process_profile()) profile->hold(i < 0);
          const auto batch = batch_of(items, o.batch, i < 0 ? i + o.warmup : i);
          const auto begun = Clock::now();
          const double cpu_before = cpu_seconds();
          const auto requests = Batch(engine, batch, extra, o.requests.lora)
                                    .run(i < 0 ? "Warming up" : "Batch " + std::to_string(i + 1));
          if (i >= 0) times.push_back(seconds_since(begun));
          if (i >= 0) cpu += cpu_seconds() - cpu_before;
          for (const BenchRequest& request : requests)
            if (request.failed()) throw invalid_request("prompt", request.message);
          tokens += output_tokens(requests);
        }
        report_latency(o, times, cpu, report_drafts(o, engine, tokens));
        print_profile();
        return 0;
      });
}

// What both commands have.
void add_common(CLI::App& app, OfflineOptions& o, const char* command) {
  o.requests.command = command;
  o.requests.engine.add_model_argument(app);
  // Repeats are computed: the work is measured, not that it can be saved.
  o.requests.engine.config.mutable_cache()->set_enable_prefix_caching(false);
  o.requests.engine.config.mutable_cache()->set_enable_encoder_cache(false);
  o.requests.add(app);
  for (CLI::Option* option : app.get_options())
    if (option->get_group() == "Options" && !option->check_name("--help"))
      option->group("The engine");
  app.get_option("--enable-prefix-caching")
      ->description("keep the KV cache of decoder prompts for requests that begin alike; here off");
  app.get_option("--enable-encoder-cache")
      ->description("keep the encoder's result for requests with the same input; here off");
  app.get_option("--seed")->description("of random lengths and tokens, and of sampling; default 0");
  o.data.add(app);
  app.add_option("--extra-body", o.extra_body,
                 "generation parameters of each request (docs/parameters.md), a JSON object")
      ->capture_default_str()
      ->group("What is asked for");
  o.output.add(app);
}

}  // namespace

launcher::Run add_throughput(CLI::App& app) {
  auto o = std::make_shared<OfflineOptions>();
  add_common(app, *o, "tandem bench throughput");
  o->data.add_num_prompts(app);
  o->output.add_plot(app);
  app.footer("The exit status is 1 if a request failed.");
  return [o] { return run_throughput(*o); };
}

launcher::Run add_latency(CLI::App& app) {
  auto o = std::make_shared<OfflineOptions>();
  add_common(app, *o, "tandem bench latency");
  const auto option = [&](const char* name, int& value, const char* help, int least) {
    return app.add_option(name, value, help)
        ->capture_default_str()
        ->check(CLI::Range(least, 1 << 20))
        ->group("What is asked for");
  };
  o->batch_flag = option("--batch-size", o->batch, "requests of a batch", 1);
  o->prompts_flag = app.add_option("--num-prompts", o->data.num_prompts,
                                   "different prompts, taken batch by batch, each once unless "
                                   "--num-iters says more; default: one batch, again and again")
                        ->check(CLI::Range(1, 1 << 24))
                        ->group("What is asked for");
  o->iterations_flag = option("--num-iters", o->iterations, "batches to time", 1);
  option("--num-iters-warmup", o->warmup, "batches before, which are not timed", 0);
  return [o] { return run_latency(*o); };
}

}  // namespace tandem::bench
