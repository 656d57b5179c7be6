// Generation through the engine on one device, phase by phase: the prompts (encoder and first
// tokens), then steps of the decoder alone, with what they read and compute, to compare with what
// the device can do (benchmarks/gpu/compare_torch.py has the same work for PyTorch). Figures are
// medians, of runs or of their steps, with what a tenth is below (_low) and above (_high); a step's
// period is the host's, from answer to answer, beside the device's own time of it.
//   bench_gpu --model DIR [--device cuda:0] [--dtype bfloat16] [--quantization none]
//             [--batch 1,8,32,64,128] [--beams 1] [--new-tokens 128] [--repeat 5]
// One JSON object a line, one line a batch size.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "benchmarks/support/command_line.h"
#include "runtime/engine/llm_engine.h"

namespace {

using namespace tandem;
using nlohmann::json;
using Clock = std::chrono::steady_clock;

struct Options {
  std::string model, device = "cuda:0", dtype = "bfloat16", quantization = "none",
                     kv_cache_dtype = "auto";
  std::vector<int> batches{1, 8, 32, 64, 128};
  int least_source = 260, most_source = 440, new_tokens = 128, beams = 1, repeat = 5, threads = 0;
  int max_num_batched_tokens = 16384, feed_forward_matrices = 2;
  bool eager = false;
  bool tuning = false;
  bool batch_invariant = false;
  bool processors = false;
};

const std::map<std::string, DType> kTypes = {
    {"float32", DType::kF32}, {"float16", DType::kF16}, {"bfloat16", DType::kBF16}};

// The same for everyone who measures this work; 37 goes through all lengths.
int source_length(const Options& o, int i) {
  return o.least_source + i * 37 % (o.most_source - o.least_source + 1);
}

json prompt_of(const Options& o, const ModelConfig& config, int i) {
  std::mt19937 random(static_cast<unsigned>(i) + 1);
  std::uniform_int_distribution<int> id(4, config.vocab_size - 2);
  std::vector<int> ids(static_cast<size_t>(source_length(o, i)));
  std::generate(ids.begin(), ids.end(), [&] { return id(random); });
  if (config.bos_token_id >= 0) ids.front() = config.bos_token_id;
  ids.back() = config.eos_token_id.at(0);
  return {{"prompt_token_ids", ids}};
}

struct Run {
  double seconds = 0;
  uint64_t tokens = 0;
  std::vector<double> steps;   // seconds of each
  std::vector<double> device;  // of each, the decoder's on the device
};

Run run_batch(LLMEngine& engine, const Options& o, int batch) {
  const json params = {{"max_tokens", o.new_tokens},
                       {"min_tokens", o.processors ? o.new_tokens : 0},
                       {"num_beams", o.beams},
                       {"do_sample", false},
                       {"no_repeat_ngram_size", o.processors ? 3 : 0},
                       {"ignore_eos", true},
                       {"forced_eos_token_id", nullptr}};
  Run run;
  const auto start = Clock::now();
  auto last = start;
  double device = engine.decoder_stats().seconds;
  for (int i = 0; i < batch; ++i)
    engine.add_request(std::to_string(i), prompt_of(o, engine.model_config(), i), params);
  while (engine.has_unfinished_requests()) {
    for (const auto& output : engine.step())
      if (output.finished())
        run.tokens += static_cast<uint64_t>(output.outputs(0).token_ids_size());
    const auto now = Clock::now();
    run.steps.push_back(std::chrono::duration<double>(now - last).count());
    last = now;
    const double until = engine.decoder_stats().seconds;
    run.device.push_back(until - std::exchange(device, until));
  }
  run.seconds = std::chrono::duration<double>(last - start).count();
  if (run.tokens != static_cast<uint64_t>(batch) * static_cast<uint64_t>(o.new_tokens))
    throw std::runtime_error("another number of tokens than was asked for: " +
                             std::to_string(run.tokens));
  return run;
}

double sum_of_sources(const Options& o, int batch) {
  double sum = 0;
  for (int i = 0; i < batch; ++i) sum += source_length(o, i);
  return sum;
}

// Products of the encoder, and of the keys and values that the decoder's layers take from it.
double prompt_flops(const Options& o, const ModelConfig& c, int batch) {
  const double d = c.d_model, inner = c.encoder_ffn_dim, tokens = sum_of_sources(o, batch);
  double attention = 0;
  for (int i = 0; i < batch; ++i) {
    const double n = source_length(o, i);
    attention += 4 * n * n * d;
  }
  return c.encoder_layers *
             (2 * tokens * (4 * d * d + o.feed_forward_matrices * d * inner) + attention) +
         c.decoder_layers * 2 * tokens * 2 * d * d;
}

// What a step of the decoder reads at least: its weights and the vocabulary's once, each sequence's
// keys and values, the source's once for all beams. In the middle of the steps that are timed.
double step_bytes(const Options& o, const ModelConfig& c, int batch, double element) {
  const double d = c.d_model, inner = c.decoder_ffn_dim, layers = c.decoder_layers;
  const double of_layers = o.quantization == "none"   ? element
                           : o.quantization == "int4" ? 0.5 + 4.0 / 128
                                                      : 1.0;
  const double weights = of_layers * layers * (6 * d * d + o.feed_forward_matrices * d * inner) +
                         element * double{d} * c.vocab_size;
  const double of_key = o.kv_cache_dtype == "fp8" ? 1 + 1.0 / 64 : element;  // a scale for a head
  const double keys = sum_of_sources(o, batch) + 0.75 * o.new_tokens * batch * o.beams;
  return weights + of_key * layers * 2 * d * keys;
}

// name, name_low, name_high.
void put_spread(json& row, const std::string& name, std::vector<double> values, double unit) {
  if (values.empty()) return;
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {
    return unit * values[static_cast<size_t>(share * static_cast<double>(values.size() - 1) + 0.5)];
  };
  row[name] = at(0.5);
  row[name + "_low"] = at(0.1);
  row[name + "_high"] = at(0.9);
}

// Of each run's steps the later half of those that only decode.
std::vector<double> late(const Options& o, const std::vector<double>& steps) {
  const auto count = std::max<size_t>(1, (static_cast<size_t>(o.new_tokens) - 1) / 2);
  return {steps.end() - static_cast<long>(std::min(count, steps.size())), steps.end()};
}

json report(const Options& o, const ModelConfig& config, int batch, const std::vector<Run>& runs) {
  std::vector<double> rates, prompts, steps, device;
  for (const Run& run : runs) {
    rates.push_back(static_cast<double>(run.tokens) / run.seconds);
    // All requests are of the same length: what comes before the last ones' other tokens are
    // prompts.
    const size_t decoding = std::min(static_cast<size_t>(o.new_tokens) - 1, run.steps.size());
    prompts.push_back(
        std::accumulate(run.steps.begin(), run.steps.end() - static_cast<long>(decoding), 0.0));
    for (const double x : late(o, run.steps)) steps.push_back(x);
    for (const double x : late(o, run.device)) device.push_back(x);
  }
  json row = {{"engine", "tandem"}, {"dtype", o.dtype}, {"batch", batch}, {"beams", o.beams}};
  row["quantization"] = o.quantization;
  row["kv_cache_dtype"] = o.kv_cache_dtype;
  put_spread(row, "tokens_per_second", rates, 1);
  put_spread(row, "decode_step_ms", steps, 1e3);
  const bool on_device = std::any_of(device.begin(), device.end(), [](double x) { return x > 0; });
  if (on_device) put_spread(row, "decode_device_ms", device, 1e3);
  put_spread(row, "prompts_ms", prompts, 1e3);
  const double bytes =
      step_bytes(o, config, batch, static_cast<double>(size_of(kTypes.at(o.dtype))));
  const double step = row.at(on_device ? "decode_device_ms" : "decode_step_ms").get<double>() / 1e3;
  row["decode_gb_per_second"] = bytes / step / 1e9;  // of the device's time, where it is known
  const double prompt_seconds = row.at("prompts_ms").get<double>() / 1e3;
  row["encoder_tflop_per_second"] =
      prompt_seconds == 0 ? 0 : prompt_flops(o, config, batch) / prompt_seconds / 1e12;
  row["steps"] = runs.back().steps.size();
  return row;
}

int run(const Options& o) {
  EngineConfig config;
  config.mutable_loading()->set_model(o.model);
  config.mutable_loading()->set_device(o.device);
  config.mutable_loading()->set_dtype(name_of(kTypes.at(o.dtype)));
  config.mutable_loading()->set_quantization(o.quantization);
  if (o.kv_cache_dtype == "fp8") config.mutable_cache()->set_kv_cache_dtype("fp8");
  config.mutable_loading()->set_threads(o.threads);
  config.mutable_loading()->set_enforce_eager(o.eager);
  config.mutable_loading()->add_cudagraph_capture_sizes(0);
  config.mutable_loading()->set_gemm_tuning(o.tuning ? "on" : "off");
  config.mutable_loading()->set_batch_invariant(o.batch_invariant);
  config.mutable_scheduling()->set_max_num_batched_tokens(o.max_num_batched_tokens);
  for (const int batch : o.batches)
    config.mutable_loading()->add_cudagraph_capture_sizes(batch * o.beams);
  config.mutable_scheduling()->set_max_num_seqs(
      *std::max_element(o.batches.begin(), o.batches.end()) * o.beams);
  // Runs repeat the same requests.
  config.mutable_cache()->set_enable_encoder_cache(false);
  config.mutable_cache()->set_enable_prefix_caching(false);
  LLMEngine engine(config);
  engine.time_decoder();
  for (const int batch : o.batches) {
    run_batch(engine, o, batch);  // warms up, and records steps
    std::vector<Run> runs;
    for (int i = 0; i < o.repeat; ++i) runs.push_back(run_batch(engine, o, batch));
    std::printf("%s\n", json_text(report(o, engine.model_config(), batch, runs)).c_str());
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  bench::CommandLine app("Times prompts and decoding on one device.");
  app.add("--model", o.model, "checkpoint directory").required();
  app.add("--device", o.device, "auto, cpu, cuda or cuda:N");
  app.add("--dtype", o.dtype, "float32, float16 or bfloat16")
      .one_of({"float32", "float16", "bfloat16"});
  app.add("--quantization", o.quantization, "none, int8, int4 or fp8")
      .one_of({"none", "int8", "int4", "fp8"});
  app.add("--kv-cache-dtype", o.kv_cache_dtype, "auto or fp8").one_of({"auto", "fp8"});
  app.add("--batch", o.batches, "batch sizes").list().range(1, 4096);
  app.add("--least-source", o.least_source, "encoder tokens").range(2, 1 << 20);
  app.add("--most-source", o.most_source, "encoder tokens").range(2, 1 << 20);
  app.add("--new-tokens", o.new_tokens, "tokens to generate").range(2, 1 << 20);
  app.add("--beams", o.beams, "of each request").range(1, 64);
  app.add("--repeat", o.repeat, "timed runs").range(1, 1000);
  app.add("--feed-forward-matrices", o.feed_forward_matrices, "3: gated, as T5 1.1's").range(2, 3);
  app.add("--threads", o.threads, "host threads; 0: one per core");
  app.add("--max-num-batched-tokens", o.max_num_batched_tokens, "most tokens of a step");
  app.flag("--enforce-eager", o.eager, "no recorded steps");
  app.flag("--processors", o.processors,
           "a least length and no repeated trigrams, as summaries have: rows with logits");
  app.flag("--batch-invariant", o.batch_invariant, "rows do not depend on others");
  app.flag("--gemm-tuning", o.tuning, "algorithms of products are measured first");
  if (const auto status = app.parse(argc, argv)) return *status;
  try {
    if (o.least_source > o.most_source)
      throw std::invalid_argument("--least-source is more than --most-source");
    return run(o);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_gpu: %s\n", e.what());
    return 1;
  }
}
