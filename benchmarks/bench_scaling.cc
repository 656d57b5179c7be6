// Strong and weak scaling of the model over the ranks of a group, with computation and
// communication of a step told apart. Each rank computes with one thread.
//
//   bench_scaling [--model DIR] [--ranks 1,2,4] [--batch 16] [--weak-batch 8] [--repeat 3] [--json]
//   mpirun -n 2 bench_scaling --mpi …          ranks are processes: one row for each kind
//
// Without --model: a random BART of 512 x 4 + 4 layers, which is made and removed again. Fails if
// the tokens depend on the number of ranks, or a step communicates other than its shape says.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "benchmarks/support/random_bart.h"
#include "benchmarks/support/scaling_run.h"
#include "parallel/communicators/mpi_session.h"

namespace {

using namespace tandem;
using namespace tandem::bench;
using nlohmann::json;
namespace fs = std::filesystem;

constexpr random_bart::Size kSize{4, 512, 8, 2048, 8192, 512};

struct Options {
  std::string model;
  std::vector<int> ranks{1, 2, 4};
  int batch = 16, weak_batch = 8, source_tokens = 64, new_tokens = 24, repeat = 3;
  bool mpi = false, as_json = false;
};

struct Row {
  std::string kind, ranks_are;
  int ranks = 1, batch = 0;
  ScalingSummary best;  // of the fastest run
};

void check_traffic(const ModelConfig& config, const ScalingResult& result, int ranks) {
  for (const ScalingStep& step : result.steps) {
    int64_t calls = 0, bytes = 0;
    if (ranks > 1) expected_traffic(config, step, &calls, &bytes);
    if (step.calls != calls || step.bytes != bytes)
      throw std::runtime_error("a step made " + std::to_string(step.calls) + " calls of " +
                               std::to_string(step.bytes) + " bytes instead of " +
                               std::to_string(calls) + " of " + std::to_string(bytes));
  }
}

void print_head() {
  std::printf(
      "| scaling | ranks | batch | tokens/s | decode step ms | computing | communicating | KB "
      "| encode step ms | communicating |\n|---|---|---|---|---|---|---|---|---|---|\n");
}

void report(const Options& o, const Row& row) {
  const ScalingSummary& s = row.best;
  const double rate = row.batch * o.new_tokens / s.total;
  if (o.as_json) {
    std::printf("%s\n", json({{"scaling", row.kind},
                              {"ranks", row.ranks},
                              {"ranks_are", row.ranks_are},
                              {"batch", row.batch},
                              {"tokens_per_second", rate},
                              {"decode_ms", s.decode * 1e3},
                              {"decode_communication_ms", s.decode_communication * 1e3},
                              {"decode_bytes", s.bytes},
                              {"decode_calls", s.calls},
                              {"encode_ms", s.encode * 1e3},
                              {"encode_communication_ms", s.encode_communication * 1e3}})
                            .dump()
                            .c_str());
  } else {
    std::printf("| %s | %d %s | %d | %.0f | %.2f | %.2f | %.2f | %.0f | %.1f | %.1f |\n",
                row.kind.c_str(), row.ranks, row.ranks_are.c_str(), row.batch, rate, s.decode * 1e3,
                (s.decode - s.decode_communication) * 1e3, s.decode_communication * 1e3,
                s.bytes / 1e3, s.encode * 1e3, s.encode_communication * 1e3);
  }
  std::fflush(stdout);
}

// Keeps the fastest of several runs.
void keep(Row& row, const ScalingResult& result) {
  const ScalingSummary s = summary_of(result);
  if (row.best.total == 0 || s.total < row.best.total) row.best = s;
}

ScalingCase case_of(const Options& o, const std::string& kind, int ranks) {
  return {kind == "strong" ? o.batch : o.weak_batch * ranks, o.source_tokens, o.new_tokens};
}

void on_threads(const Options& o, const fs::path& model) {
  const ModelConfig config = ModelConfig::load(model);
  for (const std::string kind : {"strong", "weak"}) {
    std::vector<Row> rows;
    std::map<int, std::vector<std::vector<int32_t>>> tokens;  // by batch
    for (const int ranks : o.ranks)
      rows.push_back({kind, "threads", ranks, case_of(o, kind, ranks).batch, {}});
    for (int i = 0; i < o.repeat; ++i)
      for (Row& row : rows) {  // interleaved: the machine's speed drifts
        const ScalingResult result =
            run_on_threads(model, row.ranks, case_of(o, kind, row.ranks)).at(0);
        check_traffic(config, result, row.ranks);
        const auto [it, fresh] = tokens.emplace(row.batch, result.tokens);
        if (it->second != result.tokens) throw std::runtime_error("other ranks, other tokens");
        keep(row, result);
      }
    for (const Row& row : rows) report(o, row);
  }
}

void on_processes(const Options& o, const fs::path& model, MpiSession& session) {
  for (const std::string kind : {"strong", "weak"}) {
    Row row{kind, "processes", session.size(), case_of(o, kind, session.size()).batch, {}};
    for (int i = 0; i < o.repeat; ++i) {
      const auto comm = session.make_communicator();
      ScalingRun run(model, *comm);
      const ScalingResult result = run.run(case_of(o, kind, session.size()));
      check_traffic(run.config(), result, session.size());
      keep(row, result);
      if (i > 0) continue;
      // Rank 0's tokens, from a group of one, to compare with.
      const ScalingResult alone =
          session.rank() == 0 ? run_on_threads(model, 1, case_of(o, kind, session.size())).at(0)
                              : result;
      if (alone.tokens != result.tokens) throw std::runtime_error("other ranks, other tokens");
      comm->barrier();
    }
    if (session.rank() == 0) report(o, row);
  }
}

int run(const Options& o) {
  const std::unique_ptr<MpiSession> session = o.mpi ? std::make_unique<MpiSession>() : nullptr;
  const bool first = session == nullptr || session->rank() == 0;
  std::string model = o.model;
  if (model.empty() && first) {
    model = fs::temp_directory_path() / ("tandem-bench-scaling-" + std::to_string(getpid()));
    random_bart::write(model, kSize, 1);
  }
  if (session != nullptr) session->broadcast(model, 0);
  if (first && !o.as_json) print_head();
  if (session == nullptr) {
    on_threads(o, model);
  } else {
    on_processes(o, model, *session);
    session->barrier();
  }
  if (o.model.empty() && first) fs::remove_all(model);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  CLI::App app("Scaling over ranks: strong (one batch) and weak (a batch for each rank).");
  app.add_option("--model", o.model, "checkpoint directory of a BART; default: a random one");
  app.add_option("--ranks", o.ranks, "group sizes")->delimiter(',')->capture_default_str();
  app.add_option("--batch", o.batch, "strong scaling: requests")->capture_default_str();
  app.add_option("--weak-batch", o.weak_batch, "weak scaling: requests for each rank")
      ->capture_default_str();
  app.add_option("--source-tokens", o.source_tokens)->capture_default_str();
  app.add_option("--new-tokens", o.new_tokens)->capture_default_str();
  app.add_option("--repeat", o.repeat, "runs; the fastest counts")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_flag("--mpi", o.mpi, "ranks are the processes of an MPI job");
  app.add_flag("--json", o.as_json, "a line of JSON for each row");
  CLI11_PARSE(app, argc, argv);
  try {
    return run(o);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_scaling: %s\n", e.what());
    return 1;
  }
}
