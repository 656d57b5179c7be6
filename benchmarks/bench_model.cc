// Whole-model benchmark through the engine, which is a server's, driven in one thread: requests
// that come at once, greedy or with beams, each with a fixed number of new tokens. Prints
// throughput, time to first token, time per output token and peak memory.
//   bench_model --model DIR [--batch 1,8,32] [--source-tokens 256] [--new-tokens 64] [--beams 1]
//               [--repeat 3] [--dtype float32] [--kv-cache-dtype auto] [--threads N]
//               [--requests FILE] [--json]
//               [--frames FILE --num-frames 3000 --frame-width 80 --decoder-prompt IDS]
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "base/json.h"
#include "benchmarks/support/command_line.h"
#include "runtime/engine/llm_engine.h"
#include "runtime/protocol/json/options_reader.h"
#include "runtime/protocol/json/prompt_reader.h"

namespace {

using namespace tandem;
using nlohmann::json;
using Clock = std::chrono::steady_clock;

struct Options {
  std::string model, dtype = "float32", kv_cache_dtype = "auto", requests, frames;
  std::vector<int> decoder_prompt;
  int num_frames = 3000, frame_width = 80;
  std::vector<int> batches{1, 8, 32};
  int source_tokens = 256, new_tokens = 64, beams = 1, repeat = 3, threads = 0;
  int max_num_batched_tokens = 2048, max_num_seqs = 256;
  bool as_json = false;
};

struct Request {
  proto::Prompt prompt;
  int new_tokens;
};

struct Result {
  double seconds = 0, cpu_seconds = 0, ttft = 0, tpot = 0;
  uint64_t tokens = 0;
  std::vector<std::vector<int>> token_ids;
  std::vector<double> latencies;  // seconds, of each request
};

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Of all threads, in user and kernel mode.
double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double peak_rss_mb() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

// Windows of `num_frames` rows of floats, one after the other in a file; taken in turns.
std::vector<Request> frame_requests(const Options& o, int batch) {
  std::ifstream in(o.frames, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  const size_t values = static_cast<size_t>(o.num_frames) * static_cast<size_t>(o.frame_width);
  const size_t windows = bytes.size() / sizeof(float) / values;
  if (windows == 0) throw std::runtime_error("not one window in " + o.frames);
  std::vector<Request> requests;
  for (int i = 0; i < batch; ++i) {
    Request request{{}, o.new_tokens};
    proto::EncoderFrames& frames = *request.prompt.mutable_encoder()->mutable_frames();
    frames.set_num_frames(o.num_frames);
    frames.set_width(o.frame_width);
    frames.mutable_values()->Resize(static_cast<int>(values), 0);
    std::memcpy(frames.mutable_values()->mutable_data(),
                bytes.data() + static_cast<size_t>(i) % windows * values * sizeof(float),
                values * sizeof(float));
    if (!o.decoder_prompt.empty())
      request.prompt.mutable_decoder()->mutable_token_ids()->mutable_ids()->Add(
          o.decoder_prompt.begin(), o.decoder_prompt.end());
    requests.push_back(std::move(request));
  }
  return requests;
}

std::vector<Request> make_requests(const Options& o, const ModelConfig& config, int batch) {
  if (!o.frames.empty()) return frame_requests(o, batch);
  std::vector<Request> requests;
  if (!o.requests.empty()) {
    std::ifstream in(o.requests);
    for (std::string line; std::getline(in, line) && static_cast<int>(requests.size()) < batch;) {
      const json request = json_from<json>(line);
      requests.push_back({read_prompt({{"prompt_token_ids", request.at("encoder_ids")}}),
                          request.value("new_tokens", o.new_tokens)});
    }
    if (static_cast<int>(requests.size()) < batch)
      throw std::runtime_error("too few lines in " + o.requests);
    return requests;
  }
  std::mt19937 rng(1);
  std::uniform_int_distribution<int> id(4, config.vocab_size - 2);
  for (int i = 0; i < batch; ++i) {
    std::vector<int> ids{config.bos_token_id};
    while (static_cast<int>(ids.size()) < o.source_tokens - 1) ids.push_back(id(rng));
    ids.push_back(config.eos_token_id.at(0));
    requests.push_back({read_prompt({{"prompt_token_ids", ids}}), o.new_tokens});
  }
  return requests;
}

json params_of(const Options& o, const Request& request) {
  return {{"max_tokens", request.new_tokens},
          {"min_tokens", request.new_tokens},
          {"num_beams", o.beams},
          {"do_sample", false},
          {"no_repeat_ngram_size", 0},
          {"ignore_eos", true},
          {"forced_eos_token_id", nullptr}};
}

Result run_batch(LLMEngine& engine, const Options& o, const std::vector<Request>& requests) {
  Result result;
  result.token_ids.resize(requests.size());
  result.latencies.resize(requests.size());
  const auto start = Clock::now();
  const double cpu_before = cpu_seconds();
  for (size_t i = 0; i < requests.size(); ++i)
    engine.add_request(std::to_string(i), requests[i].prompt,
                       read_options(params_of(o, requests[i])));
  while (engine.has_unfinished_requests())
    for (const auto& output : engine.step()) {
      if (!output.finished()) continue;
      const auto& c = output.outputs(0);
      const size_t i = std::stoul(output.request_id());
      result.token_ids[i] = {c.token_ids().begin(), c.token_ids().end()};
      result.latencies[i] = since(start);
      result.tokens += static_cast<uint64_t>(c.token_ids_size());
      const auto& m = output.metrics();
      result.ttft += m.time_to_first_token() / static_cast<double>(requests.size());
      result.tpot += (m.total_time() - m.time_to_first_token()) /
                     std::max(1, c.token_ids_size() - 1) / static_cast<double>(requests.size());
    }
  result.seconds = since(start);
  result.cpu_seconds = cpu_seconds() - cpu_before;
  return result;
}

int run(const Options& o) {
  EngineConfig config;
  config.mutable_loading()->set_model(o.model);
  config.mutable_loading()->set_threads(o.threads);
  config.mutable_loading()->set_dtype(o.dtype);
  if (o.kv_cache_dtype == "int8") config.mutable_cache()->set_kv_cache_dtype("int8");
  config.mutable_scheduling()->set_max_num_batched_tokens(o.max_num_batched_tokens);
  // Runs repeat the same requests; bench_caches measures what the caches save.
  config.mutable_cache()->set_enable_encoder_cache(false);
  config.mutable_cache()->set_enable_prefix_caching(false);
  config.mutable_scheduling()->set_max_num_seqs(o.max_num_seqs);
  LLMEngine engine(config);
  json rows = json::array();
  if (!o.as_json)
    std::printf(
        "| batch | tokens/s | TTFT ms | TPOT ms | seconds | peak MB "
        "|\n|---|---|---|---|---|---|\n");
  for (int batch : o.batches) {
    const auto requests = make_requests(o, engine.model_config(), batch);
    Result best;
    for (int i = 0; i < o.repeat; ++i) {
      Result r = run_batch(engine, o, requests);
      if (i == 0 || r.seconds < best.seconds) best = std::move(r);
    }
    const double rate = static_cast<double>(best.tokens) / best.seconds;
    if (o.as_json)
      rows.push_back({{"batch", batch},
                      {"seconds", best.seconds},
                      {"cpu_seconds", best.cpu_seconds},
                      {"tokens_per_second", rate},
                      {"ttft_ms", best.ttft * 1e3},
                      {"tpot_ms", best.tpot * 1e3},
                      {"peak_rss_mb", peak_rss_mb()},
                      {"latencies", best.latencies},
                      {"token_ids", best.token_ids}});
    else
      std::printf("| %d | %.1f | %.2f | %.3f | %.3f | %.0f |\n", batch, rate, best.ttft * 1e3,
                  best.tpot * 1e3, best.seconds, peak_rss_mb());
  }
  if (o.as_json) std::printf("%s\n", json_text((rows.size() == 1 ? rows[0] : rows)).c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  bench::CommandLine app(
      "Times generation through the engine that a server runs, in one thread and without HTTP.");
  app.add("--model", o.model, "checkpoint directory").required();
  app.add("--batch", o.batches, "batch sizes").list();
  app.add("--source-tokens", o.source_tokens, "encoder tokens of a request");
  app.add("--new-tokens", o.new_tokens, "tokens to generate");
  app.add("--beams", o.beams, "of each request");
  app.add("--repeat", o.repeat, "runs; the fastest counts");
  app.add("--dtype", o.dtype, "float32, bfloat16, int8 or int4")
      .one_of({"float32", "bfloat16", "int8", "int4"});
  app.add("--kv-cache-dtype", o.kv_cache_dtype, "auto or int8").one_of({"auto", "int8"});
  app.add("--threads", o.threads, "0: one per core");
  app.add("--max-num-batched-tokens", o.max_num_batched_tokens);
  app.add("--max-num-seqs", o.max_num_seqs);
  app.add("--requests", o.requests,
          "JSONL with encoder_ids, and new_tokens if they differ, instead of random ids");
  app.add("--frames", o.frames, "for models of sound: windows of float32, instead of ids");
  app.add("--num-frames", o.num_frames, "of a window");
  app.add("--frame-width", o.frame_width, "numbers of a frame");
  app.add("--decoder-prompt", o.decoder_prompt, "ids, with --frames").list();
  app.flag("--json", o.as_json, "one JSON object, with the tokens");
  if (const auto status = app.parse(argc, argv)) return *status;
  try {
    return run(o);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_model: %s\n", e.what());
    return 1;
  }
}
