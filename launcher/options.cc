#include "launcher/options.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "launcher/commands/command.h"
#include "launcher/help.h"
#include "launcher/hub/hub.h"
#include "launcher/speculation_options.h"

namespace tandem::launcher {
namespace {

constexpr int kDraftsLookedUp = 8;
constexpr int kDraftsOfModel = 5;  // vLLM's examples have as many

enum class Kind { kInt, kFloat, kFlag, kJson, kString };

struct Flag {
  const char* name;  // without "--"; the JSON key is the same with underscores
  Kind kind;
  const char* help;
};

// The text of each flag is docs/parameters.md's in short.
constexpr Flag kFlags[] = {
    {"max-new-tokens", Kind::kInt, "Generate at most that many tokens, as HuggingFace counts them"},
    {"max-tokens", Kind::kInt, "Generate at most that many tokens, as vLLM counts them"},
    {"max-length", Kind::kInt, "Let the decoder's sequence, prompt included, be at most that long"},
    {"min-new-tokens", Kind::kInt,
     "Do not end before that many tokens, as HuggingFace counts them"},
    {"min-tokens", Kind::kInt, "Do not end before that many tokens, as vLLM counts them"},
    {"min-length", Kind::kInt, "Do not end before the decoder's sequence is that long"},
    {"source-lang", Kind::kString,
     "Name the language of the texts, as HuggingFace does (src_lang)"},
    {"target-lang", Kind::kString, "Name the language of the output (tgt_lang)"},
    {"task", Kind::kString,
     "Take the prefix and the parameters of that task, of the model's task_specific_params"},
    {"split", Kind::kString,
     "Compute a text in parts: auto (only one that is too long), sentences, paragraphs or none"},
    {"merge", Kind::kString,
     "Make one text of the answers to parts: join them, or write a summary of them"},
    {"num-beams", Kind::kInt, "Search with that many beams; 1 is greedy decoding or sampling"},
    {"n", Kind::kInt, "Return that many sequences"},
    {"num-return-sequences", Kind::kInt, "Return that many sequences (HuggingFace's name)"},
    {"best-of", Kind::kInt, "Sample that many sequences and return the n best of them"},
    {"do-sample", Kind::kFlag, "Sample, instead of taking the most likely token"},
    {"temperature", Kind::kFloat, "Divide the logits by it; above 1 the output varies more"},
    {"top-k", Kind::kInt, "Sample among the k most likely tokens only"},
    {"top-p", Kind::kFloat,
     "Sample among the most likely tokens that have this probability together"},
    {"min-p", Kind::kFloat,
     "Leave out tokens below that share of the most likely token's probability"},
    {"repetition-penalty", Kind::kFloat, "Make repeated tokens less likely (above 1)"},
    {"presence-penalty", Kind::kFloat, "Subtract it from the logits of tokens that were generated"},
    {"frequency-penalty", Kind::kFloat, "Subtract it for each time that a token was generated"},
    {"no-repeat-ngram-size", Kind::kInt, "Generate no n-gram of that size twice"},
    {"encoder-no-repeat-ngram-size", Kind::kInt, "Generate no n-gram of that size of the input"},
    {"length-penalty", Kind::kFloat, "Divide the scores of beams by their length to this power"},
    {"early-stopping", Kind::kJson, "Say when beam search ends: true, false or \"never\""},
    {"bad-words-ids", Kind::kJson, "Never generate these token sequences, as in [[5],[7,8]]"},
    {"bad-words", Kind::kJson, "Never generate these texts: a JSON list, or one text"},
    {"allowed-token-ids", Kind::kJson, "Generate nothing but these tokens, as in [5,7]"},
    {"logit-bias", Kind::kJson, "Add to the logits of tokens, as in {\"5\":-2.5}"},
    {"suppress-tokens", Kind::kJson, "Never generate these tokens, as in [5,7]"},
    {"begin-suppress-tokens", Kind::kJson, "Do not begin with one of these tokens, as in [5,7]"},
    {"forced-bos-token-id", Kind::kInt, "Begin with that token"},
    {"forced-eos-token-id", Kind::kInt, "End with that token where the greatest length is reached"},
    {"stop", Kind::kJson, "End before one of these texts: a JSON list, or one text"},
    {"stop-token-ids", Kind::kJson, "End at one of these tokens, as in [5,7]"},
    {"ignore-eos", Kind::kFlag, "Go on behind the end-of-sequence token"},
    {"logprobs", Kind::kInt, "Tell log-probabilities of the k most likely tokens (JSON output)"},
    {"prompt-logprobs", Kind::kInt, "Tell them for the decoder's prompt as well (JSON output)"},
    {"truncate-prompt-tokens", Kind::kInt,
     "Cut longer inputs to that many tokens; -1 cuts them to what the model takes"},
    {"allow-empty-prompt", Kind::kFlag, "Generate from an empty text too, instead of refusing it"},
    {"include-stop-str-in-output", Kind::kFlag, "Keep the text that ended the output"},
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
  const Heading heading(app, "Model");
  CLI::Option* option =
      app.add_option(names, model, "Directory of a HuggingFace checkpoint, or its id at the hub");
  app.add_option("--revision", revision, "Branch, tag or commit of a model at the hub")
      ->capture_default_str();
  app.add_option("--download-dir", download_dir,
                 "Cache of models from the hub, if not HuggingFace's (HF_HUB_CACHE, HF_HOME)")
      ->type_name("DIR");
  return option->type_name("DIR|ORG/NAME");
}

void ModelOptions::add_model_argument(CLI::App& app) {
  argument_option_ = app.add_option("MODEL", argument_,
                                    "Directory of a HuggingFace checkpoint, or its id at the hub")
                         ->type_name("DIR|ORG/NAME");
}

void ModelOptions::settle_model(std::vector<std::string>* rest, bool elsewhere) {
  const bool given = argument_option_ != nullptr && !argument_option_->empty();
  argument_option_ = nullptr;
  if (!given) return;
  if (model.empty() && !elsewhere) {
    if (argument_.empty()) throw UsageError("MODEL", "is empty");
    model = argument_;
    first_is_model = true;
  } else if (rest != nullptr) {
    rest->insert(rest->begin(), argument_);
  } else {
    throw UsageError("MODEL", "is given twice: " + argument_ + ", and --model " + model);
  }
}

std::filesystem::path ModelOptions::find_model(hub::ModelFiles part,
                                               const std::function<bool()>& stop) const {
  return hub::find_model({model, revision, download_dir, part}, hub::Settings::from_environment(),
                         stop);
}

void EngineOptions::add_model(CLI::App& app) {
  add_model_flags(app, "--model")->required();
  const Heading heading(app, "Device");
  app.add_option("--device", config.device,
                 "Where to compute: auto (a GPU where there is one), cpu, cuda or cuda:N")
      ->capture_default_str();
  app.add_option("--dtype", dtype,
                 "Type to compute in: float32, float16 (GPUs only), bfloat16, int8 or int4 (CPUs "
                 "only; int4 is for small batches), or auto, the checkpoint's own 16-bit type "
                 "where the device has it, else float32")
      ->capture_default_str();
  app.add_option(
         "--quantization", quantization,
         "How a GPU stores the weights of linear layers: none, int8, int4 or fp8; on a CPU, use "
         "--dtype int8 or int4 instead")
      ->capture_default_str();
  app.add_option("--threads", config.threads, "Number of compute threads; 0 is one per core")
      ->capture_default_str();
}

void EngineOptions::add_engine(CLI::App& app) {
  const Heading heading(app, "Engine");
  app.add_option("--max-num-seqs", config.max_num_seqs, "Run at most that many sequences at once")
      ->capture_default_str();
  app.add_option("--max-num-batched-tokens", config.max_num_batched_tokens,
                 "Compute at most that many tokens in a step, encoder and decoder together")
      ->capture_default_str();
  app.add_option("--block-size", config.block_size, "Tokens in a block of the KV cache")
      ->capture_default_str();
  app.add_option("--kv-cache-memory", kv_cache_memory,
                 "Memory of the KV cache, as in 4GiB; without it, by need and by what is free")
      ->type_name("BYTES");
  app.add_option("--kv-cache-dtype", kv_cache_dtype,
                 "Type of keys and values: auto; on a CPU int8, which takes half of bfloat16's "
                 "memory and time to read; on a GPU of compute capability 8.9 or above fp8 (the "
                 "same as fp8_e4m3), which takes half the memory")
      ->capture_default_str();
  app.add_option("--gpu-memory-utilization", config.gpu_memory_utilization,
                 "Share of a GPU's memory to use; the KV cache takes what weights leave of it")
      ->capture_default_str();
  app.add_flag("--enforce-eager", config.enforce_eager,
               "Run every step on a GPU kernel by kernel, never as a recorded graph");
  app.add_option("--cudagraph-capture-sizes", config.cudagraph_capture_sizes,
                 "Numbers of sequences for which a GPU's steps of decoding are recorded at start, "
                 "as in 1,8,64; 0 is none; without it, all up to --max-num-seqs, or 512")
      ->delimiter(',')
      ->allow_extra_args(false)  // what stands behind it may be a text
      ->type_name("N,N,");
  app.add_option("--gemm-tuning", gemm_tuning,
                 "off, or on: time several algorithms at the first product of each size on a GPU, "
                 "and keep the fastest, in the user's cache too")
      ->capture_default_str();
  app.add_option("--num-gpu-blocks-override", config.num_gpu_blocks_override,
                 "Number of KV cache blocks on the device, whichever device it is");
  app.add_option("--swap-space", swap_space, "Host memory for requests that had to make room")
      ->type_name("BYTES")
      ->capture_default_str();
  app.add_option("--preemption-mode", preemption, "How requests make room: auto, recompute or swap")
      ->capture_default_str();
  app.add_flag("--enable-prefix-caching,!--no-enable-prefix-caching", config.enable_prefix_caching,
               "Keep the KV cache of decoder prompts for requests that begin alike (as it is), or "
               "do not");
  app.add_flag("--enable-encoder-cache,!--no-enable-encoder-cache", config.enable_encoder_cache,
               "Keep the encoder's result for requests with the same input (as it is), or do not");
  app.add_option("--num-speculative-tokens", num_speculative_tokens,
                 "Guess up to that many tokens of a sequence from its source and its text so far, "
                 "where that saves time, and verify them in one step; tokens stay the same (CPUs "
                 "only, there 8 without this flag; 0: off)");
  app.add_option("--draft-model", draft_model,
                 "A smaller model of the same vocabulary, which guesses as well: a directory or an "
                 "id at the hub; without --num-speculative-tokens, up to 5 tokens (CPUs only)")
      ->type_name("DIR|ORG/NAME");
  app.add_option("--speculative-config", speculative_config,
                 "The same as a JSON object with vLLM's names: method (ngram or draft_model), "
                 "model, num_speculative_tokens, prompt_lookup_min, prompt_lookup_max, "
                 "disable_by_batch_size, draft_cost")
      ->type_name("JSON");
  app.add_option("--seed", config.seed,
                 "Seed of requests that have none; without it, a random one");
}

EngineConfig EngineOptions::parse() const {
  EngineConfig c = config;
  std::string drafts_by = draft_model;
  c.drafts_if_possible =
      !num_speculative_tokens && draft_model.empty() && speculative_config.empty();
  c.speculation.num_tokens =
      num_speculative_tokens.value_or(draft_model.empty() ? kDraftsLookedUp : kDraftsOfModel);
  if (!speculative_config.empty()) read_speculation(speculative_config, c.speculation, drafts_by);
  c.draft_model = drafts_by;
  c.model = model;
  using Dtypes = std::vector<std::pair<std::string, std::optional<DType>>>;
  c.dtype = choose(Dtypes{{"auto", std::nullopt},
                          {"float32", DType::kF32},
                          {"float16", DType::kF16},
                          {"half", DType::kF16},
                          {"bfloat16", DType::kBF16},
                          {"int8", DType::kI8},
                          {"int4", DType::kI4},
                          {"float", DType::kF32}},
                   dtype, "--dtype");
  c.kv_cache_dtype = choose(Dtypes{{"auto", std::nullopt},
                                   {"int8", DType::kI8},
                                   {"fp8", DType::kF8E4M3},
                                   {"fp8_e4m3", DType::kF8E4M3}},
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
  find_draft_model(config);
  return config;
}

void EngineOptions::find_draft_model(EngineConfig& config,
                                     const std::function<bool()>& stop) const {
  if (config.draft_model.empty()) return;
  config.draft_model = hub::find_model(
      {config.draft_model.string(), "main", download_dir, hub::ModelFiles::kCheckpoint},
      hub::Settings::from_environment(), stop);
}

void SamplingOptions::add(CLI::App& app, std::string_view without) {
  const Heading heading(app,
                        "Generation parameters (without them, the model's generation_config.json)");
  for (const Flag& flag : kFlags)
    if (flag.name != without) add_only(app, {flag.name});
}

void SamplingOptions::add_only(CLI::App& app, std::initializer_list<std::string_view> names) {
  for (const Flag& flag : kFlags) {
    if (std::find(names.begin(), names.end(), flag.name) == names.end()) continue;
    const std::string name = std::string("--") + flag.name, key = key_of(flag.name);
    if (flag.kind == Kind::kFlag) {
      app.add_flag_callback(
          name, [this, key] { params_[key] = true; }, flag.help);
      continue;
    }
    CLI::Option* option = app.add_option_function<std::string>(
        name,
        [this, key, flag](const std::string& text) { params_[key] = parse_value(flag, text); },
        flag.help);
    option->type_name(flag.kind == Kind::kInt      ? "INT"
                      : flag.kind == Kind::kFloat  ? "FLOAT"
                      : flag.kind == Kind::kString ? "NAME"
                                                   : "JSON");
  }
}

}  // namespace tandem::launcher
