// A tokenizer for tests that need none in particular: <s> 0, <pad> 1, </s> 2, and a token for each
// byte.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/languages.h"
#include "text/tokenizer.h"

namespace tandem {

class FakeTokenizer : public Tokenizer {
 public:
  std::vector<int32_t> encode(std::string_view text, bool add_special = true) const override {
    std::vector<int32_t> ids;
    if (add_special) ids.push_back(0);
    for (const char c : text) ids.push_back(kFirstByte + static_cast<unsigned char>(c));
    if (add_special) ids.push_back(2);
    return ids;
  }
  std::string decode(const std::vector<int32_t>& ids, bool skip_special) const override {
    std::string text;
    for (const int32_t id : ids)
      if (!skip_special || !is_special(id)) text += token_bytes(id);
    return text;
  }
  std::string token_bytes(int32_t id) const override {
    static const char* const kSpecial[] = {"<s>", "<pad>", "</s>"};
    return id < kFirstByte ? kSpecial[id] : std::string(1, static_cast<char>(id - kFirstByte));
  }
  bool is_special(int32_t id) const override { return id < kFirstByte; }
  int32_t size() const override { return kFirstByte + 256; }
  std::optional<int32_t> token_to_id(std::string_view token) const override {
    for (int32_t id = 0; id < size(); ++id)
      if (token_bytes(id) == token) return id;
    return std::nullopt;
  }
  int num_suffix_tokens() const override { return 1; }
  int model_max_length() const override { return 0; }
  const LanguageSet& languages() const override { return named; }
  std::vector<int32_t> encode_from(const std::string& source_language, std::string_view text,
                                   bool add_special = true) const override {
    const int32_t language = named.id_of(source_language, "src_lang");
    std::vector<int32_t> ids = encode(text, add_special);
    if (add_special) ids.insert(ids.begin(), language);
    return ids;
  }

  LanguageSet named;  // that it says it knows

 private:
  static constexpr int32_t kFirstByte = 3;
};

}  // namespace tandem
