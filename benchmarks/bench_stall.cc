// How long running streams stand still when long encoder inputs come in: the longest time between
// two tokens of a stream, without and with such inputs. An encoder is not divided, so a step that
// runs one takes as long as it takes; docs/design/scheduling.md §2 says that each stream is held up
// by one of them between two of its tokens, however many wait.
//   bench_stall --model DIR [--streams 8] [--source-tokens 1024] [--sources 1,4] [--budgets
//   512,2048]
//               [--repeat 5] [--threads N]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "benchmarks/support/command_line.h"
#include "runtime/engine/llm_engine.h"

namespace {

using namespace tandem;
using nlohmann::json;
using Clock = std::chrono::steady_clock;

struct Options {
  std::string model, dtype = "float32";
  int streams = 8, source_tokens = 1024, repeat = 5, threads = 0;
  std::vector<int> sources{1, 4}, budgets{512, 2048};
};

double since(Clock::time_point t) {
  return std::chrono::duration<double, std::milli>(Clock::now() - t).count();
}

json source(std::mt19937& random, const ModelConfig& config, int tokens) {
  std::uniform_int_distribution<int> id(4, config.vocab_size - 2);
  std::vector<int> ids{config.bos_token_id};
  while (static_cast<int>(ids.size()) < tokens - 1) ids.push_back(id(random));
  ids.push_back(config.eos_token_id.at(0));
  return {{"prompt_token_ids", ids}};
}

json params(int tokens) {
  return {{"max_tokens", tokens},
          {"min_tokens", tokens},
          {"ignore_eos", true},
          {"num_beams", 1},
          {"do_sample", false},
          {"no_repeat_ngram_size", 0},
          {"forced_eos_token_id", nullptr}};
}

// Milliseconds between two tokens of a stream.
struct Gaps {
  std::vector<double> usual;  // before the long inputs
  double longest = 0;         // from their arrival until all of them have their first token
};

class Run {
 public:
  Run(LLMEngine& engine, const Options& o, std::mt19937& random)
      : engine_(engine), o_(o), random_(random) {}

  Gaps measure(int long_inputs) {
    Gaps gaps;
    const std::string prefix = std::to_string(round_++) + "-";
    for (int i = 0; i < o_.streams; ++i)
      engine_.add_request(prefix + "s" + std::to_string(i),
                          source(random_, engine_.model_config(), 64), params(96));
    std::map<std::string, Clock::time_point> last;
    int started = 0;
    std::vector<double>* into = nullptr;
    engine_.stream_to([&](const proto::RequestChunk& chunk) {
      if (chunk.outputs_size() == 0 || chunk.outputs(0).token_ids_size() == 0) return;
      const std::string& id = chunk.request_id();
      const bool known = last.count(id) > 0;
      if (known && into != nullptr && id.find('s') != std::string::npos)
        into->push_back(since(last[id]));
      if (!known && id.find('l') != std::string::npos) ++started;
      last[id] = Clock::now();
    });
    const auto step = [&](std::vector<double>* gaps_to) {
      into = gaps_to;
      engine_.step();
    };
    for (int i = 0; i < 16; ++i) step(nullptr);
    for (int i = 0; i < 16; ++i) step(&gaps.usual);
    for (int i = 0; i < long_inputs; ++i)
      engine_.add_request(prefix + "l" + std::to_string(i),
                          source(random_, engine_.model_config(), o_.source_tokens), params(2));
    std::vector<double> held;
    while (started < long_inputs) step(&held);
    step(&held);
    gaps.longest = held.empty() ? 0 : *std::max_element(held.begin(), held.end());
    engine_.stream_to({});
    while (engine_.has_unfinished_requests()) engine_.step();
    return gaps;
  }

  // The long input with nothing beside it: the first token's time.
  double alone() {
    const std::string id = std::to_string(round_++) + "-alone";
    engine_.add_request(id, source(random_, engine_.model_config(), o_.source_tokens), params(1));
    const auto begun = Clock::now();
    while (engine_.has_unfinished_requests()) engine_.step();
    return since(begun);
  }

 private:
  LLMEngine& engine_;
  const Options& o_;
  std::mt19937& random_;
  int round_ = 0;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

void run(const Options& o) {
  std::printf(
      "| budget, tokens | long inputs | usual gap, ms | longest gap, ms | long input alone, ms | "
      "ratio |\n"
      "|---|---|---|---|---|---|\n");
  for (const int budget : o.budgets) {
    EngineConfig config;
    config.mutable_loading()->set_model(o.model);
    config.mutable_loading()->set_threads(o.threads);
    config.mutable_loading()->set_dtype(o.dtype);
    config.mutable_scheduling()->set_max_num_batched_tokens(budget);
    LLMEngine engine(config);
    std::mt19937 random(1);
    Run runner(engine, o, random);
    runner.measure(1);  // warm
    for (const int count : o.sources) {
      std::vector<double> usual, longest, alone;
      for (int i = 0; i < o.repeat; ++i) {
        const Gaps gaps = runner.measure(count);
        usual.insert(usual.end(), gaps.usual.begin(), gaps.usual.end());
        longest.push_back(gaps.longest);
        alone.push_back(runner.alone());
      }
      std::printf("| %d | %d | %.1f | %.0f | %.0f | %.2f |\n", budget, count, median(usual),
                  median(longest), median(alone), median(longest) / median(alone));
      std::fflush(stdout);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  bench::CommandLine app("How long streams stand still when long encoder inputs come in");
  app.add("--model", o.model, "directory of a checkpoint").required();
  app.add("--dtype", o.dtype, "float32 or bfloat16");
  app.add("--streams", o.streams, "streams that run");
  app.add("--source-tokens", o.source_tokens, "length of a long input");
  app.add("--sources", o.sources, "how many come at once").list();
  app.add("--budgets", o.budgets, "--max-num-batched-tokens to try").list();
  app.add("--repeat", o.repeat, "rounds");
  app.add("--threads", o.threads, "compute threads; 0: one per core");
  if (const auto status = app.parse(argc, argv)) return *status;
  try {
    run(o);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_stall: %s\n", e.what());
    return 1;
  }
  return 0;
}
