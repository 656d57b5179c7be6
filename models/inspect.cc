// Counts what a checkpoint holds, and estimates what it takes: the weights in a compute type, and
// the cache per token. Scratch memory of a step is not in it.
#include "models/inspect.h"

#include <array>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <system_error>

#include "base/strings/printable.h"
#include "models/family.h"
#include "models/model.h"
#include "parallel/layers/element_types.h"
#include "text/languages.h"
#include "text/tokenizer.h"

namespace tandem {
namespace fs = std::filesystem;

std::string human_bytes(uint64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  char text[32];
  std::snprintf(text, sizeof(text), unit == 0 ? "%.0f %s" : "%.1f %s", value, kUnits[unit]);
  return text;
}

namespace {

using Memory = InspectReport::Memory;

constexpr std::array<uint64_t, 2> kExampleRequests = {1, 32};
constexpr std::array kShownTypes = {DType::kF32, DType::kBF16, DType::kI8, DType::kI4};
constexpr size_t kMaxCompared = 4;  // matrices of the embedding's shape: a file may have any number

// Of a type of floats, whether layers take it or convert it.
bool is_float(const HostTensor& t) {
  return is_layer_type(t) || (becomes_float(t) && t.dtype_name().starts_with("float"));
}

uint64_t elements(const HostTensor& t) {
  uint64_t count = 1;
  for (const int64_t d : t.shape) count *= static_cast<uint64_t>(d);
  return count;
}

// Tied tensors have the same bytes (a pickle stores them once), or, with tied embeddings, equal
// matrices of the embedding's shape.
bool same_values(const HostTensor& a, const HostTensor& b, const ModelConfig& config) {
  if (a.dtype_name() != b.dtype_name() || a.shape != b.shape) return false;
  if (a.data == b.data) return true;
  return config.tie_word_embeddings && a.shape == Shape{config.vocab_size, config.d_model} &&
         std::memcmp(a.data, b.data, a.bytes) == 0;
}

// "encoder" is one of the parts of its name.
bool of_encoder(const std::string& name) {
  return ("." + name).find(".encoder.") != std::string::npos;
}

void count_tensors(const ModelConfig& config, const Checkpoint& checkpoint, InspectReport& out) {
  std::map<std::string, InspectReport::Type> types;
  std::map<const std::byte*, const HostTensor*> by_address;
  std::vector<const HostTensor*> embeddings;
  out.tensors = checkpoint.tensors().size();
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    bool tied = false;
    if (const auto [it, fresh] = by_address.try_emplace(tensor.data, &tensor); !fresh)
      tied = tensor.bytes > 0 && same_values(tensor, *it->second, config);
    if (!tied && tensor.shape == Shape{config.vocab_size, config.d_model}) {
      for (const HostTensor* other : embeddings) tied = tied || same_values(tensor, *other, config);
      if (embeddings.size() < kMaxCompared) embeddings.push_back(&tensor);
    }
    if (tied) {
      ++out.tied_tensors;
      continue;
    }
    InspectReport::Type& type = types[tensor.dtype_name()];
    ++type.tensors;
    type.bytes += tensor.bytes;
    if (!is_float(tensor)) continue;
    out.parameters += elements(tensor);
    if (of_encoder(name)) out.encoder_parameters += elements(tensor);
  }
  for (auto& [name, type] : types) {
    type.name = name;
    out.types.push_back(type);
  }
}

// In int4 the encoder's weights are int8, and a scale belongs to each 32 of the others.
uint64_t weight_bytes(const InspectReport& report, DType dtype) {
  if (dtype != DType::kI4) return report.parameters * size_of(dtype);
  return report.encoder_parameters + (report.parameters - report.encoder_parameters) * 17 / 32;
}

Memory memory(const ModelLimits& limits, const InspectReport& report, DType dtype) {
  Memory m;
  m.dtype = name_of(dtype);
  m.weight_bytes = weight_bytes(report, dtype);
  const size_t element = size_of(kv_cache_dtype(dtype));
  m.self_bytes_per_token = static_cast<uint64_t>(limits.self_cache_values_per_token) * element;
  m.cross_bytes_per_token = static_cast<uint64_t>(limits.cross_cache_values_per_token) * element;
  return m;
}

void add_memory_of_types(const ModelLimits& limits, InspectReport& out) {
  for (const DType t : kShownTypes) out.memory.push_back(memory(limits, out, t));
  const uint64_t scales = 2 * static_cast<uint64_t>(limits.cache_heads_per_token) *
                          size_of(*page_scale_type(DType::kI8));
  out.int8_self_bytes_per_token =
      static_cast<uint64_t>(limits.self_cache_values_per_token) + scales;
  out.int8_cross_bytes_per_token =
      static_cast<uint64_t>(limits.cross_cache_values_per_token) + scales;
}

std::string human_count(uint64_t n) {
  char text[48];
  if (n < 1'000'000)
    std::snprintf(text, sizeof(text), "%llu", static_cast<unsigned long long>(n));
  else
    std::snprintf(text, sizeof(text), "%.1f million", static_cast<double>(n) / 1e6);
  return text;
}

// Lines of a name and a value, values aligned.
class Lines {
 public:
  void add(const std::string& name, const std::string& value) {
    text_ +=
        name + std::string(name.size() < kWidth ? kWidth - name.size() : 1, ' ') + value + "\n";
  }
  const std::string& text() const { return text_; }

 private:
  static constexpr size_t kWidth = 14;
  std::string text_;
};

std::string stack(int layers, int heads, int ffn) {
  return std::to_string(layers) + " layers, " + std::to_string(heads) + " heads, feed-forward " +
         std::to_string(ffn);
}

std::string count_or_any(int n) { return n > 0 ? std::to_string(n) : "any number"; }

void add_shapes(const InspectReport& r, Lines& lines) {
  lines.add("encoder", stack(r.encoder_layers, r.encoder_attention_heads, r.encoder_ffn_dim));
  lines.add("decoder", stack(r.decoder_layers, r.decoder_attention_heads, r.decoder_ffn_dim));
  lines.add("width", std::to_string(r.d_model));
  lines.add("vocabulary", std::to_string(r.vocab_size));
  const std::string encoder = count_or_any(r.encoder_positions),
                    decoder = count_or_any(r.decoder_positions);
  lines.add("positions", encoder == decoder ? encoder : encoder + " + " + decoder);
}

std::string cache_line(uint64_t of_self, uint64_t of_cross) {
  return "cache " + human_bytes(of_self) + " for each decoder token, " + human_bytes(of_cross) +
         " for each encoder token";
}

void add_memory(const InspectReport& r, Lines& lines) {
  const auto encoder = static_cast<uint64_t>(r.encoder_positions),
             decoder = static_cast<uint64_t>(r.decoder_positions);
  for (const Memory& m : r.memory) {
    lines.add("in " + m.dtype, "weights " + human_bytes(m.weight_bytes));
    lines.add("", cache_line(m.self_bytes_per_token, m.cross_bytes_per_token));
    if (encoder == 0 || decoder == 0) continue;
    for (uint64_t n : kExampleRequests)
      lines.add("", "cache of " + std::to_string(n) + (n == 1 ? " request" : " requests") +
                        " of full length (" + std::to_string(encoder) + " + " +
                        std::to_string(decoder) +
                        " tokens): " + human_bytes(m.cache_bytes(n, encoder, decoder)));
  }
  lines.add("", "--kv-cache-dtype int8: " +
                    cache_line(r.int8_self_bytes_per_token, r.int8_cross_bytes_per_token));
}

// Ranks of a group that hold the same layers; each a share of them, or all.
struct RanksOfStage {
  std::string name;
  Stage stage;
  int first, count, shares;
};

std::vector<RanksOfStage> ranks_of_stages(const InspectReport& r) {
  std::vector<RanksOfStage> out;
  int rank = 0;
  for (const Stage& stage : r.stages) {
    out.push_back(
        {"stage " + std::to_string(out.size()), stage, rank, r.ranks_of_stage, r.ranks_of_stage});
    rank += r.ranks_of_stage;
  }
  if (r.encoder_alone) out.push_back({"encoders", *r.encoder_alone, rank, r.encoder_ranks, 1});
  return out;
}

// What each rank of a group holds.
void add_stages(const InspectReport& r, Lines& lines) {
  for (const auto& [name, stage, first, count, shares] : ranks_of_stages(r)) {
    lines.add(name, (count > 1 ? "ranks " + std::to_string(first) + " to " +
                                     std::to_string(first + count - 1)
                               : "rank " + std::to_string(first)) +
                        ": " + stage.text() + ", " + human_count(stage.parameters) + " parameters");
    std::string bytes;
    for (const DType type : kShownTypes)
      bytes += (bytes.empty() ? "weights on each rank: " : ", ") +
               human_bytes(stage.bytes_of_rank(type, shares)) + " in " + name_of(type);
    lines.add("", bytes);
  }
}

nlohmann::ordered_json stages_json(const InspectReport& r) {
  auto out = nlohmann::ordered_json::array();
  for (const auto& [name, stage, first, count, shares] : ranks_of_stages(r)) {
    auto& to = out.emplace_back();
    for (int i = 0; i < count; ++i) to["ranks"].push_back(first + i);
    to["encoder_layers"] = {stage.encoder.begin, stage.encoder.end};
    to["decoder_layers"] = {stage.decoder.begin, stage.decoder.end};
    to["parameters"] = stage.parameters;
    for (const DType type : kShownTypes)
      to["weight_bytes_of_rank"][name_of(type)] = stage.bytes_of_rank(type, shares);
  }
  return out;
}

// What the configuration says; sizes that it does not have under a known name are 0.
InspectReport of_config(const ModelConfig& config) {
  InspectReport out;
  out.directory = config.directory.string();
  out.architecture = config.architecture;
  out.model_type = config.model_type;
  out.supported = is_supported(config);
  out.vocab_size = config.vocab_size;
  out.d_model = config.d_model;
  out.max_position_embeddings = config.max_position_embeddings;
  const ModelLimits limits = limits_of(config);
  out.encoder_positions = limits.encoder_positions.value_or(0);
  out.decoder_positions = limits.decoder_positions.value_or(0);
  out.encoder_layers = config.encoder_layers;
  out.encoder_attention_heads = config.encoder_attention_heads;
  out.encoder_ffn_dim = config.encoder_ffn_dim;
  out.decoder_layers = config.decoder_layers;
  out.decoder_attention_heads = config.decoder_attention_heads;
  out.decoder_ffn_dim = config.decoder_ffn_dim;
  out.generation = config.generation;
  out.tasks = task_params(config);
  return out;
}

// A tokenizer that cannot be read is no matter here: loading the model says why.
void add_languages(const fs::path& directory, InspectReport& out) {
  try {
    const auto tokenizer = load_tokenizer(directory);
    const LanguageSet& languages = tokenizer->languages();
    out.languages = languages.names();
    out.source_language = languages.default_source();
    out.has_source_language = languages.has_source();
  } catch (const InputError&) {
  }
}

std::string dumped(const nlohmann::json& value) {
  return printable(value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
}

void add_requests(const InspectReport& r, Lines& lines) {
  for (const auto& [key, value] : r.generation.items())
    lines.add("default", printable(key) + " = " + dumped(value));
  for (const auto& [name, task] : r.tasks) {
    std::string settings = task.prefix.empty() ? "" : "prefix " + in_quotes(task.prefix);
    for (const auto& [key, value] : task.generation.items())
      settings += (settings.empty() ? "" : ", ") + printable(key) + " = " + dumped(value);
    lines.add("task", printable(name) + (settings.empty() ? "" : ": " + settings));
  }
  if (r.languages.empty()) return;
  std::string names;
  for (const std::string& name : r.languages) names += (names.empty() ? "" : " ") + printable(name);
  lines.add("languages", std::to_string(r.languages.size()) + " of " +
                             (r.has_source_language ? "source and target: " : "the target: ") +
                             names);
  if (!r.source_language.empty())
    lines.add("", "source unless named: " + printable(r.source_language));
}

}  // namespace

InspectReport inspect(const ModelConfig& config, const Checkpoint& checkpoint) {
  InspectReport out = of_config(config);
  out.directory = checkpoint.location();
  out.format = checkpoint.format();
  for (const fs::path& file : checkpoint.files()) {
    std::error_code error;
    const auto size = fs::file_size(file, error);
    out.files.push_back({file.filename().string(), error ? 0 : size});
  }
  count_tensors(config, checkpoint, out);
  const ModelLimits limits = limits_of(config);
  if (out.supported && limits.hidden_size > 0 && limits.self_cache_values_per_token > 0)
    add_memory_of_types(limits, out);
  return out;
}

InspectReport inspect(const fs::path& directory) {
  const ModelConfig config = ModelConfig::load(directory);
  try {
    InspectReport out = inspect(config, Checkpoint::open(directory));
    add_languages(directory, out);
    return out;
  } catch (const InputError& e) {
    if (is_supported(config)) throw;
    InspectReport out = of_config(config);
    out.unreadable = e.what();
    return out;
  }
}

std::string to_text(const InspectReport& r) {
  Lines lines;
  lines.add("checkpoint", r.directory);
  lines.add("architecture", printable(r.architecture) + " (" + printable(r.model_type) + ")");
  if (!r.supported) lines.add("supported", "no");
  if (!r.unreadable.empty()) {
    lines.add("weights", "not read: " + r.unreadable);
    return lines.text();
  }
  lines.add("format", r.format);
  for (const auto& f : r.files) lines.add("file", f.name + ", " + human_bytes(f.bytes));
  for (const auto& t : r.types)
    lines.add("tensors", std::to_string(t.tensors) + " of " + t.name + ", " + human_bytes(t.bytes));
  if (r.tied_tensors > 0) lines.add("tied", std::to_string(r.tied_tensors) + " further names");
  lines.add("parameters", human_count(r.parameters));
  if (!r.memory.empty()) {
    add_shapes(r, lines);
    add_memory(r, lines);
  }
  add_stages(r, lines);
  add_requests(r, lines);
  return lines.text();
}

nlohmann::ordered_json to_json(const InspectReport& r) {
  nlohmann::ordered_json out = {{"directory", r.directory},
                                {"architecture", r.architecture},
                                {"model_type", r.model_type},
                                {"supported", r.supported},
                                {"format", r.format},
                                {"tensors", r.tensors},
                                {"tied_tensors", r.tied_tensors},
                                {"parameters", r.parameters}};
  if (!r.unreadable.empty()) out["unreadable"] = r.unreadable;
  for (const auto& f : r.files) out["files"].push_back({{"name", f.name}, {"bytes", f.bytes}});
  out["dtypes"] = nlohmann::ordered_json::object();
  for (const auto& t : r.types)
    out["dtypes"][t.name] = {{"tensors", t.tensors}, {"bytes", t.bytes}};
  out["shapes"] = {{"vocab_size", r.vocab_size},
                   {"d_model", r.d_model},
                   {"max_position_embeddings", r.max_position_embeddings},
                   {"encoder_layers", r.encoder_layers},
                   {"encoder_attention_heads", r.encoder_attention_heads},
                   {"encoder_ffn_dim", r.encoder_ffn_dim},
                   {"decoder_layers", r.decoder_layers},
                   {"decoder_attention_heads", r.decoder_attention_heads},
                   {"decoder_ffn_dim", r.decoder_ffn_dim}};
  out["generation"] = r.generation;
  for (const auto& [name, task] : r.tasks) {
    out["tasks"][name] = task.generation;
    if (!task.prefix.empty()) out["tasks"][name]["prefix"] = task.prefix;
  }
  if (r.has_source_language) out["source_languages"] = r.languages;
  if (!r.languages.empty()) out["target_languages"] = r.languages;
  if (!r.source_language.empty()) out["default_source_language"] = r.source_language;
  if (!r.memory.empty())
    out["int8_cache"] = {{"self_cache_bytes_per_token", r.int8_self_bytes_per_token},
                         {"cross_cache_bytes_per_token", r.int8_cross_bytes_per_token}};
  if (!r.stages.empty()) out["stages"] = stages_json(r);
  out["memory"] = nlohmann::ordered_json::object();
  for (const Memory& m : r.memory) {
    auto& to = out["memory"][m.dtype];
    to = {{"weight_bytes", m.weight_bytes},
          {"self_cache_bytes_per_token", m.self_bytes_per_token},
          {"cross_cache_bytes_per_token", m.cross_bytes_per_token}};
    for (uint64_t n : kExampleRequests)
      to["cache_bytes_" + std::to_string(n) + (n == 1 ? "_request" : "_requests")] =
          m.cache_bytes(n, static_cast<uint64_t>(r.encoder_positions),
                        static_cast<uint64_t>(r.decoder_positions));
  }
  return out;
}

}  // namespace tandem
