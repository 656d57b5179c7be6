// The order of precedence: added_tokens_decoder of tokenizer_config.json, where it is, silences the
// other files; else tokenizer.json's added_tokens before added_tokens.json, and
// special_tokens_map.json before tokenizer_config.json.
#include "text/pipeline/special_tokens.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <unordered_map>
#include <unordered_set>

#include "base/printable.h"

namespace tandem {
namespace {

// In the order in which new ones are numbered.
constexpr std::array kNamedKeys = {"bos_token", "eos_token", "unk_token", "sep_token",
                                   "pad_token", "cls_token", "mask_token"};

AddedToken special_token(const std::string& content) {
  AddedToken token;
  token.content = content;
  token.special = true;
  token.normalized = false;
  return token;
}

// Equal for tokens that are equal in everything.
std::string identity(const AddedToken& t) {
  std::string out = t.content;
  for (const bool flag : {t.single_word, t.lstrip, t.rstrip, t.normalized, t.special})
    out.push_back(flag ? '1' : '0');
  return out;
}

// A string, or an object with a content.
AddedToken read_special_token(const JsonView& json) {
  if (json.value().is_string()) return special_token(json.string());
  AddedToken token = AddedToken::from_json(json);
  token.special = true;
  if (!json.find("normalized")) token.normalized = false;
  return token;
}

bool is_token_key(const std::string& key, const nlohmann::json& value) {
  if (value.is_null()) return false;
  if (std::find(kNamedKeys.begin(), kNamedKeys.end(), key) != kNamedKeys.end()) return true;
  return key.ends_with("_token") && (value.is_string() || value.contains("content"));
}

int32_t parse_id(const JsonView& map, const std::string& key) {
  int32_t id = -1;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
  if (error != std::errc() || end != key.data() + key.size() || id < 0 || id >= kMaxVocabulary)
    map.fail(in_quotes(key) + " is not a token id");
  return id;
}

}  // namespace

std::vector<AddedToken> read_added_tokens(const JsonView& document) {
  std::vector<AddedToken> tokens;
  const auto list = document.find("added_tokens");
  if (!list) return tokens;
  std::unordered_map<int32_t, std::string> seen;
  for (size_t i = 0, n = list->size(); i < n; ++i) {
    const JsonView entry = list->at(i);
    const JsonView id = entry.at("id");
    tokens.push_back(AddedToken::from_json(entry));
    const auto [first, is_new] = seen.emplace(id.id(), tokens.back().content);
    if (!is_new && first->second != tokens.back().content)
      id.fail("id " + std::to_string(id.id()) + " has two tokens, " + in_quotes(first->second) +
              " and " + in_quotes(tokens.back().content));
  }
  return tokens;
}

bool names_no_extra_tokens(const JsonView& config) {
  const auto named = config.object().find("additional_special_tokens");
  return named != config.object().end() && named->empty();
}

SpecialTokens::SpecialTokens(const OptionalFile& config, const OptionalFile& special_tokens_map,
                             const OptionalFile& added_tokens, const JsonView& document,
                             const TokenizerRule::Tokens& defaults) {
  for (const auto& [key, token] : defaults) named_[key] = token;
  const auto class_tokens = named_;
  read_named(config.view(), class_tokens);
  read_extra(config.view());
  if (!config.view().find("added_tokens_decoder")) {
    read_named(special_tokens_map.view(), class_tokens);
    read_extra(special_tokens_map.view());
  }
  for (const auto& [key, token] : named_) named_contents_.insert(token.content);
  read_by_id(config, added_tokens, document);
  std::unordered_map<std::string, const AddedToken*> by_content;
  for (const auto& [id, token] : by_id_) by_content[token.content] = &token;
  for (auto& [key, token] : named_)
    if (const auto added = by_content.find(token.content); added != by_content.end())
      token = *added->second;
}

void SpecialTokens::read_named(const JsonView& json, const Named& class_tokens) {
  for (const auto& [key, value] : json.object().items()) {
    if (value.is_null()) {
      named_.erase(key);
    } else if (is_token_key(key, value)) {
      AddedToken token = read_special_token(json.at(key));
      const auto of_class = class_tokens.find(key);
      // A plain name keeps how the class looks for it (Blenderbot's <mask>: with lstrip).
      if (value.is_string() && of_class != class_tokens.end()) {
        token = of_class->second;
        token.content = json.at(key).string();
      }
      named_[key] = token;
    }
  }
}

void SpecialTokens::read_extra(const JsonView& json) {
  for (const char* key : {"extra_special_tokens", "additional_special_tokens"}) {
    const auto list = json.find(key);
    if (!list) continue;
    if (list->value().is_object()) {  // names of the model's own
      for (const auto& [name, value] : list->value().items())
        named_[name] = read_special_token(list->at(name));
      return;
    }
    for (size_t i = 0, n = list->size(); i < n; ++i)
      extra_.push_back(read_special_token(list->at(i)));
    if (list->size() > 0) return;
  }
}

void SpecialTokens::read_by_id(const OptionalFile& config, const OptionalFile& added_tokens,
                               const JsonView& document) {
  if (const auto decoder = config.view().find("added_tokens_decoder")) {
    for (const auto& [id, value] : decoder->object().items()) {
      const JsonView json = decoder->at(id);
      const AddedToken token = AddedToken::from_json(json);
      by_id_[parse_id(*decoder, id)] = is_named(token.content) ? read_special_token(json) : token;
    }
    return;
  }
  std::unordered_set<std::string> extra;
  for (const AddedToken& token : extra_) extra.insert(token.content);
  for (const auto& entry : added_tokens.view().object().items()) {
    AddedToken token;
    token.content = entry.key();
    token.special = is_named(token.content) || extra.count(token.content);
    token.normalized = !token.special;
    by_id_[added_tokens.view().at(token.content).id()] = token;
  }
  if (const auto list = document.find("added_tokens")) {
    const std::vector<AddedToken> tokens = read_added_tokens(document);
    for (size_t i = 0; i < tokens.size(); ++i) by_id_[list->at(i).at("id").id()] = tokens[i];
  }
}

bool SpecialTokens::is_named(const std::string& content) const {
  return named_contents_.count(content) != 0;
}

std::vector<AddedToken> SpecialTokens::to_add(const std::vector<AddedToken>& present) const {
  std::vector<AddedToken> tokens;
  std::unordered_set<std::string> contents;
  for (const AddedToken& token : present) contents.insert(token.content);
  for (const auto& [id, token] : by_id_) {
    tokens.push_back(token);
    contents.insert(token.content);
  }
  std::unordered_set<std::string> identities;
  const auto add_new = [&](const AddedToken& token) {
    if (!contents.count(token.content) && identities.insert(identity(token)).second)
      tokens.push_back(token);
  };
  for (const char* key : kNamedKeys)
    if (const auto token = named_.find(key); token != named_.end()) add_new(token->second);
  for (const auto& [key, token] : named_)
    if (std::find(kNamedKeys.begin(), kNamedKeys.end(), key) == kNamedKeys.end()) add_new(token);
  for (const AddedToken& token : extra_) add_new(token);
  for (AddedToken& token : tokens) token.special = token.special || is_named(token.content);
  return tokens;
}

std::string SpecialTokens::content(const std::string& key) const {
  const auto found = named_.find(key);
  return found == named_.end() ? std::string() : found->second.content;
}

}  // namespace tandem
