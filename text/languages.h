// The languages of a tokenizer, by HuggingFace's names ("en", "en_XX", "eng_Latn"). Immutable;
// usable from any thread.
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
  // tokens: the languages' tokens, with their ids. source: the token of the default source
  // language. Empty: there is none, or it cannot be chosen.
  LanguageSet(Rule rule, const std::map<std::string, int32_t>& tokens, bool has_source,
              const std::string& source);

  bool empty() const { return ids_.empty(); }
  std::vector<std::string> names() const;  // sorted
  // Of a target language: where its token goes.
  Rule::Target target() const { return empty() ? Rule::Target::kNone : rule_.target; }
  // Whether texts have their own language (src_lang), and the default one.
  bool has_source() const { return has_source_ && !empty(); }
  const std::string& default_source() const { return source_; }

  bool is_language(int32_t id) const;
  // `name`: a name, the token itself, or another spelling (meant()). Throws InputError (field) with
  // the nearest names if it is not a language or there are none, and for src_lang if only targets
  // have names.
  int32_t id_of(const std::string& name, const std::string& field) const;
  // The name for another spelling: other capitals, a code of the same language with or without
  // script and country, or its English name. "EN-US" gives "en", "de" gives "deu_Latn", "ZH" gives
  // "zho_Hans", "NB" gives "no", "german" gives "de". Nothing if there is no such name, several, or
  // only one with another script.
  std::optional<std::string> meant(std::string_view name) const;
  // That `name` is none, and which ones were likely meant; else all, or where they are listed.
  std::string refusal(const std::string& name, bool lists_all = false) const;
  // The likely intended names for `name`, the likeliest first; at most five.
  std::vector<std::string> nearest(std::string_view name) const;

 private:
  std::string name_of(const std::string& token) const;  // without the rule's marks

  Rule rule_;
  std::map<std::string, int32_t> ids_;                     // by name
  std::vector<std::pair<LanguageTag, std::string>> tags_;  // of the names that are codes
  bool has_source_ = false;
  std::string source_;
};

// Whether a token looks like a language's: letters between the rule's marks; without marks as
// "en_XX" or "eng_Latn".
bool has_shape_of_language(const TokenizerRule::Languages& rule, std::string_view token);

}  // namespace tandem
