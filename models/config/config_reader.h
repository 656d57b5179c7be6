// config.json, key by key: typed and checked access whose errors name the file and the key.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/error.h"
#include "kernels/ops.h"

namespace tandem {

class ConfigReader {
 public:
  // The largest accepted sizes: a weight must fit a 64-bit size with room to spare.
  static constexpr int kMaxWidth = 1'000'000;   // of a layer
  static constexpr int kMaxCount = 10'000;      // of layers or heads
  static constexpr int kMaxRows = 100'000'000;  // of tables

  // `raw`, an object, outlives the reader.
  ConfigReader(std::string file, const nlohmann::json& raw);

  const std::string& file() const { return file_; }
  const nlohmann::json& raw() const { return raw_; }

  // The value; nullptr if the key is absent or null.
  const nlohmann::json* find(const char* key) const;
  std::string string(const char* key) const;  // not empty; an error where it is absent
  // An integer in [1, max]; nothing if neither the key nor the alias exists. The alias is
  // HuggingFace's general name (attribute_map), which wins over the family's own.
  std::optional<int> size(const char* key, int max, const char* alias = nullptr) const;
  bool flag(const char* key, bool otherwise) const;
  float positive(const char* key, float otherwise) const;  // a finite number above 0
  Activation activation(const char* key, const char* otherwise) const;
  // The one of that name, which the key has.
  Activation activation_named(const char* key, const std::string& name) const;

  // Throws InputError (kInvalidModel, param `key`).
  [[noreturn]] void fail(const std::string& key, const std::string& message) const;
  [[noreturn]] static void fail_in(const std::string& file, const std::string& key,
                                   const std::string& message);
  // The value for a message; long values are cut.
  static std::string show(const nlohmann::json& value);

 private:
  std::string file_;
  const nlohmann::json& raw_;
};

// The size, or `otherwise` if the key is absent or null.
int size_or(const ConfigReader& in, const char* key, int max, int otherwise);
// The same of a number that may be 0: an integer in [0, kMaxCount].
int count_or(const ConfigReader& in, const char* key, int otherwise);
// pad_token_id, which files also have as a list of one; `otherwise` if it is absent, or no integer.
int padding_of(const ConfigReader& in, int otherwise);

}  // namespace tandem
