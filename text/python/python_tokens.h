// Added tokens of HuggingFace's tokenizers in Python (PythonBackend, SentencePieceBackend): their
// numbering, their matches in texts, and the ones that decoding skips.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "text/pipeline/added_tokens.h"
#include "text/python/text_trie.h"

namespace tandem {

// The settings of the files and the class.
struct PythonTokenList {
  std::map<int32_t, AddedToken> by_id;  // with the ids that the files give them
  std::vector<std::string> special;     // names, then extra tokens; in order, each once
  // Tokens of the class's own vocabulary, which the files cannot change. They are found in texts if
  // they are special, and have no settings.
  std::vector<std::string> reserved;
};

// The vocabulary that tokens are added to.
struct PythonVocabulary {
  using Find = std::function<std::optional<int32_t>(std::string_view)>;
  int32_t size = 0;
  Find find;
  // true: new ids follow `size` and the files' tokens that it lacks. false: new ids follow `size`.
  bool counts_added = true;
  // Finds the ids of reserved tokens. If set, special tokens are found in texts, even if others
  // took their ids.
  Find find_reserved = nullptr;
};

// Immutable; usable from any thread.
class PythonTokens {
 public:
  PythonTokens(const PythonTokenList& list, const PythonVocabulary& vocabulary);
  // Finds no tokens in texts.
  void ignore_in_text() { ignore_ = true; }

  // As AddedTokens.
  void split(std::string_view text, const AddedTokens::Sink& sink) const;
  std::optional<int32_t> find(std::string_view content) const;
  std::optional<std::string_view> text(int32_t id) const;
  int32_t max_id() const { return by_id_.empty() ? -1 : by_id_.rbegin()->first; }

  // Whether decoding can skip the id, and whether it treats the text as a special token.
  bool skips(int32_t id) const { return skipped_.count(id) != 0; }
  bool is_special(std::string_view text) const { return special_.count(std::string(text)) != 0; }

 private:
  void add_new(const PythonTokenList& list, const PythonVocabulary& vocabulary);
  void take_away(const std::vector<std::string>& reserved);
  std::vector<std::string> cut(std::string_view text) const;

  std::map<int32_t, AddedToken> by_id_;
  std::unordered_map<std::string, int32_t> ids_;
  std::unordered_map<std::string, int32_t> reserved_;  // special ones that were not added
  std::unordered_set<std::string> special_;
  std::unordered_set<int32_t> skipped_;
  TextTrie trie_;
  bool ignore_ = false;
};

}  // namespace tandem
