#include "models/adapters/adapter.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/strings/printable.h"
#include "models/checkpoint/checkpoint.h"
#include "parallel/layers/element_types.h"

namespace tandem {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kPrefix = "base_model.model.";
// The base's own weight and bias, which PEFT stores beside changes of embeddings and heads. The
// bias may have been trained.
constexpr std::string_view kBaseWeight = ".base_layer.weight", kBaseBias = ".base_layer.bias";

// What a tensor is for its module, by the end of its name.
struct Ending {
  std::string_view text;
  std::optional<HostTensor> ModuleChange::*member;
};
constexpr Ending kEndings[] = {{".lora_A.weight", &ModuleChange::a},
                               {".lora_B.weight", &ModuleChange::b},
                               {".lora_embedding_A", &ModuleChange::a},
                               {".lora_embedding_B", &ModuleChange::b},
                               {".lora_B.bias", &ModuleChange::b_bias},
                               {".lora_magnitude_vector.weight", &ModuleChange::magnitude},
                               {".lora_magnitude_vector", &ModuleChange::magnitude},
                               {kBaseBias, &ModuleChange::bias},
                               {".weight", &ModuleChange::weight},
                               {".bias", &ModuleChange::bias}};

fs::path find_weights(const fs::path& directory) {
  std::error_code error;
  if (!fs::is_directory(directory, error))
    throw invalid_model(directory.string(), "is not a directory");
  const fs::path file = directory / "adapter_model.safetensors";
  if (fs::exists(file, error)) return file;
  const bool pickle = fs::exists(directory / "adapter_model.bin", error);
  throw invalid_model(file.string(),
                      pickle ? "is missing; adapter_model.bin is a pickle, which is not read: save "
                               "the adapter with safe_serialization"
                             : "is missing");
}

}  // namespace

Adapter Adapter::open(const fs::path& directory, const std::string& base, int max_rank) {
  const fs::path file = find_weights(directory);
  Adapter out;
  out.config_ = AdapterConfig::load(directory, max_rank);
  out.base_ = base.empty() ? base : base + ".";
  out.file_ = file.string();
  out.mapped_ = MappedFile::open(file);
  for (HostTensor& t :
       read_safetensors(out.mapped_->data(), out.mapped_->size(), out.file_, out.mapped_))
    out.add(std::move(t));
  if (out.changes_.empty()) throw invalid_model(out.file_, "has no tensors of an adapter");
  for (auto& [module, change] : out.changes_) {
    out.check(module, change);
    out.by_plain_name_[out.plain(module)] = module;
  }
  return out;
}

void Adapter::add(HostTensor tensor) {
  const std::string_view name = tensor.name;
  if (!name.starts_with(kPrefix))
    throw invalid_model(file_, "tensor " + printable(tensor.name) + " does not begin with " +
                                   std::string(kPrefix) + ", so it is none of PEFT's");
  const bool trained = config_.trained_biases != AdapterConfig::TrainedBiases::kNone;
  if (name.ends_with(kBaseWeight) || (name.ends_with(kBaseBias) && !trained)) return;
  if (!is_layer_type(tensor)) {
    if (!becomes_float(tensor))
      throw invalid_model(file_, "tensor " + printable(tensor.name) + " has type " +
                                     tensor.dtype_name() + ", which does not become float32");
    tensor = as_float(tensor);
  }
  for (const auto& [ending, member] : kEndings) {
    if (!name.ends_with(ending) || name.size() <= kPrefix.size() + ending.size()) continue;
    const std::string module(
        name.substr(kPrefix.size(), name.size() - kPrefix.size() - ending.size()));
    changes_[module].*member = std::move(tensor);
    return;
  }
  throw invalid_model(file_, "tensor " + printable(tensor.name) +
                                 " is of no kind that Tandem knows of LoRA adapters");
}

// Whether nothing of the module is left to check.
bool Adapter::checks_bias(const std::string& module, const ModuleChange& change) const {
  using Biases = AdapterConfig::TrainedBiases;
  if (!change.bias || change.weight || config_.replaces(module)) return false;
  const bool alone = !change.a && !change.b && !config_.changes(module);
  const Biases biases = config_.trained_biases;
  if (biases == Biases::kNone || (biases == Biases::kOfTargets && alone))
    throw invalid_model(file_, "module " + printable(module) +
                                   ": the file has its bias, but the configuration's `bias` does "
                                   "not say so");
  return alone;
}

void Adapter::check(const std::string& module, ModuleChange& change) const {
  const auto fail = [&](const std::string& what) {
    throw invalid_model(file_, "module " + printable(module) + ": " + what);
  };
  if (checks_bias(module, change)) return;
  if (change.weight || (change.bias && config_.replaces(module))) {
    if (!config_.replaces(module))
      fail("the file has its weight, but modules_to_save does not name it");
    if (!change.weight) fail("has a bias, but no weight");
    if (change.a || change.b) fail("has a weight of its own and changes of low rank");
    return;
  }
  // (PEFT 0.21 saves them, and passes over them when it loads them.)
  if (config_.ties(module) && !module.ends_with("shared"))
    fail("changes of low rank of tables and heads are not supported with ensure_weight_tying");
  const std::string whole = std::string(kPrefix) + module;
  if (!change.a) fail("tensor " + whole + ".lora_A.weight is missing");
  if (!change.b) fail("tensor " + whole + ".lora_B.weight is missing");
  const int rank = config_.rank_of(module);
  if (change.a->shape.size() != 2 || change.a->shape[0] != rank)
    fail("tensor " + change.a->name + " has shape " + to_string(change.a->shape) +
         ", but the configuration says that its rank is " + std::to_string(rank));
  if (change.b->shape.size() != 2 || change.b->shape[1] != rank)
    fail("tensor " + change.b->name + " has shape " + to_string(change.b->shape) +
         ", but the configuration says that its rank is " + std::to_string(rank));
  if (change.magnitude.has_value() != config_.weight_decomposed)
    fail(config_.weight_decomposed ? "tensor " + whole + ".lora_magnitude_vector is missing"
                                   : "has a magnitude vector, but use_dora is off");
  if (change.b_bias && !config_.has_bias) fail("has a bias, but lora_bias is off");
  change.scaling = static_cast<float>(config_.scaling_of(module));
  if (!std::isfinite(change.scaling)) fail("lora_alpha is no number of float32");
}

std::string Adapter::plain(const std::string& module) const {
  return !base_.empty() && module.starts_with(base_) ? module.substr(base_.size()) : module;
}

const ModuleChange* Adapter::find(const std::string& module) {
  const auto it = by_plain_name_.find(plain(module));
  return it == by_plain_name_.end() ? nullptr : &changes_.at(it->second);
}

size_t Adapter::bytes() const { return mapped_->size(); }

namespace {

void check_shape(const std::optional<HostTensor>& t, const Shape& shape,
                 const std::string& module) {
  if (!t || t->shape == shape) return;
  throw invalid_model(t->file, "tensor " + printable(t->name) + " has shape " +
                                   to_string(t->shape) + ", but " + printable(module) +
                                   " of the base needs " + to_string(shape));
}

void check_shapes(const ModuleChange& change, const AdaptableModule& base) {
  check_shape(change.weight, {base.rows, base.columns}, base.name);
  check_shape(change.bias, {base.rows}, base.name);
  if (base.table && change.bias)
    throw invalid_model(change.bias->file, "tensor " + printable(change.bias->name) +
                                               ": a table of embeddings has no bias");
  if (!change.a) return;
  const int64_t rank = change.a->shape[0];
  const int64_t in = base.table ? base.rows : base.columns;
  const int64_t out = base.table ? base.columns : base.rows;
  check_shape(change.a, {rank, in}, base.name);
  check_shape(change.b, {out, rank}, base.name);
  check_shape(change.b_bias, {out}, base.name);
  check_shape(change.magnitude, {out}, base.name);
  if (base.table && (change.magnitude || change.b_bias))
    throw not_supported(printable(base.name), "embeddings have no DoRA and no lora_bias");
  if (base.table != change.a->name.ends_with(".lora_embedding_A"))
    throw invalid_model(change.a->file,
                        "tensor " + printable(change.a->name) + ": " + printable(base.name) +
                            " of the base is " +
                            (base.table ? "a table of embeddings" : "a linear layer"));
}

// "shared" is the table that a checkpoint has for both sides. What PEFT changes there changes no
// result: the sides look up tokens in encoder.embed_tokens and decoder.embed_tokens.
bool is_unused_table(const std::string& name, const std::map<std::string, AdaptableModule>& known) {
  return name == "shared" && !known.contains(name) && known.contains("encoder.embed_tokens");
}

}  // namespace

void Adapter::check_modules(std::span<const AdaptableModule> modules) const {
  std::map<std::string, AdaptableModule> known;
  for (const AdaptableModule& module : modules) known[plain(module.name)] = module;
  for (const auto& [name, module] : by_plain_name_) {
    const auto it = known.find(name);
    if (is_unused_table(name, known)) continue;
    if (it == known.end())
      throw invalid_model(
          file_, "changes module " + printable(module) +
                     ", which the base does not have, or which Tandem does not "
                     "change" +
                     (config_.base.empty() ? "" : "; it was made for " + printable(config_.base)));
    check_shapes(changes_.at(module), it->second);
  }
  check_targets(known);
}

void Adapter::check_targets(const std::map<std::string, AdaptableModule>& known) const {
  // A target that the base does not have is none of PEFT's errors: lists are shared by models.
  for (const auto& [name, module] : known)
    if (!by_plain_name_.contains(name) &&
        (config_.changes(name) || (!base_.empty() && config_.changes(base_ + name))))
      throw invalid_model(file_, "tensor " + std::string(kPrefix) + printable(module.name) +
                                     ".lora_A.weight is missing, although target_modules names "
                                     "its module");
}

}  // namespace tandem
