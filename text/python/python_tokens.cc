#include "text/python/python_tokens.h"

#include "text/unicode/python_space.h"

namespace tandem {
namespace {

AddedToken plain_special(const std::string& content) {
  AddedToken token;
  token.content = content;
  token.special = true;
  token.normalized = false;
  return token;
}

}  // namespace

PythonTokens::PythonTokens(const PythonTokenList& list, const PythonVocabulary& vocabulary)
    : by_id_(list.by_id), special_(list.special.begin(), list.special.end()) {
  for (const auto& [id, token] : by_id_) ids_[token.content] = id;
  add_new(list, vocabulary);
  // A new token may have taken the id of one of the files: that is found no more.
  for (const auto& [id, token] : by_id_) trie_.insert(token.content);
  if (vocabulary.find_reserved)
    for (const std::string& content : list.special) trie_.insert(content);
  take_away(list.reserved);
  for (const std::string& content : list.special) {
    const auto added = ids_.find(content);
    std::optional<int32_t> id;
    if (added != ids_.end())
      id = added->second;
    else
      id = vocabulary.find_reserved ? vocabulary.find_reserved(content) : vocabulary.find(content);
    if (!id) continue;
    skipped_.insert(*id);
    if (added == ids_.end()) reserved_[content] = *id;
  }
}

// Special tokens that the files give no id. They have no settings, whatever the files say.
void PythonTokens::add_new(const PythonTokenList& list, const PythonVocabulary& vocabulary) {
  int32_t next = vocabulary.size;
  if (vocabulary.counts_added)
    for (const auto& [content, id] : ids_)
      if (!vocabulary.find(content)) ++next;
  for (const std::string& content : list.special) {
    if (content.empty() || ids_.count(content)) continue;
    auto id = vocabulary.find(content);
    if (!id) id = next++;
    by_id_[*id] = plain_special(content);
    ids_[content] = *id;
  }
}

// An id can have had two tokens: then it loses the other one's settings as well.
void PythonTokens::take_away(const std::vector<std::string>& reserved) {
  for (const std::string& content : reserved) {
    const auto found = ids_.find(content);
    if (found == ids_.end()) continue;
    by_id_.erase(found->second);
    ids_.erase(found);
  }
  if (reserved.empty()) return;
  for (const auto& [content, id] : ids_) {
    if (by_id_.count(id)) continue;
    by_id_[id] = plain_special(content);
    trie_.insert(content);
  }
}

std::optional<int32_t> PythonTokens::find(std::string_view content) const {
  const auto found = ids_.find(std::string(content));
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

std::optional<std::string_view> PythonTokens::text(int32_t id) const {
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return std::nullopt;
  return found->second.content;
}

// White space belongs to a token that takes it; a token that must stand alone and does not is glued
// to its neighbour, which then is a text like any other. Only " " is a boundary.
std::vector<std::string> PythonTokens::cut(std::string_view text) const {
  std::vector<std::string> parts;
  for (const std::string_view part : trie_.split(text)) parts.emplace_back(part);
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto id = ids_.find(parts[i]);
    if (id == ids_.end()) continue;
    const auto found = by_id_.find(id->second);
    if (found == by_id_.end()) continue;
    const AddedToken& token = found->second;
    // What stood there before the token took white space.
    const std::string left = i > 0 ? parts[i - 1] : "";
    const std::string right = i + 1 < parts.size() ? parts[i + 1] : "";
    if (token.rstrip && !right.empty()) parts[i + 1] = left_stripped(right);
    if (token.lstrip && !left.empty()) parts[i - 1] = right_stripped(left);
    if (!token.single_word) continue;
    if (!left.empty() && left.back() != ' ') {
      parts[i - 1] += parts[i];
      parts[i].clear();
    } else if (!right.empty() && right.front() != ' ') {
      parts[i + 1].insert(0, parts[i]);
      parts[i].clear();
    }
  }
  return parts;
}

void PythonTokens::split(std::string_view text, const AddedTokens::Sink& sink) const {
  if (ignore_) {
    if (!text.empty()) sink.text(text);
    return;
  }
  for (const std::string& part : cut(text)) {
    if (part.empty()) continue;
    if (const auto id = find(part))
      sink.token(*id);
    else if (const auto own = reserved_.find(part); own != reserved_.end())
      sink.token(own->second);
    else
      sink.text(part);
  }
}

}  // namespace tandem
