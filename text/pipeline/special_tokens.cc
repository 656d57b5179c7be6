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

#include "base/strings/printable.h"

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

bool lists_extra_tokens(const JsonView& config) {
  const auto& names = config.object();
  const auto extra = names.find("extra_special_tokens");
  if (extra != names.end()) return !extra->is_object();  // names of tokens are no list
  return names.contains("additional_special_tokens");
}

SpecialTokens::SpecialTokens(const OptionalFile& config, const OptionalFile& special_tokens_map,
                             const OptionalFile& added_tokens, const JsonView& document,
                             const TokenizerRule& rule, bool of_pieces) {
  for (const auto& [key, token] : rule.special_tokens) named_[key] = token;
  const auto class_tokens = named_;
  const bool old = !config.view().find("added_tokens_decoder");
  if (old) read_named(special_tokens_map, class_tokens);
  const Named of_map = named_;
  read_named(config, class_tokens);
  if (old)  // of the usual names the map's count
    for (const char* key : kNamedKeys)
      if (special_tokens_map.value.contains(key)) {
        const auto token = of_map.find(key);
        named_.erase(key);
        if (token != of_map.end()) named_.insert(*token);
      }
  read_extra(config.view(), /*of_map=*/false);
  if (old) read_extra(special_tokens_map.view(), /*of_map=*/true);
  if (rule.extra_tokens != nullptr && (rule.extra_with_pieces || !of_pieces) &&
      !lists_extra_tokens(config.view()))
    add_class_extra(rule.extra_tokens(config.view()));
  for (const auto& [key, token] : named_) named_contents_.insert(token.content);
  read_by_id(config, added_tokens, document);
  std::unordered_map<std::string, const AddedToken*> by_content;
  for (const auto& [id, token] : by_id_) by_content[token.content] = &token;
  for (auto& [key, token] : named_)
    if (const auto added = by_content.find(token.content); added != by_content.end())
      token = *added->second;
}

void SpecialTokens::read_named(const OptionalFile& file, const Named& class_tokens) {
  const JsonView json = file.view();
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
  for (const std::string& name : file.names) note_other_key(name);
  for (const auto& [key, token] : named_) note_other_key(key);
}

// The model's own names count in the order of the file: it numbers new tokens.
void SpecialTokens::note_other_key(const std::string& key) {
  const auto is_there = [&](const auto& keys) {
    return std::find(std::begin(keys), std::end(keys), key) != std::end(keys);
  };
  if (!is_there(kNamedKeys) && !is_there(other_keys_)) other_keys_.push_back(key);
}

// What the class lists counts where no file does, and before what an old map lists.
void SpecialTokens::add_class_extra(const std::vector<std::string>& contents) {
  std::vector<AddedToken> tokens;
  std::unordered_set<std::string> present;
  for (const std::string& content : contents) {
    tokens.push_back(special_token(content));
    present.insert(content);
  }
  for (const AddedToken& token : extra_)
    if (!present.count(token.content)) tokens.push_back(token);
  extra_ = std::move(tokens);
}

void SpecialTokens::read_extra(const JsonView& json, bool of_map) {
  for (const char* key : {"extra_special_tokens", "additional_special_tokens"}) {
    const auto list = json.find(key);
    if (!list) continue;
    if (list->value().is_object()) {  // names of the model's own
      for (const auto& [name, value] : list->value().items()) {
        if (of_map && named_.count(name)) continue;
        named_[name] = read_special_token(list->at(name));
        note_other_key(name);
      }
      return;
    }
    // An old name beside a list of the new one is nothing to HuggingFace.
    if (of_map && list->size() > 0 && key == std::string_view("additional_special_tokens") &&
        !extra_.empty())
      return;
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
  for (const AddedToken* token : named_in_order()) add_new(*token);
  for (const AddedToken& token : extra_) add_new(token);
  for (AddedToken& token : tokens) token.special = token.special || is_named(token.content);
  return tokens;
}

std::vector<const AddedToken*> SpecialTokens::named_in_order() const {
  std::vector<const AddedToken*> out;
  const auto add = [&](const std::string& key) {
    if (const AddedToken* token = named(key)) out.push_back(token);
  };
  for (const char* key : kNamedKeys) add(key);
  for (const std::string& key : other_keys_) add(key);
  return out;
}

const AddedToken* SpecialTokens::named(const std::string& key) const {
  const auto found = named_.find(key);
  return found == named_.end() ? nullptr : &found->second;
}

std::vector<std::string> SpecialTokens::contents() const {
  std::vector<std::string> out;
  std::unordered_set<std::string> seen;
  const auto add = [&](const AddedToken& token) {
    if (seen.insert(token.content).second) out.push_back(token.content);
  };
  for (const AddedToken* token : named_in_order()) add(*token);
  for (const AddedToken& token : extra_) add(token);
  return out;
}

std::string SpecialTokens::content(const std::string& key) const {
  const AddedToken* token = named(key);
  return token != nullptr ? token->content : std::string();
}

}  // namespace tandem
