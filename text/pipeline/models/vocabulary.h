// Token strings ↔ ids of a model, as read from a JSON object {"token": id}.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/pipeline/text_pipeline.h"
#include "text/tokenizer_json.h"

namespace tandem {

class Vocabulary {
 public:
  explicit Vocabulary(const JsonView& json);
  Vocabulary(const Vocabulary&) = delete;  // ids_ points into text_
  Vocabulary& operator=(const Vocabulary&) = delete;

  std::optional<int32_t> find(std::string_view token) const;
  std::optional<std::string_view> token(int32_t id) const;
  int32_t size() const { return static_cast<int32_t>(ids_.size()); }
  int32_t max_id() const { return static_cast<int32_t>(places_.size()) - 1; }

 private:
  struct Place {
    uint32_t offset = 0, length = kAbsent;
  };
  static constexpr uint32_t kAbsent = 0xFFFFFFFF;

  std::string text_;           // all tokens, one behind the other
  std::vector<Place> places_;  // by id
  std::unordered_map<std::string_view, int32_t> ids_;
};

// A model whose tokens are those of a vocabulary.
class VocabularyModel : public TokenModel {
 public:
  std::optional<int32_t> token_to_id(std::string_view token) const override {
    return vocabulary_.find(token);
  }
  std::optional<std::string_view> id_to_token(int32_t id) const override {
    return vocabulary_.token(id);
  }
  int32_t num_tokens() const override { return vocabulary_.size(); }
  int32_t max_id() const override { return vocabulary_.max_id(); }

 protected:
  explicit VocabularyModel(const JsonView& json) : vocabulary_(json) {}

  const Vocabulary vocabulary_;
};

}  // namespace tandem
