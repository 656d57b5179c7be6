// What the engine adds to the steps of its workers. The model is a pause of --step-ms, so that all
// else that happens in a step is the control plane: schedule, messages, gather, text, streams.
//
//   bench_control_plane --model DIR [--sequences 1,64,1000] [--ranks 4] [--steps 300] [--repeat 3]
//                       [--step-ms 2] [--busy] [--json]
//
// For each number of running sequences, in turn and --repeat times:
//   floor    the workers alone, fed with steps made before
//   loop     Scheduler, worker and Scheduler::complete_step() in turn, one thread, no actors
//   threads  a cluster in this process: one rank, run-ahead 0 and 1
//   tls      a cluster of --ranks processes, connected by TLS, run-ahead 0 and 1
// A step's period is from the end of one step to the end of the next, on rank 0. Added time is the
// median period less the floor's of the same round (same number of ranks). The round trip is from
// the end of a step on rank 0 to the begin of the next one on the last rank, without run-ahead.
#include <pthread.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "actors/in_process_engine.h"
#include "base/json.h"
#include "benchmarks/support/command_line.h"
#include "benchmarks/support/control_plane_report.h"
#include "benchmarks/support/fork_launcher.h"
#include "benchmarks/support/timed_worker.h"
#include "runtime/engine/make_sequence_group.h"
#include "runtime/protocol/json/options_reader.h"
#include "runtime/protocol/json/prompt_reader.h"
#include "runtime/scheduling/scheduler.h"

namespace {

using namespace tandem;
using namespace tandem::bench;
using nlohmann::json;

constexpr int kWarmUp = 40;  // steps with all sequences, before those that count
constexpr int kMaxPositions = 4096, kSourceTokens = 8, kBlockSize = 16;

struct Options {
  std::string model;
  std::vector<int> sequences{1, 64, 1000};
  int ranks = 4, steps = 300, repeat = 3;
  double step_ms = 2;
  bool busy = false, as_json = false;

  TimedWorkerOptions worker() const { return {static_cast<int64_t>(step_ms * 1e6), busy}; }
};

// The first step with all sequences, if there is one.
int64_t first_full_step(StepTrace& trace, int sequences) {
  StepTrace::Rank& rank = trace.rank(0);
  const int64_t done = std::min(rank.num_ended.load(), StepTrace::kMaxSteps);
  for (int64_t i = 0; i < done; ++i)
    if (rank.steps[i].sequences == sequences) return i;
  return StepTrace::kMaxSteps;
}

Figures figures_of(StepTrace& trace, int64_t first, int64_t last, int ranks) {
  std::vector<double> periods, round_trips;
  for (int64_t i = first; i < last; ++i) {
    const int64_t end = trace.rank(0).steps[i - 1].end;
    int64_t begin = 0;
    for (int r = 0; r < ranks; ++r) begin = std::max(begin, trace.rank(r).steps[i].begin);
    periods.push_back(static_cast<double>(trace.rank(0).steps[i].end - end) / 1e3);
    round_trips.push_back(static_cast<double>(begin - end) / 1e3);
  }
  Figures out;
  out.period = quantile(periods, 0.5);
  out.p99 = quantile(periods, 0.99);
  out.round_trip = quantile(round_trips, 0.5);
  return out;
}

// --- Without actors ------------------------------------------------------------------------------

SchedulerConfig loop_config(int sequences, int num_blocks) {
  SchedulerConfig config;
  config.max_num_seqs = sequences;
  config.block_size = kBlockSize;
  config.num_device_blocks = num_blocks;
  return config;
}

// More than a sequence generates before all has been measured.
int tokens_for(const Options& o) { return o.steps + kWarmUp + 800; }
int blocks_for(const Options& o, int sequences) {
  return sequences * (tokens_for(o) / kBlockSize + 3);
}

void add_requests(const Options& o, Scheduler& scheduler, int sequences) {
  for (int i = 0; i < sequences; ++i) {
    proto::AddRequest add;
    add.set_request_id("request-" + std::to_string(i));
    for (int t = 0; t < kSourceTokens; ++t)
      add.mutable_inputs()->add_encoder_prompt_token_ids(10 + t);
    add.mutable_inputs()->add_prompt_token_ids(2);
    add.mutable_sampling_params()->set_n(1);
    add.mutable_sampling_params()->set_max_tokens(tokens_for(o));
    add.set_first_seq_id(2 * i);
    add.add_seqs();
    scheduler.add_seq_group(make_sequence_group(add));
  }
}

std::unique_ptr<TimedWorker> started_worker(StepTrace& trace, const TimedWorkerOptions& options,
                                            int rank, int size, int num_blocks) {
  auto worker = std::make_unique<TimedWorker>(trace, options);
  proto::WorkerSetup setup;
  setup.set_rank(rank);
  setup.set_size(size);
  setup.mutable_config()->mutable_cache()->set_block_size(kBlockSize);
  setup.mutable_config()->mutable_cache()->set_num_gpu_blocks_override(num_blocks);
  proto::WorkerStart start;
  start.set_num_device_blocks(worker->load(setup, {}).num_device_blocks());
  worker->start(start);
  return worker;
}

// Runs `body` in processes of their own, for each rank.
template <class Body>
void in_processes(int ranks, const Body& body) {
  std::vector<pid_t> children;
  for (int r = 0; r < ranks; ++r) {
    const pid_t pid = fork();
    if (pid < 0) throw std::runtime_error("fork");
    if (pid == 0) {
      body(r);
      _exit(0);
    }
    children.push_back(pid);
  }
  for (const pid_t pid : children) {
    int status = 0;
    waitpid(pid, &status, 0);
    if (status != 0) throw std::runtime_error("a rank has failed");
  }
}

// Steps until all sequences run and `more` beyond; `use` is given each one, and returns its output.
template <class Use>
void run_loop(const Options& o, int sequences, const Use& use) {
  Scheduler scheduler(loop_config(sequences, blocks_for(o, sequences)));
  add_requests(o, scheduler, sequences);
  for (int full = 0; full < kWarmUp + o.steps;) {
    const proto::StepInput step = scheduler.schedule(0);
    full += step.groups_size() + step.deltas_size() == sequences;
    scheduler.complete_step(use(step));
  }
}

Figures measure_floor(const Options& o, int sequences, int ranks) {
  StepTrace trace, unused;
  std::vector<proto::StepInput> steps;
  const int blocks = blocks_for(o, sequences);
  const auto maker = started_worker(unused, {.step_ns = 0}, 0, 1, blocks);
  run_loop(o, sequences, [&](const proto::StepInput& step) {
    steps.push_back(step);
    return maker->execute(step);
  });
  in_processes(ranks, [&](int rank) {
    const auto worker = started_worker(trace, o.worker(), rank, ranks, blocks);
    for (const proto::StepInput& step : steps) worker->execute(step);
  });
  const int64_t first = first_full_step(trace, sequences) + kWarmUp;
  return figures_of(trace, first, first + o.steps, ranks);
}

Figures measure_loop(const Options& o, int sequences) {
  StepTrace trace;
  in_processes(1, [&](int) {
    const auto worker = started_worker(trace, o.worker(), 0, 1, blocks_for(o, sequences));
    run_loop(o, sequences, [&](const proto::StepInput& step) { return worker->execute(step); });
  });
  const int64_t first = first_full_step(trace, sequences) + kWarmUp;
  return figures_of(trace, first, first + o.steps, 1);
}

// --- Clusters ------------------------------------------------------------------------------------

// Takes the news as the HTTP server does, in the engine's thread.
struct EngineLoad {
  std::atomic<bool> measured{false};

  void submit(EngineApi& engine, const Options& o, int sequences) {
    const json params = {{"max_tokens", tokens_for(o)},
                         {"num_beams", 1},
                         {"ignore_eos", true},
                         {"forced_eos_token_id", nullptr}};
    std::vector<int32_t> source;
    for (int t = 0; t < kSourceTokens; ++t) source.push_back(10 + t);
    for (int i = 0; i < sequences; ++i) {
      EngineApi::Request request;
      request.id = "request-" + std::to_string(i);
      request.prompt = read_prompt({{"prompt_token_ids", source}});
      request.options = read_options(params);
      engine.submit(request, [this](proto::RequestChunk chunk) {
        if (chunk.has_error() && !measured)
          std::fprintf(stderr, "%s\n", chunk.error().message().c_str());
      });
    }
  }
};

void wait_for_steps(StepTrace& trace, int64_t steps, actors::Cluster& cluster) {
  const int64_t give_up = clock_ns() + 120'000'000'000;
  while (trace.rank(0).num_ended.load() < steps) {
    if (cluster.status().given_up) throw std::runtime_error(*cluster.status().given_up);
    if (clock_ns() > give_up) throw std::runtime_error("the cluster does not make steps");
    sleep_until_ns(clock_ns() + 5'000'000);
  }
}

Figures measure(actors::Cluster& cluster, StepTrace& trace, const Options& o, int sequences,
                int ranks, bool here) {
  EngineLoad load;
  actors::InProcessEngine engine(cluster);
  load.submit(engine, o, sequences);
  while (first_full_step(trace, sequences) == StepTrace::kMaxSteps)
    wait_for_steps(trace, trace.rank(0).num_ended.load() + 1, cluster);
  const int64_t first = first_full_step(trace, sequences) + kWarmUp, last = first + o.steps;
  struct Snapshot {
    int64_t step, process;
  };
  const auto snapshot = [&] {
    return Snapshot{trace.rank(0).num_ended.load() - 1, clock_ns(CLOCK_PROCESS_CPUTIME_ID)};
  };
  wait_for_steps(trace, first, cluster);
  const Snapshot a = snapshot();
  wait_for_steps(trace, last + 1, cluster);
  const Snapshot b = snapshot();
  if (b.step >= StepTrace::kMaxSteps) throw std::runtime_error("too many steps");
  Figures out = figures_of(trace, first, last, ranks);
  int64_t workers = 0;
  for (int r = 0; here && r < ranks; ++r)
    workers += trace.rank(r).steps[b.step].cpu - trace.rank(r).steps[a.step].cpu;
  const double steps = static_cast<double>(b.step - a.step) * 1e3;
  out.engine_cpu = static_cast<double>(b.process - a.process - workers) / steps;
  load.measured = true;
  engine.close();
  return out;
}

actors::ClusterConfig cluster_config(const Options& o, const std::string& model, int sequences,
                                     int run_ahead) {
  actors::ClusterConfig config;
  config.engine.mutable_loading()->set_model(model);
  config.engine.mutable_cache()->set_block_size(kBlockSize);
  config.engine.mutable_scheduling()->set_max_num_seqs(sequences);
  config.engine.mutable_cache()->set_num_gpu_blocks_override(blocks_for(o, sequences));
  config.engine.mutable_cache()->set_swap_space(0);
  config.max_steps_in_flight = 1 + run_ahead;
  return config;
}

Figures measure_threads(const Options& o, const std::string& model, int sequences, int run_ahead) {
  StepTrace trace;
  actors::Cluster cluster(cluster_config(o, model, sequences, run_ahead),
                          [&] { return std::make_unique<TimedWorker>(trace, o.worker()); });
  return measure(cluster, trace, o, sequences, 1, true);
}

Figures measure_tls(const Options& o, const std::string& model, int sequences, int run_ahead) {
  StepTrace trace;
  auto launcher = std::make_unique<ForkLauncher>(
      o.ranks, [&] { return std::make_shared<TimedWorker>(trace, o.worker()); });
  auto config = cluster_config(o, model, sequences, run_ahead);
  config.tensor_parallel_size = o.ranks;
  actors::Cluster cluster(config, std::move(launcher));
  return measure(cluster, trace, o, sequences, o.ranks, false);
}

// --- Report --------------------------------------------------------------------------------------

// One round of all set-ups; rows are in this order.
void run_round(const Options& o, const std::string& model, int sequences, std::vector<Row>& rows) {
  size_t next = 0;
  const auto note = [&](const std::string& setup, int ranks, Figures f, const Figures* floor) {
    if (next == rows.size()) rows.push_back({setup, ranks, sequences, {}});
    f.added = floor == nullptr ? 0 : f.period - floor->period;
    rows[next++].rounds.push_back(f);
  };
  const Figures one = measure_floor(o, sequences, 1);
  note("floor", 1, one, nullptr);
  note("loop", 1, measure_loop(o, sequences), &one);
  for (const int ahead : {0, 1})
    note("threads, run-ahead " + std::to_string(ahead), 1,
         measure_threads(o, model, sequences, ahead), &one);
  const Figures all = measure_floor(o, sequences, o.ranks);
  note("floor", o.ranks, all, nullptr);
  for (const int ahead : {0, 1})
    note("TLS, run-ahead " + std::to_string(ahead), o.ranks,
         measure_tls(o, model, sequences, ahead), &all);
}

// Configuration and tokenizer of `model`, with room for as many tokens as the benchmark generates.
std::filesystem::path longer_model(const std::string& model) {
  namespace fs = std::filesystem;
  const fs::path out = fs::temp_directory_path() / ("tandem-bench-" + std::to_string(getpid()));
  fs::create_directories(out);
  for (const auto& entry : fs::directory_iterator(model))
    if (entry.is_regular_file() && entry.path().extension() != ".safetensors")
      fs::copy_file(entry.path(), out / entry.path().filename());
  json config = json::parse(std::ifstream(fs::path(model) / "config.json"));
  config["max_position_embeddings"] = kMaxPositions;
  std::ofstream(out / "config.json") << json_text(config);
  return out;
}

int run(const Options& o) {
  const auto model = longer_model(o.model);
  if (!o.as_json)
    std::printf(
        "| sequences | set-up | ranks | period us | p99 | added | least | round trip | engine CPU "
        "|\n|---|---|---|---|---|---|---|---|---|\n");
  json all = json::array();
  for (const int sequences : o.sequences) {
    std::vector<Row> rows;
    for (int i = 0; i < o.repeat; ++i) run_round(o, model, sequences, rows);
    if (!o.as_json) print(rows);
    for (const Row& row : rows) all.push_back(to_json(row));
  }
  std::filesystem::remove_all(model);
  if (o.as_json) std::printf("%s\n", json_text(all).c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  CommandLine app(
      "Times what the control plane adds to steps, for workers whose model is a pause.");
  app.add("--model", o.model, "checkpoint directory; only configuration and tokenizer count")
      .required();
  app.add("--sequences", o.sequences, "running sequences").list();
  app.add("--ranks", o.ranks, "worker processes").range(1, StepTrace::kMaxRanks);
  app.add("--steps", o.steps, "steps that count").range(10, 1000);
  app.add("--repeat", o.repeat, "rounds; their medians count");
  app.add("--step-ms", o.step_ms, "the model's time");
  app.flag("--busy", o.busy, "the model's time is computed, not slept");
  app.flag("--json", o.as_json, "all rounds, as JSON");
  if (const auto status = app.parse(argc, argv)) return *status;
  spdlog::set_level(spdlog::level::warn);
  try {
    return run(o);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_control_plane: %s\n", e.what());
    return 1;
  }
}
