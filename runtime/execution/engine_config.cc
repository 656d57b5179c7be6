#include "runtime/execution/engine_config.h"

#include <sched.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log/log.h"
#include "base/strings/printable.h"
#include "kernels/core/cpu_features.h"
#include "kernels/core/padded_size.h"
#include "kernels/core/plugin.h"
#include "models/config/limits.h"
#include "runtime/execution/attention_choice.h"
#include "runtime/execution/compute_type.h"
#include "runtime/execution/kv_cache.h"
#include "runtime/execution/ranks/rank_device.h"

namespace tandem {
namespace {

constexpr int kMostDrafts = 64, kMostStages = 256;
constexpr int kMostRecorded = 512;  // sequences, unless more are asked for
constexpr const char* kNoF8 = "fp8 needs a GPU of compute capability 8.9 or later";

}  // namespace

void check_range(const char* flag, int64_t value, int64_t least, int64_t most) {
  if (value < least || value > most)
    throw invalid_request(flag, std::to_string(value) + " is out of range, expected " +
                                    std::to_string(least) + " to " + std::to_string(most));
}

namespace {

template <class Value>
using Choices = std::vector<std::pair<const char*, Value>>;
using Dtypes = Choices<std::optional<DType>>;

template <class Value>
Value choose(const Choices<Value>& choices, const std::string& text, const char* flag) {
  std::string names;
  for (const auto& [name, value] : choices) {
    if (name == text) return value;
    names += (names.empty() ? "" : ", ") + std::string(name);
  }
  throw invalid_request(flag, "\"" + text + "\" is not one of " + names);
}

bool tunes_gemms(const EngineConfig& config) {
  return choose(Choices<bool>{{"off", false}, {"on", true}}, config.loading().gemm_tuning(),
                "--gemm-tuning");
}

}  // namespace

std::optional<DType> asked_dtype(const EngineConfig& config) {
  return choose(Dtypes{{"auto", std::nullopt},
                       {"float32", DType::kF32},
                       {"float16", DType::kF16},
                       {"half", DType::kF16},
                       {"bfloat16", DType::kBF16},
                       {"int8", DType::kI8},
                       {"int4", DType::kI4},
                       {"float", DType::kF32}},
                dtype_named(config.loading().dtype()), "--dtype");
}

std::optional<DType> kv_cache_dtype_of(const EngineConfig& config) {
  return choose(Dtypes{{"auto", std::nullopt},
                       {"int8", DType::kI8},
                       {"fp8", DType::kF8E4M3},
                       {"fp8_e4m3", DType::kF8E4M3}},
                config.cache().kv_cache_dtype(), "--kv-cache-dtype");
}

namespace {

std::optional<DType> asked_draft_dtype(const EngineConfig& config) {
  return choose(Dtypes{{"auto", std::nullopt},
                       {"float32", DType::kF32},
                       {"float16", DType::kF16},
                       {"bfloat16", DType::kBF16},
                       {"int8", DType::kI8},
                       {"int4", DType::kI4}},
                dtype_named(config.drafting().draft_dtype()), "--draft-dtype");
}

// How a device stores weights of an integer type.
std::optional<Quantization> weights_in(std::optional<DType> dtype) {
  if (dtype == DType::kI8) return Quantization::kInt8;
  if (dtype == DType::kI4) return Quantization::kInt4;
  return std::nullopt;
}

}  // namespace

StoredType draft_type_of(const EngineConfig& config, const StoredType& of_model, bool on_cpu) {
  const std::optional<DType> asked = asked_draft_dtype(config);
  if (on_cpu) {
    if (asked == DType::kF16) throw not_supported("--draft-dtype", "float16 needs a GPU");
    return {asked.value_or(of_model.dtype == DType::kI4 ? DType::kI4 : DType::kI8),
            of_model.quantization};
  }
  if (!asked) return of_model;
  if (const auto quantization = weights_in(asked)) return {of_model.dtype, *quantization};
  if (*asked != of_model.dtype)
    throw not_supported("--draft-dtype",
                        std::string("a GPU computes drafts in the model's type, ") +
                            name_of(of_model.dtype) + "; their weights may be int8 or int4");
  return {of_model.dtype, Quantization::kNone};
}

Quantization quantization_of(const EngineConfig& config) {
  return choose(Choices<Quantization>{{"none", Quantization::kNone},
                                      {"int8", Quantization::kInt8},
                                      {"int4", Quantization::kInt4},
                                      {"fp8", Quantization::kFp8}},
                config.loading().quantization(), "--quantization");
}

PreemptionMode preemption_of(const EngineConfig& config) {
  return choose(Choices<PreemptionMode>{{"auto", PreemptionMode::kAuto},
                                        {"recompute", PreemptionMode::kRecompute},
                                        {"swap", PreemptionMode::kSwap}},
                config.scheduling().preemption_mode(), "--preemption-mode");
}

namespace {

void check_drafting(const proto::DraftingConfig& drafting) {
  check_range("--num-speculative-tokens", drafting.num_speculative_tokens(), 0, kMostDrafts);
  check_range("--speculative-config: prompt_lookup_max", drafting.prompt_lookup_max(), 1, 64);
  check_range("--speculative-config: prompt_lookup_min", drafting.prompt_lookup_min(), 1,
              drafting.prompt_lookup_max());
  check_range("--speculative-config: disable_by_batch_size", drafting.disable_by_batch_size(), 1,
              1 << 20);
  if (!(drafting.draft_cost() >= 0 && drafting.draft_cost() <= 1))
    throw invalid_request(
        "--speculative-config",
        "draft_cost: " + std::to_string(drafting.draft_cost()) + " is not from 0 to 1");
  if (!drafting.draft_model().empty() && drafting.num_speculative_tokens() == 0)
    throw invalid_request("--draft-model", "it makes no drafts with --num-speculative-tokens 0");
}

void check_adapters(const proto::AdapterConfig& adapters) {
  std::set<std::string> names;
  for (const proto::AdapterModule& module : adapters.modules()) {
    if (module.name().empty() || module.path().empty())
      throw invalid_request("--lora-modules", "an adapter has a name and a directory: NAME=DIR");
    if (!names.insert(module.name()).second)
      throw invalid_request("--lora-modules", in_quotes(module.name()) + " is given twice");
  }
  check_range("--max-loras", adapters.max_loras(), 1, 1 << 16);
  check_range("--max-lora-rank", adapters.max_lora_rank(), 1, 1024);
}

void check_parallel(const EngineConfig& config) {
  const proto::ParallelConfig& parallel = config.parallel();
  const int stages = stages_of(config);
  check_range("--pipeline-parallel-size", stages, 1, kMostStages);
  for (const int layers : parallel.pipeline_layers())
    check_range("--pipeline-layers", layers, 1, 1 << 16);
  if (const int given = parallel.pipeline_layers_size(); given != 0 && given != stages)
    throw invalid_request("--pipeline-layers", "gives layers of " + std::to_string(given) +
                                                   " stages, and "
                                                   "--pipeline-parallel-size is " +
                                                   std::to_string(stages));
  check_range("--encoder-ranks", encoder_ranks_of(config), 0, kMostStages);
  check_range("--expected-input-tokens", parallel.expected_input_tokens(), 0, 1 << 24);
  check_range("--expected-output-tokens", parallel.expected_output_tokens(), 0, 1 << 24);
  const char* flag = stages > 1                     ? "--pipeline-parallel-size"
                     : encoder_ranks_of(config) > 0 ? "--encoder-ranks"
                                                    : nullptr;
  if (flag == nullptr) return;
  if (!config.drafting().draft_model().empty())
    throw not_supported("--draft-model", std::string("does not go with ") + flag + " so far");
}

}  // namespace

void check_config(const EngineConfig& config) {
  const proto::LoadingConfig& loading = config.loading();
  const proto::CacheConfig& cache = config.cache();
  asked_dtype(config);
  kv_cache_dtype_of(config);
  asked_draft_dtype(config);
  quantization_of(config);
  preemption_of(config);
  tunes_gemms(config);
  attention_backend_of(loading);
  check_range("--threads", loading.threads(), 0, 1024);
  check_range("--max-num-seqs", config.scheduling().max_num_seqs(), 1, 1 << 20);
  check_range("--max-num-batched-tokens", config.scheduling().max_num_batched_tokens(), 1, 1 << 24);
  check_range("--block-size", cache.block_size(), 1, 1024);
  check_drafting(config.drafting());
  check_adapters(config.adapters());
  check_parallel(config);
  if (!(cache.gpu_memory_utilization() > 0 && cache.gpu_memory_utilization() <= 1))
    throw invalid_request(
        "--gpu-memory-utilization",
        std::to_string(cache.gpu_memory_utilization()) + " is not above 0 and up to 1");
  for (const int size : loading.cudagraph_capture_sizes())
    check_range("--cudagraph-capture-sizes", size, 0, 1 << 20);
  if (cache.has_num_gpu_blocks_override())
    check_range("--num-gpu-blocks-override", cache.num_gpu_blocks_override(), 1, 1 << 28);
}

namespace {

DType quantized_dtype_of_cpu(const EngineConfig& config) {
  const Quantization quantization = quantization_of(config);
  const std::string name = name_of(quantization);
  if (quantization != Quantization::kInt8 && quantization != Quantization::kInt4)
    throw not_supported("--quantization",
                        name + " needs a GPU; on a CPU use --dtype int8 or --dtype int4");
  const DType type = quantization == Quantization::kInt8 ? DType::kI8 : DType::kI4;
  const DType dtype = asked_dtype(config).value_or(type);
  if (dtype != type && dtype != DType::kBF16)
    throw not_supported("--dtype", std::string(name_of(dtype)) +
                                       " does not go with --quantization " + name +
                                       " on a CPU; give --dtype " + name +
                                       " alone, which has keys and values in bfloat16");
  log_warning("--quantization {0} is for GPUs; on a CPU it is taken for --dtype {0}", name);
  return type;
}

}  // namespace

DType resolve_dtype(const EngineConfig& config, std::optional<DType> checkpoint_dtype) {
  const std::string& device = config.loading().device();
  if (quantization_of(config) != Quantization::kNone &&
      choose_device(device).device == Device::kCpu)
    return quantized_dtype_of_cpu(config);
  const std::optional<DType> asked = asked_dtype(config);
  const bool integers = weights_in(asked).has_value();
  if (asked && !(integers && choose_device(device).device == Device::kCuda)) return *asked;
  if (checkpoint_dtype == DType::kF16 && choose_device(device).device == Device::kCuda)
    return DType::kF16;
  return integers || checkpoint_dtype == DType::kBF16 ? DType::kBF16 : DType::kF32;
}

Quantization resolve_quantization(const EngineConfig& config) {
  const Quantization said = quantization_of(config);
  const auto of_type = weights_in(asked_dtype(config));
  if (!of_type || choose_device(config.loading().device()).device == Device::kCpu) return said;
  if (said != Quantization::kNone && said != *of_type)
    throw not_supported("--quantization", std::string(name_of(said)) +
                                              " does not go with --dtype " + name_of(*of_type));
  return *of_type;
}

namespace {

// Where Tandem keeps what it can do without; "" where the user has no such place.
std::string cache_folder() {
  const auto of = [](const char* variable) -> std::filesystem::path {
    const char* value = std::getenv(variable);
    return value != nullptr && *value == '/' ? value
                                             : "";  // as XDG has it: relative ones do not count
  };
  if (const auto cache = of("XDG_CACHE_HOME"); !cache.empty()) return cache / "tandem";
  if (const auto home = of("HOME"); !home.empty()) return home / ".cache" / "tandem";
  return {};
}

}  // namespace

bool stages_use_devices(const EngineConfig& config) {
  const char* by_host = std::getenv("TANDEM_STAGES_BY_HOST");
  return !names_one_device(config.loading().device()) &&
         (by_host == nullptr || std::strcmp(by_host, "1") != 0);
}

std::unique_ptr<Context> make_context(const EngineConfig& config, DType dtype, int threads,
                                      int rank) {
  const DeviceChoice choice = choose_device(config.loading().device(), rank);
  const bool f8_kv_cache = kv_cache_dtype_of(config) == DType::kF8E4M3;
  const char* problem = nullptr;
  if (f8_kv_cache && choice.device == Device::kCpu)
    throw not_supported("--kv-cache-dtype", kNoF8 + std::string("; a CPU has int8"));
  if (choice.device == Device::kCpu) {
    if (config.loading().device() == "auto" && std::filesystem::exists("/dev/nvidia0"))
      log_warning("the GPU is not used: {}", cuda_problem(rank));
    if (dtype != DType::kF16) return std::make_unique<Context>(threads);
    problem = "float16 needs a GPU; a CPU computes in float32, bfloat16, int8 or int4";
  } else if (dtype == DType::kI8 || dtype == DType::kI4) {
    problem = "a GPU computes in float32, float16 or bfloat16";
  }
  if (problem != nullptr) throw not_supported("--dtype", problem);
  auto backend = cuda_plugin()->make_backend(choice.index);
  if (f8_kv_cache && !backend->f8_pages())
    throw not_supported("--kv-cache-dtype",
                        kNoF8 + ("; this is " + backend->name() + ", which has int8"));
  if (config.loading().batch_invariant()) backend->be_batch_invariant();
  log_info("rank {} computes on {}", rank, backend->name());
  if (tunes_gemms(config))
    backend->tune_products(cache_folder(),
                           [](const std::string& what) { log_warning("--gemm-tuning: {}", what); });
  return std::make_unique<Context>(threads, std::move(backend), dtype);
}

void check_sums_of_ranks(const EngineConfig& config, const Context& ctx, int ranks) {
  // (Of two numbers either order is the same.)
  if (config.loading().batch_invariant() && !ctx.on_cpu() && ranks > 2)
    throw not_supported("--batch-invariant",
                        "with more than two GPUs of tensor parallelism NCCL adds in an order that "
                        "depends on the number of rows");
}

SchedulerConfig scheduler_config(const EngineConfig& config, const CacheSize& cache,
                                 const ModelConfig& model) {
  SchedulerConfig out;
  out.whole_prompts = limits_of(model).whole_prompts;
  out.stages = stages_of(config);
  out.encoder_ranks = encoder_ranks_of(config);
  out.max_num_seqs = config.scheduling().max_num_seqs();
  out.max_num_batched_tokens = config.scheduling().max_num_batched_tokens();
  out.preemption = preemption_of(config);
  out.block_size = config.cache().block_size();
  out.enable_prefix_caching = config.cache().enable_prefix_caching();
  out.enable_encoder_cache = config.cache().enable_encoder_cache();
  out.num_device_blocks = cache.num_device_blocks;
  out.num_host_blocks = cache.num_host_blocks;
  out.beam_vocabulary = cache.beam_vocabulary;
  const proto::DraftingConfig& drafting = config.drafting();
  out.speculation.num_tokens = std::min(drafting.num_speculative_tokens(), cache.max_drafts);
  out.speculation.lookup_min = drafting.prompt_lookup_min();
  out.speculation.lookup_max = drafting.prompt_lookup_max();
  out.speculation.disable_by_batch_size = drafting.disable_by_batch_size();
  out.speculation.draft_cost = drafting.draft_cost();
  out.speculation.draft_model = !drafting.draft_model().empty();
  if (cache.rows_of_a_step > 0) out.speculation.rows_of_a_step = cache.rows_of_a_step;
  return out;
}

std::vector<int> recorded_sizes(const EngineConfig& config) {
  std::vector<int> sizes;
  if (config.loading().enforce_eager()) return sizes;
  const int most = padded_size(config.scheduling().max_num_seqs());
  if (!config.loading().cudagraph_capture_sizes().empty()) {
    for (const int size : config.loading().cudagraph_capture_sizes())
      if (size > 0) sizes.push_back(std::min(padded_size(size), most));
  } else {
    for (int size = 1; size <= std::min(most, kMostRecorded); size = padded_size(size + 1))
      sizes.push_back(size);
  }
  std::sort(sizes.rbegin(), sizes.rend());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

int default_threads() {
  cpu_set_t set{};
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1u, std::thread::hardware_concurrency());
}

size_t parse_bytes(const std::string& text, const std::string& flag) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  std::string unit(rest, end);
  for (char& c : unit) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  double scale = unit.empty() || unit == "b" ? 1 : 0;
  for (int i = 0; i < 4; ++i) {
    const std::string prefix(1, "kmgt"[i]);
    if (unit == prefix || unit == prefix + "ib") scale = std::ldexp(1.0, 10 * (i + 1));
    if (unit == prefix + "b") scale = std::pow(1000.0, i + 1);
  }
  if (error != std::errc() || scale == 0 || !(number >= 0) || number * scale > std::ldexp(1.0, 60))
    throw invalid_request(flag,
                          "\"" + text + "\" is not a size; write 4GiB, 512M or a number of bytes");
  return static_cast<size_t>(number * scale);
}

}  // namespace tandem
