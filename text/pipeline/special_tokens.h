// The tokens that a checkpoint adds to the vocabulary, by tokenizer_config.json,
// special_tokens_map.json, added_tokens.json and tokenizer.json.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "text/tokenizer_json.h"
#include "text/tokenizer_rule.h"

namespace tandem {

// A JSON file that may be absent (then an empty object).
struct OptionalFile {
  nlohmann::json value = nlohmann::json::object();
  std::string name;
  bool exists = false;
  // Names of an object in the order of the file, also of the object "extra_special_tokens". Only
  // for files whose order counts.
  std::vector<std::string> names = {};

  JsonView view() const { return JsonView(value, name); }
};

class SpecialTokens {
 public:
  // `document`: tokenizer.json, an empty object without one. of_pieces: it is made of a
  // SentencePiece model.
  SpecialTokens(const OptionalFile& config, const OptionalFile& special_tokens_map,
                const OptionalFile& added_tokens, const JsonView& document,
                const TokenizerRule& rule, bool of_pieces = false);

  // All tokens, in HuggingFace's order of addition. `present`: contents that exist already; names
  // alone do not add them again.
  std::vector<AddedToken> to_add(const std::vector<AddedToken>& present) const;
  // Content of "bos_token", …; empty if there is none.
  std::string content(const std::string& key) const;
  // Of "bos_token", …; nullptr if there is none.
  const AddedToken* named(const std::string& key) const;
  // Tokens that the files give ids.
  const std::map<int32_t, AddedToken>& by_id() const { return by_id_; }
  // Named tokens, then extra ones; each content once.
  std::vector<std::string> contents() const;

 private:
  using Named = std::map<std::string, AddedToken>;
  void read_named(const OptionalFile& file, const Named& class_tokens);
  void note_other_key(const std::string& key);
  void add_class_extra(const std::vector<std::string>& contents);
  void read_extra(const JsonView& json, bool of_map);
  std::vector<const AddedToken*> named_in_order() const;
  void read_by_id(const OptionalFile& config, const OptionalFile& added_tokens,
                  const JsonView& document);
  bool is_named(const std::string& content) const;

  Named named_;                          // by key
  std::vector<std::string> other_keys_;  // that are the model's own, in order
  std::unordered_set<std::string> named_contents_;
  std::vector<AddedToken> extra_;
  std::map<int32_t, AddedToken> by_id_;  // ids only order them
};

// Whether tokenizer_config.json lists extra tokens; then the class's own do not count.
bool lists_extra_tokens(const JsonView& config);

// The added_tokens of tokenizer.json, each with a valid id of its own.
std::vector<AddedToken> read_added_tokens(const JsonView& document);

}  // namespace tandem
