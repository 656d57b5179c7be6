#include "server/metrics/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "base/mutex.h"
#include "runtime/protocol/token_histogram.h"
#include "runtime/version.h"
#include "server/metrics/process_metrics.h"
#include "server/metrics/replica_sums.h"
#include "server/metrics/vllm_names.h"

namespace tandem::server {
namespace {

using Labels = std::map<std::string, std::string>;
using Buckets = prometheus::Histogram::BucketBoundaries;

const Buckets kSeconds{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160};
const Buckets kTokenSeconds{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5};
const Buckets kSoundSeconds{1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 7200};
const Buckets kSequences{1, 2, 5, 10, 20};
const Buckets kPreemptions{0, 1, 2, 5, 10, 20};
const Buckets kTokens{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000};

Labels cache_labels(const proto::SchedulerStats& stats, int replica) {
  const auto flag = [](bool on) { return std::string(on ? "True" : "False"); };
  return {{"block_size", std::to_string(stats.block_size())},
          {"num_gpu_blocks", std::to_string(stats.num_total_blocks())},
          {"num_cpu_blocks", std::to_string(stats.num_total_host_blocks())},
          {"enable_prefix_caching", flag(stats.prefix_caching())},
          {"enable_encoder_cache", flag(stats.encoder_cache())},
          {"engine", std::to_string(replica)}};
}

Buckets step_buckets() { return {TokenHistogram::kBounds.begin(), TokenHistogram::kBounds.end()}; }

}  // namespace

struct Metrics::Impl {
  explicit Impl(const std::string& model) : labels{{"model_name", model}} {
    build_info.Add({{"version", kVersion}}).Set(1);
  }

  prometheus::Family<prometheus::Counter>& counters(const char* name, const char* help) {
    return prometheus::BuildCounter().Name(name).Help(help).Labels(labels).Register(registry);
  }
  prometheus::Counter& counter(const char* name, const char* help) {
    return counters(name, help).Add({});
  }
  prometheus::Family<prometheus::Gauge>& gauges(const char* name, const char* help) {
    return prometheus::BuildGauge().Name(name).Help(help).Labels(labels).Register(registry);
  }
  prometheus::Gauge& gauge(const char* name, const char* help) {
    return gauges(name, help).Add({});
  }
  prometheus::Histogram& histogram(const char* name, const char* help, const Buckets& buckets) {
    return prometheus::BuildHistogram().Name(name).Help(help).Labels(labels).Register(registry).Add(
        {}, buckets);
  }
  // A counter whose value someone else keeps, and may start anew.
  struct Mirror {
    prometheus::Counter& counter;
    double last = 0;
    void set(double value) {
      counter.Increment(value < last ? value : value - last);
      last = value;
    }
  };

  // Workers that start anew count from the beginning.
  void set(const StepSums& now) REQUIRES(mutex) {
    StepSums more = now;
    if (now.tokens >= steps.tokens) {
      more.tokens -= steps.tokens;
      for (size_t i = 0; i < more.counts.size(); ++i) more.counts[i] -= steps.counts[i];
    }
    if (std::all_of(more.counts.begin(), more.counts.end(), [](double n) { return n >= 0; }))
      iteration_tokens.ObserveMultiple(more.counts, more.tokens);
    steps = now;
  }
  void set(const StageSums& s) REQUIRES(mutex) {
    if (s.busy.empty()) return;
    if (!pipeline_seconds) pipeline_seconds.emplace(Mirror{pipeline.Add({})});
    pipeline_seconds->set(s.whole);
    while (stage_seconds.size() < s.busy.size())
      stage_seconds.push_back({stage_busy.Add({{"stage", std::to_string(stage_seconds.size())}})});
    for (size_t i = 0; i < s.busy.size(); ++i) stage_seconds[i].set(s.busy[i]);
  }
  void set(const DraftSums& d) REQUIRES(mutex) {
    drafts.set(d.drafts);
    draft_tokens.set(d.tokens);
    accepted_tokens.set(d.accepted);
    while (accepted_at.size() < d.accepted_at.size())
      accepted_at.push_back(
          {accepted_per_pos.Add({{"position", std::to_string(accepted_at.size())}})});
    for (size_t i = 0; i < d.accepted_at.size(); ++i) accepted_at[i].set(d.accepted_at[i]);
  }

  Labels labels;
  prometheus::Registry registry;
  ProcessMetrics process{registry};
  prometheus::Family<prometheus::Gauge>& build_info =
      gauges("tandem:build_info", "The version of Tandem, as a label; always 1.");
  prometheus::Gauge& running =
      gauge("tandem:num_requests_running", "Requests that the engine computes.");
  prometheus::Gauge& waiting =
      gauge("tandem:num_requests_waiting", "Requests that wait for their first step.");
  prometheus::Family<prometheus::Gauge>& waiting_by_reason =
      gauges("tandem:num_requests_waiting_by_reason",
             "Requests that wait: for room in a batch (capacity), for their text, sound or image "
             "to be read (deferred).");
  prometheus::Family<prometheus::Gauge>& cache_config =
      gauges("tandem:cache_config_info", "What the KV cache was made with, as labels; always 1.");
  prometheus::Gauge& swapped = gauge("tandem:num_requests_swapped",
                                     "Preempted requests whose KV blocks are in host memory.");
  prometheus::Gauge& kv_usage =
      gauge("tandem:kv_cache_usage_perc", "Used KV blocks; 1 is all of them.");
  prometheus::Family<prometheus::Gauge>& kv_blocks =
      gauges("tandem:kv_cache_blocks", "KV blocks by what they hold.");
  prometheus::Gauge& under_way =
      gauge("tandem:http_prompts_under_way", "Prompts that HTTP clients wait for.");
  prometheus::Gauge& expected_wait =
      gauge("tandem:expected_wait_seconds", "That a new request would wait.");
  prometheus::Family<prometheus::Counter>& refused =
      counters("tandem:requests_refused_total", "Requests that overload kept out, by reason.");
  prometheus::Gauge& connections = gauge("tandem:http_connections", "Open HTTP connections.");
  prometheus::Family<prometheus::Gauge>& replica_up =
      gauges("tandem:replica_up", "1 if the replica's workers are up.");
  Mutex mutex;                       // of the mirrors and `process` too
  StepSums steps GUARDED_BY(mutex);  // as of the last set()
  Mirror preemptions{
      counter("tandem:num_preemptions_total", "Requests that made room for others.")};
  Mirror restarts{
      counter("tandem:worker_restarts_total", "Worker groups that were started again.")};
  Mirror encoder_queries{
      counter("tandem:encoder_cache_queries_total", "Requests whose source was looked for.")};
  Mirror encoder_hits{
      counter("tandem:encoder_cache_hits_total", "... whose encoder had run already.")};
  Mirror prefix_queries{
      counter("tandem:prefix_cache_queries_total", "Decoder tokens that were looked for.")};
  Mirror prefix_hits{
      counter("tandem:prefix_cache_hits_total", "... whose keys and values were there.")};
  Mirror refused_queue_time{refused.Add({{"reason", "queue_time"}})};
  Mirror refused_deadline{refused.Add({{"reason", "deadline"}})};
  Mirror refused_full{refused.Add({{"reason", "max_requests"}})};
  Mirror encoder_seconds{counter("tandem:encoder_seconds_total",
                                 "Time that workers spent on encoder inputs, of each replica's "
                                 "first rank.")};
  prometheus::Family<prometheus::Counter>& stage_busy =
      counters("tandem:pipeline_stage_busy_seconds_total",
               "Time that a pipeline stage computed, of all replicas.");
  std::vector<Mirror> stage_seconds;  // by stage
  prometheus::Family<prometheus::Counter>& pipeline =
      counters("tandem:pipeline_seconds_total",
               "Time while pipeline stages had steps under way, of all replicas. What a stage does "
               "not compute of it, it is idle.");
  std::optional<Mirror> pipeline_seconds;  // with stages
  Mirror drafts{counter("tandem:spec_decode_num_drafts_total",
                        "Times that tokens of a sequence were guessed.")};
  Mirror draft_tokens{
      counter("tandem:spec_decode_num_draft_tokens_total", "Tokens that were guessed.")};
  Mirror accepted_tokens{
      counter("tandem:spec_decode_num_accepted_tokens_total", "... that were right.")};
  prometheus::Family<prometheus::Counter>& accepted_per_pos =
      counters("tandem:spec_decode_num_accepted_tokens_per_pos_total",
               "... by their place in the guess, from 0.");
  std::vector<Mirror> accepted_at;  // by place
  prometheus::Counter& prompt_tokens =
      counter("tandem:prompt_tokens_total", "Tokens of encoder inputs.");
  prometheus::Counter& generation_tokens =
      counter("tandem:generation_tokens_total", "Generated tokens.");
  prometheus::Family<prometheus::Counter>& success =
      counters("tandem:request_success_total", "Requests that ended well, by reason.");
  prometheus::Family<prometheus::Counter>& failures =
      counters("tandem:request_failure_total", "Requests that failed, by type of error.");
  prometheus::Family<prometheus::Counter>& http =
      counters("tandem:http_requests_total", "HTTP requests, by route and status.");
  prometheus::Histogram& first_token =
      histogram("tandem:time_to_first_token_seconds", "From arrival to the first token.", kSeconds);
  prometheus::Histogram& inter_token = histogram(
      "tandem:inter_token_latency_seconds", "Between two tokens of a sequence.", kTokenSeconds);
  prometheus::Histogram& per_token =
      histogram("tandem:time_per_output_token_seconds",
                "Mean time of a request's tokens behind its first.", kTokenSeconds);
  prometheus::Histogram& total =
      histogram("tandem:e2e_request_latency_seconds", "From arrival to the last token.", kSeconds);
  prometheus::Histogram& queue =
      histogram("tandem:request_queue_time_seconds", "From arrival to the first step.", kSeconds);
  prometheus::Histogram& request_prompt =
      histogram("tandem:request_prompt_tokens", "Tokens of a request's encoder input.", kTokens);
  prometheus::Histogram& request_generation =
      histogram("tandem:request_generation_tokens", "Tokens generated for a request.", kTokens);
  prometheus::Histogram& inference =
      histogram("tandem:request_inference_time_seconds",
                "From a request's first step to its last token.", kSeconds);
  prometheus::Histogram& prefill =
      histogram("tandem:request_prefill_time_seconds",
                "From a request's first step to its first token.", kSeconds);
  prometheus::Histogram& decode =
      histogram("tandem:request_decode_time_seconds",
                "From a request's first token to its last one.", kSeconds);
  prometheus::Histogram& preemptions_of_request = histogram(
      "tandem:request_num_preemptions", "Times that a request was preempted.", kPreemptions);
  prometheus::Histogram& iteration_tokens =
      histogram("tandem:iteration_tokens_total", "Tokens that a step computes.", step_buckets());
  prometheus::Histogram& params_n =
      histogram("tandem:request_params_n", "Sequences that requests ask for.", kSequences);
  prometheus::Histogram& params_max_tokens =
      histogram("tandem:request_params_max_tokens",
                "Most tokens of a sequence, of requests that say so.", kTokens);
  prometheus::Histogram& longest =
      histogram("tandem:request_max_num_generation_tokens",
                "Generated tokens of a request's longest sequence.", kTokens);
  prometheus::Counter& sound =
      counter("tandem:audio_seconds_total", "Sound that was transcribed, in seconds.");
  prometheus::Histogram& request_sound = histogram(
      "tandem:request_audio_seconds", "Length of a transcribed file, in seconds.", kSoundSeconds);
  prometheus::Histogram& http_time = histogram("tandem:http_request_duration_seconds",
                                               "HTTP requests, answer included.", kSeconds);
  prometheus::Family<prometheus::Counter>& spans = counters(
      "tandem:otlp_spans_total", "Spans by what became of them: exported to a collector, dropped.");
  prometheus::Counter& spans_exported = spans.Add({{"result", "exported"}});
  prometheus::Counter& spans_dropped = spans.Add({{"result", "dropped"}});
  prometheus::Family<prometheus::Counter>& export_failures =
      counters("tandem:otlp_failures_total", "Messages that a collector did not take, by signal.");
};

Metrics::Metrics(const std::string& model_name) : impl_(std::make_unique<Impl>(model_name)) {}
Metrics::~Metrics() = default;

void Metrics::request_ended(const Ended& r) {
  const bool success = r.reason == "stop" || r.reason == "length";
  impl_->prompt_tokens.Increment(r.prompt_tokens);
  if (!success) {
    impl_->failures.Add({{"type", r.reason}}).Increment();
    return;
  }
  impl_->success.Add({{"finished_reason", r.reason}}).Increment();
  impl_->total.Observe(r.total);
  impl_->queue.Observe(r.queue);
  impl_->request_prompt.Observe(r.prompt_tokens);
  if (r.output_tokens > 0) impl_->request_generation.Observe(r.output_tokens);
  impl_->inference.Observe(std::max(r.total - r.queue, 0.0));
  if (r.first_token >= 0) {
    impl_->prefill.Observe(std::max(r.first_token - r.queue, 0.0));
    impl_->decode.Observe(std::max(r.total - r.first_token, 0.0));
  }
  impl_->preemptions_of_request.Observe(r.preemptions);
  if (r.sequences > 0) impl_->params_n.Observe(r.sequences);
  if (r.max_tokens > 0) impl_->params_max_tokens.Observe(static_cast<double>(r.max_tokens));
  if (r.longest > 0) impl_->longest.Observe(r.longest);
  if (r.output_tokens > 1 && r.first_token >= 0)
    impl_->per_token.Observe((r.total - r.first_token) / (r.output_tokens - 1));
}

void Metrics::first_token(double seconds) { impl_->first_token.Observe(seconds); }

void Metrics::tokens_came(int tokens, double seconds) {
  impl_->generation_tokens.Increment(tokens);
  // Several tokens that come together count as evenly spaced.
  for (int i = 0; i < tokens && seconds >= 0; ++i) impl_->inter_token.Observe(seconds / tokens);
}

void Metrics::sound_transcribed(double seconds) {
  impl_->sound.Increment(seconds);
  impl_->request_sound.Observe(seconds);
}

void Metrics::http_answered(const std::string& path, int status, double seconds) {
  impl_->http.Add({{"path", path}, {"status", std::to_string(status)}}).Increment();
  impl_->http_time.Observe(seconds);
}

void Metrics::request_refused(const std::string& reason) {
  impl_->refused.Add({{"reason", reason}}).Increment();
}

void Metrics::requests_under_way(int change) { impl_->under_way.Increment(change); }

void Metrics::spans_exported(int64_t count) {
  impl_->spans_exported.Increment(static_cast<double>(count));
}

void Metrics::spans_dropped(int64_t count) {
  impl_->spans_dropped.Increment(static_cast<double>(count));
}

void Metrics::export_failed(const std::string& signal) {
  impl_->export_failures.Add({{"signal", signal}}).Increment();
}

Metrics::Totals Metrics::totals() const {
  return {static_cast<int64_t>(impl_->prompt_tokens.Value()),
          static_cast<int64_t>(impl_->generation_tokens.Value())};
}

std::vector<prometheus::MetricFamily> Metrics::collect(const EngineStatus& status,
                                                       int num_connections) {
  double running = 0, waiting = 0, swapped = 0, preemptions = 0, free = 0, blocks = 0;
  double cross = 0, idle = 0, host = 0, encoder_queries = 0, encoder_hits = 0, prefix_queries = 0,
         prefix_hits = 0, encoder_seconds = 0;
  DraftSums drafts;
  StageSums stages;
  StepSums steps;
  for (int i = 0; i < status.info.replicas_size(); ++i) {
    const proto::ReplicaInfo& replica = status.info.replicas(i);
    running += replica.stats().num_running();
    waiting += replica.stats().num_waiting();
    swapped += replica.stats().num_swapped();
    preemptions += replica.stats().num_preemptions();
    free += replica.stats().num_free_blocks();
    blocks += replica.stats().num_total_blocks();
    cross += replica.stats().num_cross_blocks();
    idle += replica.stats().num_idle_blocks();
    host += replica.stats().num_total_host_blocks() - replica.stats().num_free_host_blocks();
    encoder_queries += static_cast<double>(replica.stats().encoder_cache_queries());
    encoder_hits += static_cast<double>(replica.stats().encoder_cache_hits());
    prefix_queries += static_cast<double>(replica.stats().prefix_cache_queries());
    prefix_hits += static_cast<double>(replica.stats().prefix_cache_hits());
    encoder_seconds += replica.stats().encoder_seconds();
    drafts.add(replica.stats());
    stages.add(replica.stats());
    steps.add(replica.stats());
    if (replica.stats().block_size() > 0)
      impl_->cache_config.Add(cache_labels(replica.stats(), i)).Set(1);
    impl_->replica_up.Add({{"engine", std::to_string(i)}}).Set(replica.up() ? 1 : 0);
  }
  impl_->running.Set(running);
  impl_->waiting.Set(waiting);
  impl_->waiting_by_reason.Add({{"reason", "capacity"}}).Set(waiting);
  impl_->waiting_by_reason.Add({{"reason", "deferred"}})
      .Set(std::max(0.0, status.info.num_requests() - running - waiting - swapped));
  impl_->swapped.Set(swapped);
  impl_->kv_usage.Set(blocks > 0 ? 1 - free / blocks : 0);
  const std::pair<const char*, double> kinds[] = {{"self", blocks - free - cross},
                                                  {"cross", cross},
                                                  {"cached", idle},
                                                  {"free", free - idle},
                                                  {"host", host}};
  for (const auto& [kind, count] : kinds) impl_->kv_blocks.Add({{"kind", kind}}).Set(count);
  impl_->connections.Set(num_connections);
  impl_->expected_wait.Set(status.info.expected_wait());
  {
    const MutexLock lock(impl_->mutex);
    impl_->preemptions.set(preemptions);
    impl_->restarts.set(status.info.num_restarts());
    impl_->refused_queue_time.set(static_cast<double>(status.info.refused_queue_time()));
    impl_->refused_deadline.set(static_cast<double>(status.info.refused_deadline()));
    impl_->refused_full.set(static_cast<double>(status.info.refused_full()));
    impl_->encoder_queries.set(encoder_queries);
    impl_->encoder_hits.set(encoder_hits);
    impl_->prefix_queries.set(prefix_queries);
    impl_->prefix_hits.set(prefix_hits);
    impl_->encoder_seconds.set(encoder_seconds);
    impl_->set(drafts);
    impl_->set(stages);
    impl_->set(steps);
    impl_->process.update();
  }

  std::vector<prometheus::MetricFamily> families = impl_->registry.Collect();
  const size_t own = families.size();
  for (size_t i = 0; i < own; ++i) {
    const std::string name = families[i].name;
    for (auto [it, end] = kVllmNames.equal_range(name); it != end; ++it) {
      families.push_back(families[i]);
      families.back().name = it->second;
    }
  }
  return families;
}

std::string Metrics::text(const EngineStatus& status, int num_connections) {
  return prometheus::TextSerializer().Serialize(collect(status, num_connections));
}

}  // namespace tandem::server
