// Reading the JSON files of a tokenizer: typed access whose errors name the file and the key.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

namespace tandem {

// More tokens than this, or a larger id, is taken for a damaged file.
inline constexpr int32_t kMaxVocabulary = 10'000'000;
inline constexpr int32_t kMaxExtraIds = 10'000;  // T5's sentinels

// A value inside a file. The document must outlive it.
class JsonView {
 public:
  JsonView(const nlohmann::json& value, std::string file, std::string key = {})
      : value_(&value), file_(std::move(file)), key_(std::move(key)) {}

  JsonView at(const std::string& key) const;                   // error if absent
  std::optional<JsonView> find(const std::string& key) const;  // nothing if absent or null
  JsonView at(size_t index) const;                             // of an array
  size_t size() const;                                         // of an array

  const std::string& string() const;
  bool boolean() const;
  int32_t id() const;                 // 0 … kMaxVocabulary - 1
  int32_t count(int32_t most) const;  // 0 … most
  const nlohmann::json& object() const;
  const nlohmann::json& value() const { return *value_; }
  const std::string& file() const { return file_; }

  // `what` in the file, at this key.
  [[noreturn]] void fail(const std::string& what) const;
  [[noreturn]] void fail_unsupported(const std::string& what) const;

 private:
  const nlohmann::json* value_;
  std::string file_, key_;
};

// The whole text of a regular file. Throws InputError if it cannot be read or is too large.
std::string read_text_file(const std::filesystem::path& file);

}  // namespace tandem
