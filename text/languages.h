// The languages that a tokenizer knows, by the names that HuggingFace gives them ("en", "en_XX",
// "eng_Latn"). Immutable; usable from any thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/language_names.h"
#include "text/tokenizer_rule.h"

namespace tandem {

class LanguageSet {
 public:
  using Rule = TokenizerRule::Languages;

  LanguageSet() = default;  // of a tokenizer without languages
  // tokens: those that are languages, with their ids. source: the token of the language that texts
  // have unless told otherwise; empty: there is none, or it cannot be chosen.
  LanguageSet(Rule rule, const std::map<std::string, int32_t>& tokens, bool has_source,
              const std::string& source);

  bool empty() const { return ids_.empty(); }
  std::vector<std::string> names() const;  // sorted
  // Of a target language: where its token goes.
  Rule::Target target() const { return empty() ? Rule::Target::kNone : rule_.target; }
  // Whether texts have a language of their own (src_lang), and which without being told.
  bool has_source() const { return has_source_ && !empty(); }
  const std::string& default_source() const { return source_; }

  bool is_language(int32_t id) const;
  // A name, the token itself, or another spelling (meant()). Throws InputError (field) with the
  // nearest names: not a language, or there are none; src_lang where only targets have names.
  int32_t id_of(const std::string& name, const std::string& field) const;
  // The name that another spelling stands for: other capitals, a code of the same language with or
  // without script and country ("EN-US" for "en", "de" for "deu_Latn", "ZH" for "zho_Hans", "NB"
  // for "no"), its English name ("german"). Nothing where there is none, several, or only another
  // script than the one that is said.
  std::optional<std::string> meant(std::string_view name) const;
  // The names that somebody who wrote `name` may have meant, the likeliest first; at most five.
  std::vector<std::string> nearest(std::string_view name) const;

 private:
  std::string name_of(const std::string& token) const;  // without the rule's marks

  Rule rule_;
  std::map<std::string, int32_t> ids_;                     // by name
  std::vector<std::pair<LanguageTag, std::string>> tags_;  // of the names that are codes
  bool has_source_ = false;
  std::string source_;
};

// Whether a token is one of a language by its shape: letters between the rule's marks; without
// marks as "en_XX" or "eng_Latn".
bool has_shape_of_language(const TokenizerRule::Languages& rule, std::string_view token);

}  // namespace tandem
