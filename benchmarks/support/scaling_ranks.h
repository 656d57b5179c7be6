// The ranks of a layout, as threads of this process or as processes of their own. A result has what
// every rank did, in the order of the ranks.
#pragma once

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <exception>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/json.h"
#include "benchmarks/support/scaling_run.h"
#include "parallel/communicators/shared_memory_communicator.h"

namespace tandem::bench {

// Where all ranks meet before a round, in memory that forks share.
class StartLine {
 public:
  explicit StartLine(int ranks) : ranks_(ranks) {
    void* memory =
        mmap(nullptr, sizeof(State), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    state_ = new (memory) State;
  }
  ~StartLine() { munmap(state_, sizeof(State)); }
  StartLine(const StartLine&) = delete;
  StartLine& operator=(const StartLine&) = delete;

  void wait() {
    const int round = state_->arrived.fetch_add(1) / ranks_;
    while (state_->arrived.load() < (round + 1) * ranks_) {
      if (state_->failed.load()) throw std::runtime_error("another rank has failed");
      constexpr timespec kPause{0, 50'000};
      nanosleep(&kPause, nullptr);
    }
  }
  void fail() { state_->failed = true; }

 private:
  struct State {
    std::atomic<int> arrived{0};
    std::atomic<bool> failed{false};
  };
  int ranks_;
  State* state_;
};

struct LayoutRun {
  std::filesystem::path model;
  ScalingLayout layout;
  ScalingCase shape;  // of one group of data parallelism
  ScalingPlan plan;   // the same for all of them

  ScalingCase of_group(int group) const {
    ScalingCase c = shape;
    c.first_request = group * shape.batch;
    return c;
  }
};

inline LayoutRun prepare_run(const std::filesystem::path& model, const ScalingLayout& layout,
                             const ScalingCase& shape) {
  return {model, layout, shape, plan_steps(shape, layout.pp)};
}

// begin_round: see ScalingRank.
inline RankResult run_rank(const LayoutRun& run, int rank, std::shared_ptr<Communicator> comm,
                           const std::function<void()>& begin_round,
                           const ScalingRank::AroundStep& around = {}) {
  const int group = rank / run.layout.group();
  ScalingRank one(run.model, run.layout, std::move(comm));
  const ScalingCase c = run.of_group(group);
  const ScalingPlan plan = group == 0 ? run.plan : plan_steps(c, run.layout.pp);
  return one.run(c, plan, begin_round, around);
}

// What the model says of each rank, by rank and step. half: "encoder", "decoder", or "" for both.
inline std::vector<std::vector<StepWork>> work_of(const LayoutRun& run,
                                                  const std::string& half = "") {
  const ModelConfig config = ModelConfig::load(run.model);
  const std::vector<Stage> stages = stages_of(run.layout, config, Checkpoint::open(run.model));
  const auto region =
      SharedMemoryRegion::create_private(run.layout.group(), CommunicatorOptions().chunk_bytes);
  std::vector<std::vector<StepWork>> out;
  for (int rank = 0; rank < run.layout.ranks(); ++rank) {
    const auto stage = static_cast<size_t>(run.layout.stage_of(rank));
    const WorkModel model(config, run.layout, stages[stage], rank,
                          static_cast<int64_t>(region->piece_bytes()));
    out.emplace_back();
    for (StepShape shape : run.plan.shapes) {
      if (half == "encoder") shape.decoder_rows = shape.sampled_rows = shape.heard = 0;
      if (half == "decoder") shape.encoder_rows = 0;
      out.back().push_back(model.of(shape));
    }
  }
  return out;
}

// around: of a rank's steps, by rank.
inline std::vector<RankResult> run_as_threads(
    const LayoutRun& run, const std::function<ScalingRank::AroundStep(int rank)>& around = {}) {
  const auto ranks = static_cast<size_t>(run.layout.ranks());
  std::vector<std::shared_ptr<Communicator>> comms;
  for (int group = 0; group < run.layout.dp; ++group)
    for (auto& comm : make_thread_communicators(run.layout.group()))
      comms.push_back(std::move(comm));
  StartLine line(run.layout.ranks());
  std::vector<RankResult> out(ranks);
  std::vector<std::exception_ptr> errors(ranks);
  std::vector<std::thread> threads;
  for (size_t r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      const auto rank = static_cast<int>(r);
      try {
        out[r] = run_rank(
            run, rank, comms[r], [&] { line.wait(); },
            around ? around(rank) : ScalingRank::AroundStep());
      } catch (...) {
        errors[r] = std::current_exception();
        line.fail();
        comms[r]->abort();
      }
    });
  for (std::thread& t : threads) t.join();
  for (const auto& error : errors)
    if (error) std::rethrow_exception(error);
  return out;
}

// As text, which one process tells another.
inline void to_json(nlohmann::json& j, const ScalingStep& s) {
  j = {s.begin,      s.end,        s.exchange,       s.core,
       s.sums.calls, s.sums.bytes, s.messages.calls, s.messages.bytes};
}
inline void from_json(const nlohmann::json& j, ScalingStep& s) {
  s = {j[0], j[1], j[2], j[3], {j[4], j[5]}, {j[6], j[7]}};
}
inline std::string told(const RankResult& result) {
  return json_text(nlohmann::json{{"tokens", result.tokens}, {"steps", result.steps}});
}
inline RankResult heard(const std::string& text) {
  const auto j = json_from<nlohmann::json>(text);
  if (j.contains("error")) throw std::runtime_error(j.at("error").get<std::string>());
  return {j.at("tokens").get<std::vector<std::vector<int32_t>>>(),
          j.at("steps").get<std::vector<ScalingStep>>()};
}

namespace detail {

struct RankProcess {
  pid_t pid;
  int pipe;
};

// In a fork: runs the rank and writes what it did.
[[noreturn]] inline void be_rank(const LayoutRun& run, int rank,
                                 const std::shared_ptr<SharedMemoryRegion>& region, int pipe,
                                 StartLine& line) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::string text;
  try {
    std::shared_ptr<Communicator> comm = make_local_communicator();
    if (region) {
      const int own = rank % run.layout.group();
      region->join(own);
      region->wait_until_all_joined(std::chrono::minutes(1));
      comm = make_shared_memory_communicator(region, own);
    }
    text = told(run_rank(run, rank, std::move(comm), [&] { line.wait(); }));
  } catch (const std::exception& e) {
    line.fail();
    text = json_text(nlohmann::json{{"error", e.what()}});
  }
  for (size_t at = 0; at < text.size();) {
    const ssize_t n = write(pipe, text.data() + at, text.size() - at);
    if (n <= 0) break;
    at += static_cast<size_t>(n);
  }
  _exit(0);
}

inline std::string read_all(int fd) {
  std::string text;
  char buffer[65536];
  for (ssize_t n = 0; (n = read(fd, buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<size_t>(n));
  close(fd);
  return text.empty() ? R"({"error": "a rank's process has died"})" : text;
}

}  // namespace detail

// Forks of this process, which has no other threads.
inline std::vector<RankResult> run_as_processes(const LayoutRun& run) {
  StartLine line(run.layout.ranks());
  std::vector<detail::RankProcess> processes;
  std::shared_ptr<SharedMemoryRegion> region;
  for (int rank = 0; rank < run.layout.ranks(); ++rank) {
    if (run.layout.group() > 1 && rank % run.layout.group() == 0)
      region =
          SharedMemoryRegion::create_shared(run.layout.group(), CommunicatorOptions().chunk_bytes);
    int ends[2];
    if (pipe(ends) != 0) throw std::runtime_error("pipe");
    const pid_t pid = fork();
    if (pid < 0) throw std::runtime_error("fork");
    if (pid == 0) {
      close(ends[0]);
      detail::be_rank(run, rank, region, ends[1], line);
    }
    close(ends[1]);
    processes.push_back({pid, ends[0]});
  }
  std::vector<std::string> texts;
  for (const auto& process : processes) texts.push_back(detail::read_all(process.pipe));
  for (const auto& process : processes) waitpid(process.pid, nullptr, 0);
  std::vector<RankResult> out;
  for (const std::string& text : texts) out.push_back(heard(text));
  return out;
}

}  // namespace tandem::bench
