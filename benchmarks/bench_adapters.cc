// What adapters cost: the same batch with and without them, in turns, in one engine. Random
// adapters of q_proj and v_proj, which requests ask for one after the other.
//   bench_adapters --model DIR [--dtype float32] [--adapters 8] [--rank 16] [--requests 32]
//                  [--source-tokens 64] [--new-tokens 64] [--repeat 5] [--threads N]
// The model is a BART (make_random_bart).
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "benchmarks/support/command_line.h"
#include "runtime/engine/llm_engine.h"
#include "runtime/protocol/json/options_reader.h"
#include "runtime/protocol/json/prompt_reader.h"
#include "tests/support/adapters/adapter_writer.h"

namespace {

using namespace tandem;
using nlohmann::json;

struct Options {
  std::string model, dtype = "float32";
  int adapters = 8, rank = 16, requests = 32, source_tokens = 64, new_tokens = 64, repeat = 5,
      threads = 0;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void write_adapter(const test::TempDir& dir, const ModelConfig& model, int rank, uint64_t seed) {
  tandem::testing::AdapterWriter writer;
  writer.config["r"] = rank;
  writer.config["lora_alpha"] = 1;  // small, so that the model stays a model
  writer.config["target_modules"] = {"q_proj", "v_proj"};
  const auto add = [&](const std::string& attention) {
    for (const char* projection : {".q_proj", ".v_proj"})
      writer.add_linear(attention + projection, model.d_model, model.d_model, rank, seed);
  };
  for (int i = 0; i < model.encoder_layers; ++i)
    add("model.encoder.layers." + std::to_string(i) + ".self_attn");
  for (int i = 0; i < model.decoder_layers; ++i)
    for (const char* attention : {".self_attn", ".encoder_attn"})
      add("model.decoder.layers." + std::to_string(i) + attention);
  writer.write(dir);
}

// Seconds of the batch. adapters: 0: the base alone.
double run_batch(LLMEngine& engine, const Options& o, int adapters, uint32_t seed) {
  std::mt19937 rng(seed);
  const ModelConfig& config = engine.model_config();
  std::uniform_int_distribution<int> id(4, config.vocab_size - 2);
  proto::GenerationOptions options = read_options({{"max_tokens", o.new_tokens},
                                                   {"min_tokens", o.new_tokens},
                                                   {"num_beams", 1},
                                                   {"do_sample", false},
                                                   {"no_repeat_ngram_size", 0},
                                                   {"ignore_eos", true},
                                                   {"forced_eos_token_id", nullptr}});
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < o.requests; ++i) {
    std::vector<int> ids(static_cast<size_t>(o.source_tokens));
    for (int& one : ids) one = id(rng);
    if (adapters > 0) options.set_lora("a" + std::to_string(i % adapters));
    engine.add_request(std::to_string(i), read_prompt({{"prompt_token_ids", ids}}), options);
  }
  while (engine.has_unfinished_requests()) engine.step();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

int run(const Options& o) {
  const ModelConfig model = ModelConfig::load(o.model);
  EngineConfig config;
  config.mutable_loading()->set_model(o.model);
  config.mutable_loading()->set_threads(o.threads);
  config.mutable_loading()->set_dtype(o.dtype);
  config.mutable_cache()->set_kv_cache_memory(size_t{1} << 30);
  std::vector<std::unique_ptr<test::TempDir>> directories;
  for (int i = 0; i < o.adapters; ++i) {
    directories.push_back(std::make_unique<test::TempDir>());
    write_adapter(*directories.back(), model, o.rank, static_cast<uint64_t>(i + 1));
    proto::AdapterModule& module = *config.mutable_adapters()->add_modules();
    module.set_name("a" + std::to_string(i));
    module.set_path(directories.back()->path().string());
  }
  LLMEngine engine(config);
  for (const int adapters : {0, o.adapters}) run_batch(engine, o, adapters, 1);
  std::vector<double> base, adapted, ratios;
  for (int i = 0; i < o.repeat; ++i) {
    const auto seed = static_cast<uint32_t>(2 + i);
    base.push_back(run_batch(engine, o, 0, seed));
    adapted.push_back(run_batch(engine, o, o.adapters, seed));
    ratios.push_back(adapted.back() / base.back());
  }
  std::printf(
      "%s, %d requests of %d tokens, %d new ones: %.3f s; with %d adapters of rank %d: "
      "%.3f s; %.1f %% more\n",
      o.dtype.c_str(), o.requests, o.source_tokens, o.new_tokens, median(base), o.adapters, o.rank,
      median(adapted), 100 * (median(ratios) - 1));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  bench::CommandLine app("Times a batch with and without adapters.");
  app.add("--model", o.model, "checkpoint directory of a BART").required();
  app.add("--dtype", o.dtype, "to compute in");
  app.add("--adapters", o.adapters, "different ones");
  app.add("--rank", o.rank, "of each");
  app.add("--requests", o.requests, "in the batch");
  app.add("--source-tokens", o.source_tokens, "of a request");
  app.add("--new-tokens", o.new_tokens, "to generate");
  app.add("--repeat", o.repeat, "runs; the median counts");
  app.add("--threads", o.threads, "0: one per core");
  if (const auto status = app.parse(argc, argv)) return *status;
  try {
    return run(o);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_adapters: %s\n", e.what());
    return 1;
  }
}
