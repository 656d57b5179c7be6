#include "launcher/options.h"

#include <filesystem>

#include "kernels/core/error.h"
#include "launcher/hub/hub.h"

namespace tandem::launcher {
namespace {

enum class Kind { kInt, kFloat, kFlag, kJson, kString };

struct Flag {
  const char* name;  // without "--"; the JSON key is the same with underscores
  Kind kind;
  const char* help;
};

// The text of each flag is docs/parameters.md's in short.
constexpr Flag kFlags[] = {
    {"max-new-tokens", Kind::kInt, "most tokens to generate (HuggingFace's count)"},
    {"max-tokens", Kind::kInt, "most tokens to generate (vLLM's count)"},
    {"max-length", Kind::kInt, "most tokens of the decoder sequence, prompt included"},
    {"min-new-tokens", Kind::kInt, "no end before that many tokens (HuggingFace's count)"},
    {"min-tokens", Kind::kInt, "no end before that many tokens (vLLM's count)"},
    {"min-length", Kind::kInt, "no end before the decoder sequence has that many tokens"},
    {"num-beams", Kind::kInt, "beams of beam search; 1: greedy or sampling"},
    {"n", Kind::kInt, "sequences to return"},
    {"num-return-sequences", Kind::kInt, "sequences to return (HuggingFace's name)"},
    {"best-of", Kind::kInt, "sequences to sample, of which the n best are returned"},
    {"do-sample", Kind::kFlag, "sample instead of taking the most likely token"},
    {"temperature", Kind::kFloat, "softmax temperature of sampling"},
    {"top-k", Kind::kInt, "sample among the k most likely tokens"},
    {"top-p", Kind::kFloat, "sample among the most likely tokens of that mass"},
    {"min-p", Kind::kFloat, "drop tokens below that share of the most likely one's probability"},
    {"repetition-penalty", Kind::kFloat, "> 1 makes repeated tokens less likely"},
    {"presence-penalty", Kind::kFloat, "subtracted from tokens that were generated (vLLM)"},
    {"frequency-penalty", Kind::kFloat, "subtracted for each time they were (vLLM)"},
    {"no-repeat-ngram-size", Kind::kInt, "no n-gram of that size twice"},
    {"encoder-no-repeat-ngram-size", Kind::kInt, "no n-gram of that size of the input"},
    {"length-penalty", Kind::kFloat, "exponent of the length in beam scores"},
    {"early-stopping", Kind::kJson, "true, false or \"never\" (beams)"},
    {"bad-words-ids", Kind::kJson, "token sequences that must not appear, e.g. [[5],[7,8]]"},
    {"bad-words", Kind::kJson, "texts that must not appear: a JSON list or one text"},
    {"allowed-token-ids", Kind::kJson, "nothing but these tokens, e.g. [5,7]"},
    {"logit-bias", Kind::kJson, "added to tokens' logits, e.g. {\"5\":-2.5}"},
    {"suppress-tokens", Kind::kJson, "tokens that must not appear, e.g. [5,7]"},
    {"begin-suppress-tokens", Kind::kJson, "tokens that must not come first"},
    {"forced-bos-token-id", Kind::kInt, "the first generated token"},
    {"forced-eos-token-id", Kind::kInt, "the last token when the length limit is reached"},
    {"stop", Kind::kJson, "stop strings: a JSON list or one string"},
    {"stop-token-ids", Kind::kJson, "tokens that end the output, e.g. [5,7]"},
    {"ignore-eos", Kind::kFlag, "go on behind the end-of-sequence token"},
    {"logprobs", Kind::kInt, "log-probabilities of the k most likely tokens (JSON output)"},
    {"prompt-logprobs", Kind::kInt, "the same for the decoder prompt (JSON output)"},
    {"truncate-prompt-tokens", Kind::kInt, "cut the input to that many tokens, end token kept"},
    {"include-stop-str-in-output", Kind::kFlag, "keep the stop string in the text"},
};

std::string key_of(const std::string& name) {
  std::string key = name;
  for (char& c : key)
    if (c == '-') c = '_';
  return key;
}

nlohmann::json parse_value(const Flag& flag, const std::string& text) {
  if (flag.kind == Kind::kString) return text;
  auto value = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (flag.kind == Kind::kJson) return value.is_discarded() ? nlohmann::json(text) : value;
  if (!value.is_number())
    throw invalid_request(std::string("--") + flag.name, "\"" + text + "\" is not a number");
  return value;
}

template <class Map>
auto choose(const Map& choices, const std::string& text, const std::string& flag) {
  std::string names;
  for (const auto& [name, value] : choices) {
    if (name == text) return value;
    names += (names.empty() ? "" : ", ") + std::string(name);
  }
  throw invalid_request(flag, "\"" + text + "\" is not one of " + names);
}

}  // namespace

CLI::Option* ModelOptions::add_model_flags(CLI::App& app, const char* names) {
  CLI::Option* option = app.add_option(
      names, model, "directory of a HuggingFace checkpoint, or its id at the hub (ORG/NAME)");
  app.add_option("--revision", revision, "branch, tag or commit of a model from the hub")
      ->capture_default_str();
  app.add_option("--download-dir", download_dir,
                 "cache of models from the hub; default: HuggingFace's (HF_HUB_CACHE, HF_HOME)")
      ->type_name("DIR");
  return option->type_name("DIR|ID");
}

std::filesystem::path ModelOptions::find_model(hub::Part part,
                                               const std::function<bool()>& stop) const {
  return hub::find_model({model, revision, download_dir, part}, hub::Settings::from_environment(),
                         stop);
}

void EngineOptions::add_model(CLI::App& app) {
  add_model_flags(app, "--model")->required();
  app.add_option("--dtype", dtype,
                 "auto, float32, float16 (GPUs), bfloat16 or int8 (CPUs): what weights and "
                 "products are computed in; auto is the checkpoint's own 16-bit type where the "
                 "device has it, else float32")
      ->capture_default_str();
  app.add_option(
         "--quantization", quantization,
         "none, int8, int4 or fp8: how the weights of linear layers are stored on a GPU; on "
         "a CPU int8 is --dtype int8")
      ->capture_default_str();
  app.add_option("--device", config.device,
                 "auto, cpu, cuda or cuda:N; auto is a GPU where there is one")
      ->capture_default_str();
  app.add_option("--threads", config.threads, "compute threads; 0: one per core")
      ->capture_default_str();
}

void EngineOptions::add_engine(CLI::App& app) {
  app.add_option("--max-num-seqs", config.max_num_seqs, "most sequences that run at once")
      ->capture_default_str();
  app.add_option("--max-num-batched-tokens", config.max_num_batched_tokens,
                 "most tokens of a step, encoder and decoder together")
      ->capture_default_str();
  app.add_option("--block-size", config.block_size, "tokens in a block of the KV cache")
      ->capture_default_str();
  app.add_option("--kv-cache-memory", kv_cache_memory,
                 "memory of the KV cache, e.g. 4GiB; default: by need and by what is free");
  app.add_option("--kv-cache-dtype", kv_cache_dtype,
                 "auto, or fp8 (fp8_e4m3) on GPUs from compute capability 8.9: keys and values in "
                 "half the memory")
      ->capture_default_str();
  app.add_option("--gpu-memory-utilization", config.gpu_memory_utilization,
                 "part of a GPU's memory to use: weights, one step, and the KV cache in the rest")
      ->capture_default_str();
  app.add_flag("--enforce-eager", config.enforce_eager,
               "on a GPU: run every step kernel by kernel, none as a recorded graph");
  app.add_option("--gemm-tuning", gemm_tuning,
                 "off or on; on: the first product of each size on a GPU times several algorithms, "
                 "and the fastest is kept, in the user's cache too")
      ->capture_default_str();
  app.add_option("--num-gpu-blocks-override", config.num_gpu_blocks_override,
                 "blocks of the KV cache on the device, whatever the device is");
  app.add_option("--swap-space", swap_space, "host memory for preempted requests")
      ->capture_default_str();
  app.add_option("--preemption-mode", preemption, "auto, recompute or swap")->capture_default_str();
  app.add_flag("--enable-prefix-caching,!--no-enable-prefix-caching", config.enable_prefix_caching,
               "keep the KV cache of decoder prompts for requests that begin alike; default: on");
  app.add_flag("--enable-encoder-cache,!--no-enable-encoder-cache", config.enable_encoder_cache,
               "keep the encoder's result for requests with the same input; default: on");
  app.add_option("--seed", config.seed, "seed of requests that have none; default: random");
}

EngineConfig EngineOptions::parse() const {
  EngineConfig c = config;
  c.model = model;
  using Dtypes = std::vector<std::pair<std::string, std::optional<DType>>>;
  c.dtype = choose(Dtypes{{"auto", std::nullopt},
                          {"float32", DType::kF32},
                          {"float16", DType::kF16},
                          {"half", DType::kF16},
                          {"bfloat16", DType::kBF16},
                          {"int8", DType::kI8},
                          {"float", DType::kF32}},
                   dtype, "--dtype");
  c.kv_cache_dtype =
      choose(Dtypes{{"auto", std::nullopt}, {"fp8", DType::kF8E4M3}, {"fp8_e4m3", DType::kF8E4M3}},
             kv_cache_dtype, "--kv-cache-dtype");
  using Quantizations = std::vector<std::pair<std::string, Quantization>>;
  c.quantization = choose(Quantizations{{"none", Quantization::kNone},
                                        {"int8", Quantization::kInt8},
                                        {"int4", Quantization::kInt4},
                                        {"fp8", Quantization::kFp8}},
                          quantization, "--quantization");
  if (!kv_cache_memory.empty())
    c.kv_cache_memory = parse_bytes(kv_cache_memory, "--kv-cache-memory");
  c.swap_space = parse_bytes(swap_space, "--swap-space");
  using Modes = std::vector<std::pair<std::string, PreemptionMode>>;
  c.preemption = choose(Modes{{"auto", PreemptionMode::kAuto},
                              {"recompute", PreemptionMode::kRecompute},
                              {"swap", PreemptionMode::kSwap}},
                        preemption, "--preemption-mode");
  c.gemm_tuning = choose(std::vector<std::pair<std::string, bool>>{{"off", false}, {"on", true}},
                         gemm_tuning, "--gemm-tuning");
  c.check();
  return c;
}

EngineConfig EngineOptions::parse_and_find_model() const {
  EngineConfig config = parse();
  config.model = find_model();
  return config;
}

void SamplingOptions::add(CLI::App& app) {
  for (const Flag& flag : kFlags) {
    const std::string name = std::string("--") + flag.name, key = key_of(flag.name);
    CLI::Option* option;
    if (flag.kind == Kind::kFlag) {
      option = app.add_flag_callback(
          name, [this, key] { params_[key] = true; }, flag.help);
    } else {
      option = app.add_option_function<std::string>(
          name,
          [this, key, flag](const std::string& text) { params_[key] = parse_value(flag, text); },
          flag.help);
      option->type_name(flag.kind == Kind::kInt     ? "INT"
                        : flag.kind == Kind::kFloat ? "FLOAT"
                                                    : "JSON");
    }
    option->group("Generation parameters (over the model's generation_config.json)");
  }
}

}  // namespace tandem::launcher
