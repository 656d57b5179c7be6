// Reads config.json and generation_config.json. What a family's sizes are, and how they are called,
// is the family's (models/family.h).
#include "models/config/config.h"

#include <system_error>

#include "base/error.h"
#include "base/printable.h"
#include "models/config/generation_config.h"
#include "models/family.h"

namespace tandem {
namespace fs = std::filesystem;
namespace {

using nlohmann::json;

class Loader {
 public:
  explicit Loader(const fs::path& directory)
      : raw_(load_json(directory / "config.json")),
        in_((directory / "config.json").string(), raw_) {
    config_.directory = directory;
  }

  ModelConfig load() {
    read_architecture();
    const ModelFamily* family = find_family();
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
    attempt([&] { read_special_tokens(family ? family->special_tokens : SpecialTokens()); });
  }

  void read_architecture() {
    const json* list = in_.find("architectures");
    if (list == nullptr)
      in_.fail("architectures", "is missing; it names the model's class, as in [\"" +
                                    architectures().front() + "\"]");
    if (!list->is_array() || list->empty() || !(*list)[0].is_string())
      in_.fail("architectures",
               "is " + ConfigReader::show(*list) + ", expected a list with a name");
    config_.architecture = (*list)[0].get<std::string>();
    config_.model_type = in_.string("model_type");
  }

  // nullptr: there is no model of that family.
  const ModelFamily* find_family() const {
    const ModelFamily* family = family_of_architecture(config_.architecture);
    if (family != nullptr && family->model_type != config_.model_type)
      in_.fail("model_type", "is " + in_quotes(config_.model_type) + ", but architectures has " +
                                 in_quotes(config_.architecture) + ", which needs " +
                                 in_quotes(family->model_type));
    if (family == nullptr) family = family_of_type(config_.model_type);
    return family != nullptr && family->make != nullptr ? family : nullptr;
  }

  void read_dtype() {
    const char* key = in_.find("dtype") ? "dtype" : "torch_dtype";
    if (in_.find(key) == nullptr) return;
    const std::string name = in_.string(key);
    for (DType t : {DType::kF32, DType::kF16, DType::kBF16})
      if (name == name_of(t)) config_.checkpoint_dtype = t;
    if (!config_.checkpoint_dtype)
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

  // The ids of a key: several only where `list` allows it. `otherwise` < 0 stands for none; so does
  // one that a smaller vocabulary lacks.
  std::vector<int> tokens(const std::string& key, int otherwise, bool list) const {
    const bool generation = config_.generation.contains(key);
    const json& from = generation ? config_.generation : raw_;
    const std::string& file = generation ? generation_file_ : in_.file();
    std::vector<int> ids;
    if (const auto it = from.find(key); it == from.end()) {
      const bool there = config_.vocab_size == 0 || otherwise < config_.vocab_size;
      if (otherwise >= 0 && there) ids.push_back(otherwise);
    } else if (list && it->is_array()) {
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
