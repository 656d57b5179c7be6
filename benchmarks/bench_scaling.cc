// Scaling over ranks: tensor, pipeline and data parallelism and their mixes, strong (one batch) and
// weak (a batch for each rank). Each rank computes with one thread. benchmarks/scaling/scaling.py
// runs this program, fits a model to its figures and draws both.
//
//   bench_scaling [--layouts 1,tp2,pp2,dp2,tp2pp2,…] [--ranks-are threads,processes] [--json]
//   mpirun -n 2 bench_scaling --mpi …          ranks are the job's, in layouts of as many
//
// Without --model: a random BART of 7 + 7 layers, 512 wide, which is made and removed again. Fails
// if tokens depend on the layout, or a rank exchanges other than the model says
// (support/scaling_work.h).
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "benchmarks/support/command_line.h"
#include "benchmarks/support/random_bart.h"
#include "benchmarks/support/scaling_ranks.h"
#include "benchmarks/support/scaling_report.h"
#include "parallel/communicators/mpi_session.h"

namespace {

using namespace tandem;
using namespace tandem::bench;
namespace fs = std::filesystem;

constexpr random_bart::Size kSize{7, 512, 8, 2048, 8192, 512};
// The head reads as much as a layer, so stages of a decode step are equal.
const std::vector<std::string> kStages{"11,3", "9,2,2,1"};

struct Options {
  std::string model, make;
  std::vector<std::string> layouts{"1",   "tp2", "pp2",    "dp2",    "tp4",
                                   "pp4", "dp4", "tp2pp2", "tp2dp2", "pp2dp2"};
  std::vector<std::string> kinds{"strong", "weak"}, ranks_are{"threads", "processes"};
  std::vector<std::string> stages;
  int batch = 16, weak_batch = 6, source_tokens = 32, new_tokens = 24, rounds = 2, repeat = 3;
  int cores = 0;
  bool mpi = false, as_json = false;
};

std::vector<std::vector<int32_t>> layers_of(const Options& o) {
  std::vector<std::vector<int32_t>> out;
  for (const std::string& text : o.stages.empty() && o.model.empty() ? kStages : o.stages) {
    std::istringstream in(text);
    out.emplace_back();
    for (std::string number; std::getline(in, number, ',');)
      out.back().push_back(std::stoi(number));
  }
  return out;
}

void bind_to_cores(int count) {
  cpu_set_t all, some;
  if (sched_getaffinity(0, sizeof all, &all) != 0) throw std::runtime_error("sched_getaffinity");
  CPU_ZERO(&some);
  for (int core = 0; core < CPU_SETSIZE && CPU_COUNT(&some) < count; ++core)
    if (CPU_ISSET(core, &all)) CPU_SET(core, &some);
  if (CPU_COUNT(&some) < count) throw std::runtime_error("--cores: there are fewer");
  if (sched_setaffinity(0, sizeof some, &some) != 0) throw std::runtime_error("sched_setaffinity");
}

// Tokens by the size of the batch: all layouts say the same.
class Tokens {
 public:
  void check(const LayoutRun& run, const std::vector<RankResult>& ranks) {
    std::vector<std::vector<int32_t>> tokens;
    const int group = run.layout.group(), last = group - run.layout.tp;
    const auto batch = static_cast<size_t>(run.shape.batch);
    for (int g = 0; g < run.layout.dp; ++g) {
      const RankResult& result = ranks.at(static_cast<size_t>(g * group + last));
      for (size_t i = 0; i < result.tokens.size(); ++i)
        if (result.tokens[i] != result.tokens[i % batch])
          throw std::runtime_error(run.layout.name() + ": another round, other tokens");
      tokens.insert(tokens.end(), result.tokens.begin(),
                    result.tokens.begin() + static_cast<std::ptrdiff_t>(batch));
    }
    const auto [it, fresh] = by_batch_.emplace(tokens.size(), tokens);
    if (it->second != tokens) throw std::runtime_error(run.layout.name() + ": other tokens");
  }

 private:
  std::map<size_t, std::vector<std::vector<int32_t>>> by_batch_;
};

class Bench {
 public:
  Bench(const Options& options, fs::path model)
      : o_(options), model_(std::move(model)), layers_(layers_of(options)) {}

  void run() {
    std::vector<ScalingRow> rows;
    for (const std::string& name : o_.layouts)
      for (const std::string& kind : o_.kinds)
        for (const std::string& are : o_.ranks_are) rows.push_back(row_of(name, kind, are));
    for (int i = 0; i < o_.repeat; ++i)
      for (ScalingRow& row : rows) {  // in turns: the machine's speed drifts
        const OthersTime others;
        auto ranks =
            row.ranks_are == "threads" ? run_as_threads(row.run) : run_as_processes(row.run);
        take(row, ranks, others.share());
      }
    if (!o_.as_json) print(rows);
  }

  void run_in_job(MpiSession& session) {
    const int size = session.size();
    std::vector<ScalingRow> rows;
    for (const std::string& name : o_.layouts)
      for (const std::string& kind : o_.kinds)
        if (parse_layout(name).ranks() == size) rows.push_back(row_of(name, kind, "processes"));
    for (int i = 0; i < o_.repeat; ++i)
      for (ScalingRow& row : rows) {
        const int group = row.run.layout.group();
        std::shared_ptr<Communicator> comm = session.make_communicator({}, group);
        const int rank = session.rank();
        const std::string own = told(run_rank(row.run, rank, comm, [&] { session.barrier(); }));
        std::vector<RankResult> all;
        for (int r = 0; r < size; ++r) {
          std::string text = own;
          session.broadcast(text, r);
          all.push_back(heard(text));
        }
        take(row, all, 0, rank == 0);
      }
    if (session.rank() == 0 && !o_.as_json) print(rows);
  }

 private:
  ScalingRow row_of(const std::string& name, const std::string& kind, const std::string& are) {
    const ScalingLayout layout = parse_layout(name, layers_);
    const int batch = kind == "strong" ? o_.batch : o_.weak_batch * layout.ranks();
    if (batch % layout.dp != 0) throw std::runtime_error(name + ": groups of equal batches");
    return {kind, are,
            prepare_run(model_, layout,
                        {.batch = batch / layout.dp,
                         .source_tokens = o_.source_tokens,
                         .new_tokens = o_.new_tokens,
                         .rounds = o_.rounds + 1})};
  }

  // others: their share of the cores meanwhile.
  void take(ScalingRow& row, const std::vector<RankResult>& ranks, double others,
            bool says = true) {
    check_traffic(row.run, ranks);
    tokens_.check(row.run, ranks);
    if (o_.as_json && says) std::printf("%s\n", json_text(json_of(row, ranks, others)).c_str());
    std::fflush(stdout);
    row.add(ranks);
  }

  static void print(std::vector<ScalingRow>& rows) {
    std::printf("%s", kScalingHead);
    for (ScalingRow& row : rows) std::printf("%s\n", row.text().c_str());
  }

  const Options& o_;
  fs::path model_;
  std::vector<std::vector<int32_t>> layers_;
  Tokens tokens_;
};

int run(const Options& o) {
  if (!o.make.empty()) {
    random_bart::write(o.make, kSize, 1);
    return 0;
  }
  if (o.cores > 0) bind_to_cores(o.cores);
  const std::unique_ptr<MpiSession> session = o.mpi ? std::make_unique<MpiSession>() : nullptr;
  const bool first = session == nullptr || session->rank() == 0;
  std::string model = o.model;
  if (model.empty() && first) {
    model = fs::temp_directory_path() / ("tandem-bench-scaling-" + std::to_string(getpid()));
    random_bart::write(model, kSize, 1);
  }
  if (session != nullptr) session->broadcast(model, 0);
  Bench bench(o, model);
  if (session == nullptr) {
    bench.run();
  } else {
    bench.run_in_job(*session);
    session->barrier();
  }
  if (o.model.empty() && first) fs::remove_all(model);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  CommandLine app("Scaling over ranks: strong (one batch) and weak (a batch for each rank).");
  app.add("--model", o.model, "checkpoint directory of a BART; default: a random one");
  app.add("--make", o.make, "write the random BART there, and nothing else");
  app.add("--layouts", o.layouts, "tp, pp and dp with their ranks, as in tp2pp2").list();
  app.add("--scaling", o.kinds, "strong, weak").list();
  app.add("--ranks-are", o.ranks_are, "threads, processes").list();
  app.add("--pipeline-layers", o.stages,
          "layers of each stage, a list for each number of stages, as in 11,3 9,2,2,1; "
          "default: as a server plans");
  app.add("--batch", o.batch, "strong scaling: requests");
  app.add("--weak-batch", o.weak_batch, "weak scaling: requests for each rank");
  app.add("--source-tokens", o.source_tokens);
  app.add("--new-tokens", o.new_tokens).range(2, 512);
  app.add("--rounds", o.rounds, "batches of a run, behind one that is not measured").range(1, 100);
  app.add("--repeat", o.repeat, "runs of each layout, in turns; the median counts").range(1, 1000);
  app.add("--cores", o.cores, "the first so many cores only; 0: all");
  app.flag("--mpi", o.mpi, "ranks are the processes of an MPI job");
  app.flag("--json", o.as_json, "a line of JSON for each run, with every step");
  if (const auto status = app.parse(argc, argv)) return *status;
  try {
    return run(o);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_scaling: %s\n", e.what());
    return 1;
  }
}
