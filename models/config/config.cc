// Reads config.json and generation_config.json. What a family's sizes are, and how they are called,
// is the family's (models/family.h).
#include "models/config/config.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/strings/printable.h"
#include "models/checkpoint/other_formats.h"
#include "models/config/generation_config.h"
#include "models/family.h"

namespace tandem {
namespace fs = std::filesystem;
namespace {

using nlohmann::json;

// transformers writes numbers that JSON does not have as {"__float__": "Infinity"}.
void decode_floats(json& value) {
  if (value.is_object() && value.size() == 1 && value.begin().key() == "__float__" &&
      value.begin()->is_string()) {
    const std::string& name = value.begin()->get_ref<const std::string&>();
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    if (name == "NaN") return void(value = std::numeric_limits<double>::quiet_NaN());
    if (name == "Infinity") return void(value = kInfinity);
    if (name == "-Infinity") return void(value = -kInfinity);
  }
  if (value.is_structured())
    for (json& part : value) decode_floats(part);
}

// A folder of HuggingFace's cache has the checkpoint below snapshots/REVISION.
fs::path checkpoint_below(const fs::path& directory) {
  constexpr int kDepth = 2, kMostEntries = 1000;
  int seen = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error)) {
    if (++seen > kMostEntries) break;
    if (it.depth() >= kDepth) it.disable_recursion_pending();
    if (it->path().filename() == "config.json") return it->path().parent_path();
  }
  return {};
}

// Throws, of a directory without a config.json, what can be said of it.
void explain_missing_config(const fs::path& directory) {
  std::error_code error;
  if (!fs::is_directory(directory, error)) return;
  for (const char* weights : {"model.safetensors", "model.safetensors.index.json",
                              "pytorch_model.bin", "pytorch_model.bin.index.json"})
    if (fs::exists(directory / weights, error))
      throw invalid_model(directory.string(), "no config.json, which belongs to " +
                                                  std::string(weights) +
                                                  ": take it from where the weights come from");
  if (const std::string format = other_format(directory); !format.empty())
    throw invalid_model(directory.string(), "no config.json; this is " + format);
  if (const fs::path below = checkpoint_below(directory); !below.empty())
    throw invalid_model(directory.string(),
                        "no config.json; the checkpoint is in " + below.string());
  throw invalid_model(directory.string(),
                      "no config.json: a HuggingFace checkpoint's directory has one");
}

json load_config_json(const fs::path& directory) {
  const fs::path file = directory / "config.json";
  std::error_code error;
  if (fs::symlink_status(file, error).type() == fs::file_type::not_found)
    explain_missing_config(directory);
  json out = load_python_json(file);
  decode_floats(out);
  return out;
}

class Loader {
 public:
  explicit Loader(const fs::path& directory)
      : raw_(load_config_json(directory)), in_((directory / "config.json").string(), raw_) {
    config_.directory = directory;
  }

  ModelConfig load() {
    const ModelFamily* family = read_family();
    // What is not supported may mean another thing by a key: what can be read is for `inspect`.
    const bool strict = family != nullptr;
    read_all(family, [strict](const auto& read) {
      try {
        read();
      } catch (const InputError&) {
        if (strict) throw;
      }
    });
    config_.raw = std::move(raw_);
    return std::move(config_);
  }

 private:
  template <class Attempt>
  void read_all(const ModelFamily* family, const Attempt& attempt) {
    attempt([&] { read_dtype(); });
    attempt([&] { (family ? *family : ModelFamily()).read_config(in_, config_); });
    const fs::path generation_file = find_generation_config(config_.directory);
    generation_file_ = generation_file.string();
    attempt([&] { config_.generation = load_generation_config(generation_file, raw_); });
    if (family != nullptr && family->change_generation != nullptr)
      family->change_generation(in_, config_.generation);
    attempt([&] { read_special_tokens(family ? family->special_tokens : SpecialTokens()); });
  }

  // Of architectures; what is no name is passed over.
  std::vector<std::string> named_architectures() const {
    std::vector<std::string> names;
    const json* list = in_.find("architectures");
    if (list == nullptr) return names;
    if (!list->is_array())
      in_.fail("architectures",
               "is " + ConfigReader::show(*list) + ", expected a list with a name");
    for (const json& name : *list)
      if (name.is_string()) names.push_back(name.get<std::string>());
    return names;
  }

  // As in HuggingFace model_type decides, and architectures only where that is missing. nullptr:
  // there is no model of that family.
  const ModelFamily* read_family() {
    const std::vector<std::string> names = named_architectures();
    const ModelFamily* family = nullptr;
    if (in_.find("model_type") != nullptr) {
      config_.model_type = in_.string("model_type");
      family = family_of_type(config_.model_type);
    } else {
      for (size_t i = 0; i < names.size() && family == nullptr; ++i)
        family = family_of_architecture(names[i]);
      if (family == nullptr) fail_without_type();
      config_.model_type = family->model_type;
    }
    if (!names.empty()) config_.architecture = names[0];
    if (family == nullptr || family->make == nullptr) return nullptr;
    const auto& known = family->architectures;
    const auto is_known = [&](const std::string& name) {
      return std::find(known.begin(), known.end(), name) != known.end();
    };
    const auto it = std::find_if(names.begin(), names.end(), is_known);
    config_.architecture = it != names.end() ? *it : known.front();
    return family;
  }

  [[noreturn]] void fail_without_type() const {
    const std::string format = other_format(config_.directory);
    in_.fail("model_type", "is missing; it names the model's family, as in \"" +
                               family_of_architecture(architectures().front())->model_type + "\"" +
                               (format.empty() ? "" : "; this is " + format));
  }

  void read_dtype() {
    const char* key = in_.find("dtype") ? "dtype" : "torch_dtype";
    if (in_.find(key) == nullptr) return;
    std::string name = in_.string(key);
    if (name.starts_with("torch.")) name.erase(0, std::string_view("torch.").size());
    for (DType t : {DType::kF32, DType::kF16, DType::kBF16})
      if (name == name_of(t)) config_.checkpoint_dtype = t;
    // Others that weights may have become float32.
    constexpr std::string_view kOthers[] = {"auto",    "float",         "half",       "double",
                                            "float64", "float8_e4m3fn", "float8_e5m2"};
    const bool other = std::find(std::begin(kOthers), std::end(kOthers), name) != std::end(kOthers);
    if (!config_.checkpoint_dtype && !other)
      in_.fail(key, "is " + in_quotes(name) + ", expected float32, float16 or bfloat16");
  }

  // --- Special tokens: ids of the vocabulary -------------------------------------------------

  int token(const json& value, const std::string& file, const std::string& key) const {
    const bool valid = value.is_number_integer() && value >= 0 &&
                       (config_.vocab_size == 0 || value < config_.vocab_size) &&
                       value <= ConfigReader::kMaxRows;
    if (!valid)
      ConfigReader::fail_in(file, key,
                            "is " + ConfigReader::show(value) +
                                ", expected a token id below vocab_size (" +
                                std::to_string(config_.vocab_size) + ")");
    return value.get<int>();
  }

  // The ids of a key: several only where `list` allows it, one as a list too. `otherwise` < 0
  // stands for none; so does one that a smaller vocabulary lacks.
  std::vector<int> tokens(const std::string& key, int otherwise, bool list) const {
    const bool generation = config_.generation.contains(key);
    const json& from = generation ? config_.generation : raw_;
    const std::string& file = generation ? generation_file_ : in_.file();
    std::vector<int> ids;
    if (const auto it = from.find(key); it == from.end()) {
      const bool there = config_.vocab_size == 0 || otherwise < config_.vocab_size;
      if (otherwise >= 0 && there) ids.push_back(otherwise);
    } else if (it->is_array() && (list || it->size() == 1)) {
      for (const json& v : *it) ids.push_back(token(v, file, key));
    } else if (!it->is_null()) {
      ids.push_back(token(*it, file, key));
    }
    return ids;
  }
  int token(const std::string& key, int otherwise) const {
    const std::vector<int> ids = tokens(key, otherwise, false);
    return ids.empty() ? -1 : ids[0];
  }

  using SpecialTokens = ModelFamily::SpecialTokens;
  void read_special_tokens(const SpecialTokens& defaults) {
    config_.bos_token_id = token("bos_token_id", defaults.bos);
    config_.pad_token_id = token("pad_token_id", defaults.pad);
    config_.eos_token_id = tokens("eos_token_id", defaults.eos, true);
    config_.decoder_start_token_id = token("decoder_start_token_id", defaults.decoder_start);
  }

  json raw_;
  ConfigReader in_;
  std::string generation_file_;  // where the generation settings are
  ModelConfig config_;
};

}  // namespace

ModelConfig ModelConfig::load(const fs::path& directory) {
  std::error_code error;
  if (!fs::is_directory(directory, error))
    throw invalid_model(directory.string(), "is not a directory");
  return Loader(directory).load();
}

}  // namespace tandem
