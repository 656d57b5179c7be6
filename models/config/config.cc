// Reads config.json key by key. What a family needs stands in its table; a new family is a new
// table (and a row in `kFamilies`).
#include "models/config/config.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/printable.h"
#include "models/config/generation_config.h"
#include "models/registry.h"

namespace tandem {
namespace fs = std::filesystem;
namespace {

using nlohmann::json;

// An integer key in [1, max]. An absent one has `otherwise`.
struct IntKey {
  const char* key;
  int ModelConfig::*field;
  int max;
  int otherwise;
  const char* alias = nullptr;  // HuggingFace's general name for it, also accepted
};

struct Family {
  std::string_view model_type;
  std::string_view prefix;  // of its architectures
  std::span<const IntKey> sizes;
  const char* activation_key;
  const char* activation;
  bool scale_embedding, tie_word_embeddings;
  int bos, pad, eos, decoder_start;
};

constexpr int kMaxWidth =
    1'000'000;                     // of a layer; a weight must fit a 64-bit size with room to spare
constexpr int kMaxCount = 10'000;  // of layers or heads
constexpr int kMaxRows = 100'000'000;

constexpr IntKey kBartSizes[] = {
    {"vocab_size", &ModelConfig::vocab_size, kMaxRows, 50265},
    {"d_model", &ModelConfig::d_model, kMaxWidth, 1024, "hidden_size"},
    {"encoder_layers", &ModelConfig::encoder_layers, kMaxCount, 12, "num_hidden_layers"},
    {"decoder_layers", &ModelConfig::decoder_layers, kMaxCount, 12},
    {"encoder_attention_heads", &ModelConfig::encoder_attention_heads, kMaxCount, 16,
     "num_attention_heads"},
    {"decoder_attention_heads", &ModelConfig::decoder_attention_heads, kMaxCount, 16},
    {"encoder_ffn_dim", &ModelConfig::encoder_ffn_dim, kMaxWidth, 4096},
    {"decoder_ffn_dim", &ModelConfig::decoder_ffn_dim, kMaxWidth, 4096},
    {"max_position_embeddings", &ModelConfig::max_position_embeddings, kMaxRows, 1024},
};

constexpr Family kFamilies[] = {
    {"bart", "Bart", kBartSizes, "activation_function", "gelu", false, true, 0, 1, 2, 2},
};

class Loader {
 public:
  explicit Loader(const fs::path& directory)
      : file_((directory / "config.json").string()), raw_(load_json(file_)) {
    if (!raw_.is_object()) throw invalid_model(file_, "is not a JSON object");
    config_.directory = directory;
  }

  ModelConfig load() {
    read_architecture();
    const Family* family = find_family();
    // What is not supported may mean another thing by a key: what can be read is for `inspect`.
    const bool strict = family != nullptr || is_supported(config_.architecture);
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
  void read_all(const Family* family, const Attempt& attempt) {
    attempt([&] { read_dtype(); });
    attempt([&] { read_sizes(family); });
    attempt([&] { read_flags(family); });
    const fs::path generation_file = find_generation_config(config_.directory);
    generation_file_ = generation_file.string();
    attempt([&] { config_.generation = load_generation_config(generation_file, raw_); });
    attempt([&] { read_special_tokens(family); });
  }

  [[noreturn]] void fail(const std::string& key, const std::string& message) const {
    fail_in(file_, key, message);
  }
  [[noreturn]] static void fail_in(const std::string& file, const std::string& key,
                                   const std::string& message) {
    throw InputError(ErrorKind::kInvalidModel, file + ": " + key + ": " + message, key);
  }
  // The value; nullptr where the key is absent or null.
  const json* find(const char* key) const {
    const auto it = raw_.find(key);
    return it == raw_.end() || it->is_null() ? nullptr : &*it;
  }
  static std::string show(const json& value) {
    return printable(value.dump(-1, ' ', true, json::error_handler_t::replace), 60);
  }

  std::string string(const char* key) const {
    const json* value = find(key);
    if (value == nullptr) fail(key, "is missing");
    if (!value->is_string() || value->get_ref<const std::string&>().empty())
      fail(key, "is " + show(*value) + ", expected a string");
    return value->get<std::string>();
  }

  void read_architecture() {
    const json* list = find("architectures");
    if (list == nullptr)
      fail("architectures",
           "is missing; it names the model's class, as in [\"BartForConditionalGeneration\"]");
    if (!list->is_array() || list->empty() || !(*list)[0].is_string())
      fail("architectures", "is " + show(*list) + ", expected a list with a name");
    config_.architecture = (*list)[0].get<std::string>();
    config_.model_type = string("model_type");
  }

  // nullptr: a family that this file does not know.
  const Family* find_family() const {
    for (const Family& f : kFamilies) {
      if (f.model_type == config_.model_type) return &f;
      if (config_.architecture.starts_with(f.prefix))
        fail("model_type", "is " + in_quotes(config_.model_type) + ", but architectures has " +
                               in_quotes(config_.architecture) + ", which needs \"" +
                               std::string(f.model_type) + "\"");
    }
    return nullptr;
  }

  void read_dtype() {
    const char* key = find("dtype") ? "dtype" : "torch_dtype";
    if (find(key) == nullptr) return;
    const std::string name = string(key);
    for (DType t : {DType::kF32, DType::kF16, DType::kBF16})
      if (name == name_of(t)) config_.checkpoint_dtype = t;
    if (!config_.checkpoint_dtype)
      fail(key, "is " + in_quotes(name) + ", expected float32, float16 or bfloat16");
  }

  // An integer in [1, max], or nothing where no such key is there.
  std::optional<int> size(const IntKey& k) const {
    for (const char* key : {k.key, k.alias}) {
      if (key == nullptr || !raw_.contains(key)) continue;
      const json& value = raw_[key];
      if (!value.is_number_integer()) fail(key, "is " + show(value) + ", expected an integer");
      // A value beyond int64 has an unsigned type.
      const bool fits = value.is_number_unsigned()
                            ? value.get<uint64_t>() <= static_cast<uint64_t>(k.max)
                            : value.get<int64_t>() <= k.max;
      if (!fits || value.get<int64_t>() < 1)
        fail(key, "is " + show(value) + ", expected 1 to " + std::to_string(k.max));
      return value.get<int>();
    }
    return std::nullopt;
  }

  void read_sizes(const Family* family) {
    for (const IntKey& k : family ? family->sizes : std::span<const IntKey>(kBartSizes))
      config_.*k.field = size(k).value_or(family ? k.otherwise : 0);
    if (family == nullptr) return;
    const auto check_heads = [&](const char* key, int heads) {
      if (config_.d_model % heads != 0)
        fail(key, "is " + std::to_string(heads) + ", which does not divide d_model (" +
                      std::to_string(config_.d_model) + ")");
    };
    check_heads("encoder_attention_heads", config_.encoder_attention_heads);
    check_heads("decoder_attention_heads", config_.decoder_attention_heads);
  }

  bool flag(const char* key, bool otherwise) const {
    const json* value = find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_boolean()) fail(key, "is " + show(*value) + ", expected true or false");
    return value->get<bool>();
  }

  void read_flags(const Family* family) {
    config_.scale_embedding = flag("scale_embedding", family && family->scale_embedding);
    config_.tie_word_embeddings =
        flag("tie_word_embeddings", family == nullptr || family->tie_word_embeddings);
    if (family == nullptr) return;
    const char* key = family->activation_key;
    const std::string name = find(key) ? string(key) : family->activation;
    try {
      config_.activation = activation_from_name(name);
    } catch (const InputError&) {
      fail(key, "activation " + in_quotes(name) + " is not known");
    }
  }

  // --- Special tokens: ids of the vocabulary ---------------------------------------------------

  int token(const json& value, const std::string& file, const std::string& key) const {
    const bool valid = value.is_number_integer() && value >= 0 &&
                       (config_.vocab_size == 0 || value < config_.vocab_size) && value <= kMaxRows;
    if (!valid)
      fail_in(file, key,
              "is " + show(value) + ", expected a token id below vocab_size (" +
                  std::to_string(config_.vocab_size) + ")");
    return value.get<int>();
  }

  // The ids of a key: several only where `list` allows it. `otherwise` < 0 stands for none.
  std::vector<int> tokens(const std::string& key, int otherwise, bool list) const {
    const bool generation = config_.generation.contains(key);
    const json& from = generation ? config_.generation : raw_;
    const std::string& file = generation ? generation_file_ : file_;
    std::vector<int> ids;
    if (const auto it = from.find(key); it == from.end()) {
      if (otherwise >= 0) ids.push_back(otherwise);
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

  void read_special_tokens(const Family* family) {
    config_.bos_token_id = token("bos_token_id", family ? family->bos : -1);
    config_.pad_token_id = token("pad_token_id", family ? family->pad : -1);
    config_.eos_token_id = tokens("eos_token_id", family ? family->eos : -1, true);
    config_.decoder_start_token_id =
        token("decoder_start_token_id", family ? family->decoder_start : -1);
  }

  std::string file_, generation_file_;  // of config.json, and where the generation settings are
  json raw_;
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
