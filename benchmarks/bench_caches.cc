// What the encoder cache and the prefix cache save: the same requests through two engines in one
// process, caches off and on, in turns. Prints time to first token and throughput of both.
//   bench_caches --model DIR [--source-tokens 512] [--decoder-prompt-tokens 256]
//                [--new-tokens 16] [--repeat 5] [--threads N]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "benchmarks/support/command_line.h"
#include "runtime/engine/llm_engine.h"

namespace {

using namespace tandem;
using nlohmann::json;

struct Options {
  std::string model;
  int source_tokens = 512, decoder_prompt_tokens = 256, new_tokens = 16, repeat = 5, threads = 0;
};

struct Case {
  const char* name;
  int requests, sources;  // request i has source i % sources
  int source_tokens;
  int decoder_prompt_tokens;  // 0: the model's own prompt
  bool seen_before;           // all of them have been run once
  bool together;              // or one after the other
};

// Of one run.
struct Times {
  double ttft = 0;        // mean, seconds
  double throughput = 0;  // generated tokens a second
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::vector<int> random_ids(std::mt19937& rng, const ModelConfig& config, int count) {
  std::uniform_int_distribution<int> id(4, config.vocab_size - 2);
  std::vector<int> ids{config.bos_token_id};
  while (static_cast<int>(ids.size()) < count - 1) ids.push_back(id(rng));
  ids.push_back(config.eos_token_id.at(0));
  return ids;
}

std::vector<json> make_prompts(const Case& c, const ModelConfig& config, uint32_t seed) {
  std::mt19937 rng(seed);
  std::vector<json> sources, prompts;
  for (int i = 0; i < c.sources; ++i) {
    json prompt = {
        {"encoder_prompt", {{"prompt_token_ids", random_ids(rng, config, c.source_tokens)}}}};
    if (c.decoder_prompt_tokens > 0)
      prompt["decoder_prompt"] = {
          {"prompt_token_ids", random_ids(rng, config, c.decoder_prompt_tokens)}};
    sources.push_back(std::move(prompt));
  }
  for (int i = 0; i < c.requests; ++i)
    prompts.push_back(sources[static_cast<size_t>(i % c.sources)]);
  return prompts;
}

Times run_requests(LLMEngine& engine, const Options& o, const Case& c,
                   const std::vector<json>& prompts, std::vector<std::vector<int>>& tokens) {
  const json params = {{"max_tokens", o.new_tokens},
                       {"min_tokens", o.new_tokens},
                       {"num_beams", 1},
                       {"do_sample", false},
                       {"no_repeat_ngram_size", 0},
                       {"ignore_eos", true},
                       {"forced_eos_token_id", nullptr}};
  Times times;
  tokens.assign(prompts.size(), {});
  uint64_t generated = 0;
  const auto drain = [&] {
    while (engine.has_unfinished_requests())
      for (const auto& output : engine.step()) {
        if (!output.finished()) continue;
        const auto& ids = output.outputs(0).token_ids();
        tokens[std::stoul(output.request_id())] = {ids.begin(), ids.end()};
        generated += static_cast<uint64_t>(ids.size());
        times.ttft += output.metrics().time_to_first_token() / c.requests;
      }
  };
  const auto start = std::chrono::steady_clock::now();
  for (size_t i = 0; i < prompts.size(); ++i) {
    engine.add_request(std::to_string(i), prompts[i], params);
    if (!c.together) drain();
  }
  drain();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  times.throughput = static_cast<double>(generated) / seconds.count();
  return times;
}

void measure(LLMEngine& off, LLMEngine& on, const Options& o, const Case& c, uint32_t seed) {
  std::vector<double> ttft[2], throughput[2];
  for (int repeat = 0; repeat < o.repeat; ++repeat) {
    // New ones each time: nothing is found but what the case says.
    const auto prompts = make_prompts(c, off.model_config(), seed + static_cast<uint32_t>(repeat));
    std::vector<std::vector<int>> tokens[2];
    for (const int which : {0, 1}) {
      LLMEngine& engine = which == 0 ? off : on;
      if (c.seen_before) run_requests(engine, o, c, prompts, tokens[which]);
      const Times times = run_requests(engine, o, c, prompts, tokens[which]);
      ttft[which].push_back(times.ttft);
      throughput[which].push_back(times.throughput);
    }
    if (tokens[0] != tokens[1]) throw std::runtime_error("the caches change the tokens");
  }
  const double ttft_off = median(ttft[0]), ttft_on = median(ttft[1]);
  const double rate_off = median(throughput[0]), rate_on = median(throughput[1]);
  std::printf("| %s | %.1f | %.1f | %.2f | %.1f | %.1f | %.2f |\n", c.name, ttft_off * 1e3,
              ttft_on * 1e3, ttft_off / ttft_on, rate_off, rate_on, rate_on / rate_off);
  std::fflush(stdout);
}

int run(const Options& o) {
  EngineConfig config;
  config.mutable_loading()->set_model(o.model);
  config.mutable_loading()->set_threads(o.threads);
  config.mutable_loading()->set_dtype(name_of(DType::kF32));
  config.mutable_cache()->set_kv_cache_memory(size_t{1} << 30);
  config.mutable_cache()->set_enable_encoder_cache(false);
  config.mutable_cache()->set_enable_prefix_caching(false);
  LLMEngine off(config);
  config.mutable_cache()->set_enable_encoder_cache(true);
  config.mutable_cache()->set_enable_prefix_caching(true);
  LLMEngine on(config);
  const Case cases[] = {
      {"new sources, one by one", 4, 4, o.source_tokens, 0, false, false},
      {"new sources, 16 at once", 16, 16, o.source_tokens, 0, false, true},
      {"sources seen before, one by one", 4, 4, o.source_tokens, 0, true, false},
      {"sources seen before, 16 at once", 16, 16, o.source_tokens, 0, true, true},
      {"4 new sources, each 4 times, 16 at once", 16, 4, o.source_tokens, 0, false, true},
      {"long decoder prompts seen before, one by one", 4, 4, 16, o.decoder_prompt_tokens, true,
       false},
      {"long decoder prompts seen before, 16 at once", 16, 16, 16, o.decoder_prompt_tokens, true,
       true},
  };
  std::printf(
      "| requests | TTFT ms, off | on | off/on | tokens/s, off | on | on/off |\n"
      "|---|---|---|---|---|---|---|\n");
  uint32_t seed = 1;
  for (const Case& c : cases) measure(off, on, o, c, seed += 1000);
  const CacheStats& stats = on.scheduler().block_manager().cache_stats();
  std::printf(
      "\nencoder results found: %lld of %lld; decoder tokens found: %lld of %lld\n",
      static_cast<long long>(stats.encoder_hits), static_cast<long long>(stats.encoder_queries),
      static_cast<long long>(stats.prefix_hits), static_cast<long long>(stats.prefix_queries));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  bench::CommandLine app(
      "Times requests that repeat, with the caches off and on, through the engine that a server "
      "runs.");
  app.add("--model", o.model, "checkpoint directory").required();
  app.add("--source-tokens", o.source_tokens, "encoder tokens of a request");
  app.add("--decoder-prompt-tokens", o.decoder_prompt_tokens, "of a long decoder prompt");
  app.add("--new-tokens", o.new_tokens, "tokens to generate");
  app.add("--repeat", o.repeat, "runs; the median counts");
  app.add("--threads", o.threads, "0: one per core");
  if (const auto status = app.parse(argc, argv)) return *status;
  try {
    return run(o);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_caches: %s\n", e.what());
    return 1;
  }
}
