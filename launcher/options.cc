#include "launcher/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string_view>

#include "base/check.h"
#include "base/error.h"
#include "base/json.h"
#include "launcher/adapter_options.h"
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
  auto value = json_or_discarded<nlohmann::json>(text);
  if (flag.kind == Kind::kJson) return value.is_discarded() ? nlohmann::json(text) : value;
  if (!value.is_number())
    throw invalid_request(std::string("--") + flag.name, "\"" + text + "\" is not a number");
  return value;
}

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

const FieldDescriptor& field_of(const Message& part, const std::string& name) {
  const FieldDescriptor* field = part.GetDescriptor()->FindFieldByName(name);
  TANDEM_CHECK(field != nullptr);
  return *field;
}

// `get` and `set` are those of protobuf::Reflection for fields of this type.
template <class T, class Get, class Set>
CLI::Option* add_value(CLI::App& app, const std::string& flag, Message& part,
                       const FieldDescriptor& field, const char* help, Get get, Set set) {
  CLI::Option* option = app.add_option_function<T>(
      flag,
      [&part, &field, set](const T& value) { (part.GetReflection()->*set)(&part, &field, value); },
      help);
  if (!field.has_default_value()) return option;
  std::ostringstream text;
  text << (part.GetReflection()->*get)(part, &field);
  return option->default_str(text.str());
}

// The flag whose value goes into the field of its name.
CLI::Option* add_field(CLI::App& app, const char* name, Message& part, const char* help) {
  using google::protobuf::Reflection;
  const FieldDescriptor& field = field_of(part, key_of(name));
  const std::string flag = std::string("--") + name;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return add_value<int>(app, flag, part, field, help, &Reflection::GetInt32,
                            &Reflection::SetInt32);
    case FieldDescriptor::CPPTYPE_UINT64:
      return add_value<uint64_t>(app, flag, part, field, help, &Reflection::GetUInt64,
                                 &Reflection::SetUInt64);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return add_value<double>(app, flag, part, field, help, &Reflection::GetDouble,
                               &Reflection::SetDouble);
    case FieldDescriptor::CPPTYPE_STRING:
      return add_value<std::string>(app, flag, part, field, help, &Reflection::GetString,
                                    &Reflection::SetString);
    default: TANDEM_CHECK(false, "a field of a type that no flag has");
  }
  return nullptr;
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
    if (argument_.empty()) throw invalid_request("MODEL", "is empty");
    model = argument_;
    first_is_model = true;
  } else if (rest != nullptr) {
    rest->insert(rest->begin(), argument_);
  } else {
    throw invalid_request("MODEL", "is given twice: " + argument_ + ", and --model " + model);
  }
}

std::string ModelOptions::model_argument() const {
  return first_is_model ? "the first argument, \"" + model + "\", is the model; " : "";
}

std::filesystem::path ModelOptions::find_model(hub::ModelFiles part,
                                               const std::function<bool()>& stop) const {
  return hub::find_model({model, revision, download_dir, part}, hub::Settings::from_environment(),
                         stop);
}

// CLI11 writes flags without a value to a bool and nowhere else.
void EngineOptions::add_switch(CLI::App& app, const char* names, Message& part, const char* field,
                               const char* help) {
  const bool on = part.GetReflection()->GetBool(part, &field_of(part, field));
  app.add_flag(names, switches_.emplace(field, on).first->second, help);
}

void EngineOptions::add_model(CLI::App& app) {
  add_model_flags(app, "--model")->required();
  const Heading heading(app, "Device");
  proto::LoadingConfig& loading = *config.mutable_loading();
  add_field(app, "device", loading,
            "Where to compute: auto (a GPU where there is one), cpu, cuda or cuda:N");
  add_field(app, "dtype", loading,
            "Type to compute in: float32, float16 (GPUs only), bfloat16, int8 or int4 (a GPU "
            "stores weights so; int4 is for small batches), or auto, the checkpoint's own 16-bit "
            "type where the device has it, else float32");
  add_field(app, "quantization", loading,
            "How a GPU stores the weights of linear layers: none, int8, int4 or fp8; on a CPU, use "
            "--dtype int8 or int4 instead");
  add_field(app, "attention-backend", loading,
            "Kernels of attention: auto, the device's fast ones, or reference, plain and slow ones "
            "to compare with");
  add_field(app, "threads", loading, "Number of compute threads; 0 is one per core");
}

namespace {

void add_cache(CLI::App& app, proto::CacheConfig& cache, EngineOptions& options) {
  add_field(app, "block-size", cache, "Tokens in a block of the KV cache");
  app.add_option("--kv-cache-memory", options.kv_cache_memory,
                 "Memory of the KV cache, as in 4GiB; without it, by need and by what is free")
      ->type_name("BYTES");
  add_field(app, "kv-cache-dtype", cache,
            "Type of keys and values: auto; int8, which takes half of bfloat16's memory, and on a "
            "CPU half of its time to read; on a GPU of compute capability 8.9 or above also fp8 "
            "(the same as fp8_e4m3), which takes as much and is less exact");
  add_field(app, "gpu-memory-utilization", cache,
            "Share of a GPU's memory to use; the KV cache takes what weights leave of it");
}

void add_drafting(CLI::App& app, EngineOptions& options) {
  app.add_option("--num-speculative-tokens", options.num_speculative_tokens,
                 "Guess up to that many tokens of a sequence from its source and its text so far, "
                 "where that saves time, and verify them in one step; tokens stay the same (on a "
                 "CPU 8 without this flag, on a GPU 0: off)");
  app.add_option("--draft-model", options.draft_model,
                 "A smaller model of the same vocabulary, which guesses as well: a directory or an "
                 "id at the hub; without --num-speculative-tokens, up to 5 tokens")
      ->type_name("DIR|ORG/NAME");
  add_field(app, "draft-dtype", *options.config.mutable_drafting(),
            "Type that the draft model computes in: float32, float16 (GPUs only), bfloat16, int8, "
            "int4, or auto: on a CPU int8 (or int4 as the model), on a GPU the model's; drafts "
            "change no token");
  app.add_option("--speculative-config", options.speculative_config,
                 "The same as a JSON object with vLLM's names: method (ngram or draft_model), "
                 "model, num_speculative_tokens, prompt_lookup_min, prompt_lookup_max, "
                 "disable_by_batch_size, draft_cost, dtype")
      ->type_name("JSON");
}

}  // namespace

void EngineOptions::add_engine(CLI::App& app) {
  const Heading heading(app, "Engine");
  proto::LoadingConfig& loading = *config.mutable_loading();
  proto::CacheConfig& cache = *config.mutable_cache();
  proto::SchedulingConfig& scheduling = *config.mutable_scheduling();
  add_field(app, "max-num-seqs", scheduling, "Run at most that many sequences at once");
  add_field(app, "max-num-batched-tokens", scheduling,
            "Compute at most that many tokens in a step, encoder and decoder together");
  add_cache(app, cache, *this);
  add_field(app, "vad-model", config,
            "silero_vad_16k.safetensors of the Python package silero-vad, for requests with "
            "vad_filter; without it an installed one is looked for")
      ->type_name("FILE");
  add_switch(app, "--enforce-eager", loading, "enforce_eager",
             "Run every step on a GPU kernel by kernel, never as a recorded graph");
  app.add_option_function<std::vector<int>>(
         "--cudagraph-capture-sizes",
         [&loading](const std::vector<int>& sizes) {
           loading.mutable_cudagraph_capture_sizes()->Assign(sizes.begin(), sizes.end());
         },
         "Numbers of sequences for which a GPU's steps of decoding are recorded at start, "
         "as in 1,8,64; 0 is none; without it, all up to --max-num-seqs, or 512")
      ->delimiter(',')
      ->allow_extra_args(false)  // what stands behind it may be a text
      ->type_name("N,N,");
  add_field(app, "gemm-tuning", loading,
            "off, or on: time several algorithms at the first product of each size on a GPU, "
            "and keep the fastest, in the user's cache too");
  add_switch(
      app, "--batch-invariant", loading, "batch_invariant",
      "On a GPU in 16 bits: give a request the same answer, bit for bit, whatever shares its "
      "batch, as a CPU does; steps take longer");
  add_field(app, "num-gpu-blocks-override", cache,
            "Number of KV cache blocks on the device, whichever device it is");
  app.add_option("--swap-space", swap_space, "Host memory for requests that had to make room")
      ->type_name("BYTES")
      ->capture_default_str();
  add_field(app, "preemption-mode", scheduling, "How requests make room: auto, recompute or swap");
  add_switch(app, "--enable-prefix-caching,!--no-enable-prefix-caching", cache,
             "enable_prefix_caching",
             "Keep the KV cache of decoder prompts for requests that begin alike, and recent "
             "outputs for drafts (as it is), or do not");
  add_switch(app, "--enable-encoder-cache,!--no-enable-encoder-cache", cache,
             "enable_encoder_cache",
             "Keep the encoder's result for requests with the same input (as it is), or do not");
  add_drafting(app, *this);
  add_adapter_flags(app, *config.mutable_adapters());
  add_field(app, "seed", config, "Seed of requests that have none; without it, a random one");
}

EngineConfig EngineOptions::parse() const {
  EngineConfig c = config;
  for (Message* part :
       {static_cast<Message*>(c.mutable_loading()), static_cast<Message*>(c.mutable_cache())})
    for (const auto& [name, on] : switches_)
      if (const FieldDescriptor* field = part->GetDescriptor()->FindFieldByName(name))
        part->GetReflection()->SetBool(part, field, on);
  c.mutable_loading()->set_model(model);
  if (!kv_cache_memory.empty())
    c.mutable_cache()->set_kv_cache_memory(parse_bytes(kv_cache_memory, "--kv-cache-memory"));
  c.mutable_cache()->set_swap_space(parse_bytes(swap_space, "--swap-space"));
  proto::DraftingConfig& drafting = *c.mutable_drafting();
  drafting.set_if_possible(!num_speculative_tokens && draft_model.empty() &&
                           speculative_config.empty());
  drafting.set_num_speculative_tokens(
      num_speculative_tokens.value_or(draft_model.empty() ? kDraftsLookedUp : kDraftsOfModel));
  drafting.set_draft_model(draft_model);
  if (!speculative_config.empty()) read_speculation(speculative_config, drafting);
  check_config(c);
  return c;
}

EngineConfig EngineOptions::parse_and_find_model() const {
  EngineConfig config = parse();
  config.mutable_loading()->set_model(find_model().string());
  find_draft_model(config);
  return config;
}

void EngineOptions::find_draft_model(EngineConfig& config,
                                     const std::function<bool()>& stop) const {
  const std::string& name = config.drafting().draft_model();
  if (name.empty()) return;
  try {
    config.mutable_drafting()->set_draft_model(
        hub::find_model({name, "main", download_dir, hub::ModelFiles::kCheckpoint},
                        hub::Settings::from_environment(), stop)
            .string());
  } catch (const InputError& e) {  // which names "model"
    const std::string_view what = e.what(), named = "model: ";
    throw InputError(
        e.kind(),
        "--draft-model: " + std::string(what.starts_with(named) ? what.substr(named.size()) : what),
        "--draft-model");
  }
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
