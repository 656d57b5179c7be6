// Added tokens with the rules of the tokenizers library, whose order of decisions shows in the ids:
// the leftmost-longest match is taken first and only then checked (single_word) and widened
// (lstrip, rstrip); the search goes on behind the match itself, whatever became of it.
#include "text/pipeline/added_tokens.h"

#include <algorithm>
#include <map>

#include "base/strings/utf8.h"
#include "text/unicode/unicode_classes.h"

namespace tandem {
namespace {

// Keeps the search linear in the text, whatever a file says.
constexpr size_t kMaxTokenBytes = 1024;

// Where the white space starts that ends at `end`, but not before `limit`.
size_t spaces_start(std::string_view text, size_t end, size_t limit) {
  while (end > limit) {
    const size_t previous = previous_position(text, end);
    if (!is_space(code_point_at(text, previous).value)) break;
    end = previous;
  }
  return end;
}

std::string normalized_content(const Normalizer& normalizer, const std::string& text,
                               GrowthBudget& budget) {
  if (!normalizer.misaligns(false, false)) return normalizer.normalize(text, budget);
  AlignedText changed(text);
  try {
    normalizer.align(changed, budget);
  } catch (const Misaligned&) {
    return normalizer.normalize(text, budget);
  }
  return changed.text();
}

// `known_end`: end of white space that is known to start at or before `start`, or not past it.
size_t spaces_end(std::string_view text, size_t start, size_t known_end) {
  start = std::max(start, known_end);
  while (start < text.size()) {
    const CodePoint c = code_point_at(text, start);
    if (!is_space(c.value)) break;
    start += static_cast<size_t>(c.length);
  }
  return start;
}

}  // namespace

AddedToken AddedToken::from_json(const JsonView& json) {
  AddedToken token;
  const JsonView content = json.at("content");
  token.content = content.string();
  if (token.content.size() > kMaxTokenBytes)
    content.fail("longer than " + std::to_string(kMaxTokenBytes) + " bytes");
  const auto read = [&](const char* key, bool& flag) {
    if (const auto value = json.find(key)) flag = value->boolean();
  };
  read("single_word", token.single_word);
  read("lstrip", token.lstrip);
  read("rstrip", token.rstrip);
  read("special", token.special);
  token.normalized = !token.special;
  read("normalized", token.normalized);
  return token;
}

void TokenTrie::insert(std::string_view token, int32_t id) {
  if (token.empty()) {
    empty_ = id;
    return;
  }
  starts_[static_cast<uint8_t>(token.front())] = true;
  int32_t node = 0;
  for (const char c : token) {
    int32_t next = child(node, c);
    if (next < 0) {
      next = static_cast<int32_t>(nodes_.size());
      nodes_.emplace_back();
      nodes_[static_cast<size_t>(node)].next.emplace_back(c, next);
    }
    node = next;
  }
  nodes_[static_cast<size_t>(node)].id = id;
}

int32_t TokenTrie::child(int32_t node, char c) const {
  for (const auto& [byte, next] : nodes_[static_cast<size_t>(node)].next)
    if (byte == c) return next;
  return -1;
}

std::optional<TokenTrie::Match> TokenTrie::find(std::string_view text, size_t position,
                                                bool empty_at_once) const {
  bool takes_empty = empty_ >= 0 && empty_at_once;
  for (; position < text.size(); ++position) {
    if (starts_[static_cast<uint8_t>(text[position])])
      if (const auto longest = longest_at(text, position)) return longest;
    const bool inside = (static_cast<uint8_t>(text[position]) & 0xC0) == 0x80;  // a character
    if (takes_empty && !inside) return Match{position, position, empty_};
    takes_empty = empty_ >= 0;
  }
  if (takes_empty && position == text.size()) return Match{position, position, empty_};
  return std::nullopt;
}

std::optional<TokenTrie::Match> TokenTrie::longest_at(std::string_view text,
                                                      size_t position) const {
  std::optional<Match> longest;
  int32_t node = 0;
  for (size_t i = position; i < text.size(); ++i) {
    node = child(node, text[i]);
    if (node < 0) break;
    const int32_t id = nodes_[static_cast<size_t>(node)].id;
    if (id >= 0) longest = Match{position, i + 1, id};
  }
  return longest;
}

void AddedTokens::add(const std::vector<AddedToken>& tokens, const TokenModel& model,
                      const Normalizer* normalizer, std::string_view file) {
  int32_t next = next_id(model);
  size_t bytes = 0;
  for (const AddedToken& token : tokens) bytes += token.content.size();
  GrowthBudget budget(file, bytes);
  for (const AddedToken& token : tokens) {
    if (token.content.empty()) continue;
    const auto known = find(token.content);
    const auto id = known ? known : model.token_to_id(token.content);
    Entry entry{token, token.content, token.content};
    if (token.normalized && normalizer)
      entry.match = normalized_content(*normalizer, token.content, budget);
    Entry& now = by_id_[id ? *id : next];
    if (entry.match != token.content) {
      entry.text = entry.match;
    } else if (known && now.text != now.token.content) {
      entry.text = now.text;  // the library does not forget it
    }
    now = std::move(entry);
    ids_[token.content] = id ? *id : next;
    if (!id) ++next;
    if (token.special) special_.insert(token.content);
  }
  build_tries();
}

int32_t AddedTokens::next_id(const TokenModel& model) const {
  const int32_t largest = max_id();
  return largest >= model.num_tokens() ? largest + 1 : model.num_tokens();
}

int32_t AddedTokens::max_id() const {
  int32_t largest = -1;
  for (const auto& [id, entry] : by_id_) largest = std::max(largest, id);
  return largest;
}

void AddedTokens::build_tries() {
  raw_ = normalized_ = TokenTrie();
  const std::map<int32_t, const Entry*> sorted = [&] {
    std::map<int32_t, const Entry*> entries;
    for (const auto& [id, entry] : by_id_) entries[id] = &entry;
    return entries;
  }();
  for (const auto& [id, entry] : sorted)
    (entry->token.normalized ? normalized_ : raw_).insert(entry->match, id);
}

bool AddedTokens::stands_alone(std::string_view text, const TokenTrie::Match& match) const {
  const bool word_before =
      match.start > 0 && is_word(code_point_at(text, previous_position(text, match.start)).value);
  const bool word_after = match.end < text.size() && is_word(code_point_at(text, match.end).value);
  return !word_before && !word_after;
}

void AddedTokens::split(std::string_view text, bool normalized, const Sink& sink) const {
  const TokenTrie& trie = normalized ? normalized_ : raw_;
  size_t done = 0;       // up to here the text has been given to the sink
  size_t space_end = 0;  // of the white space that was scanned last, so that it is scanned once
  const auto next = [&](const TokenTrie::Match& match) {
    const bool empty = match.start == match.end;
    return trie.find(text, match.end + (empty ? 1 : 0), /*empty_at_once=*/empty);
  };
  for (auto match = trie.find(text, 0, true); match; match = next(*match)) {
    const AddedToken& token = by_id_.at(match->id).token;
    if (ignore_special_ && special_.count(token.content)) continue;
    if (token.single_word && !stands_alone(text, *match)) continue;
    size_t start = match->start, end = match->end;
    if (token.lstrip) start = std::max(spaces_start(text, start, done), done);
    if (token.rstrip) end = space_end = spaces_end(text, end, space_end);
    if (start > end) continue;  // all of it went to the token before, as white space
    if (done < start) sink.text(text.substr(done, start - done));
    if (start < end) sink.token(match->id);
    done = end;
  }
  if (done < text.size()) sink.text(text.substr(done));
}

std::optional<int32_t> AddedTokens::find(std::string_view content) const {
  const auto found = ids_.find(std::string(content));
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

std::optional<std::string_view> AddedTokens::text(int32_t id) const {
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return std::nullopt;
  return found->second.text;
}

}  // namespace tandem
