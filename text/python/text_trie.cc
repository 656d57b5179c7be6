// The order of decisions shows in what is found: as there, all candidates are followed at once, and
// the first one that is complete when the next character comes ends the search of all. Then the
// candidates that began no later are read on, from the first. One of them that has just failed is
// still read on, one character further.
#include "text/python/text_trie.h"

#include <algorithm>

#include "base/strings/utf8.h"

namespace tandem {

void TextTrie::insert(std::string_view token) {
  if (token.empty()) return;
  int32_t node = 0;
  for (size_t at = 0; at < token.size();) {
    const CodePoint c = code_point_at(token, at);
    at += static_cast<size_t>(c.length);
    const auto fresh = static_cast<int32_t>(nodes_.size());
    const auto [next, is_new] = nodes_[static_cast<size_t>(node)].next.emplace(c.value, fresh);
    node = next->second;
    if (is_new) nodes_.emplace_back();
  }
  nodes_[static_cast<size_t>(node)].ends = true;
}

int32_t TextTrie::child(int32_t node, char32_t c) const {
  const auto& next = nodes_[static_cast<size_t>(node)].next;
  const auto found = next.find(c);
  return found == next.end() ? -1 : found->second;
}

// Positions are those of characters.
class TextTrie::Scan {
 public:
  Scan(const TextTrie& trie, const std::vector<char32_t>& text) : trie_(trie), text_(text) {}

  // Where to cut; not in order where matches overlap.
  std::vector<size_t> run() {
    for (size_t at = 0; at < text_.size(); ++at) {
      if (at < skip_) continue;
      if (advance(at)) candidates_.clear();
      const int32_t first = at >= skip_ ? trie_.child(0, text_[at]) : -1;
      if (first >= 0) candidates_.push_back({at, first});
    }
    for (const Candidate& c : candidates_) {
      if (!ends(c.node)) continue;
      add({c.start, text_.size()});
      break;
    }
    return std::move(cuts_);
  }

 private:
  bool ends(int32_t node) const { return trie_.nodes_[static_cast<size_t>(node)].ends; }
  void add(const Match& match) {
    cuts_.push_back(match.start);
    cuts_.push_back(match.end);
  }

  // Reads the character at `at`. True: a match was found before it.
  bool advance(size_t at) {
    std::vector<size_t> failed;
    for (size_t i = 0; i < candidates_.size(); ++i) {
      Candidate& c = candidates_[i];
      if (ends(c.node)) {
        add(read_on(c.start, at));
        return true;
      }
      const int32_t next = trie_.child(c.node, text_[at]);
      if (next >= 0)
        c.node = next;
      else
        failed.push_back(i);
    }
    for (auto i = failed.rbegin(); i != failed.rend(); ++i)
      candidates_.erase(candidates_.begin() + static_cast<ptrdiff_t>(*i));
    return false;
  }

  // The candidate that began at `start` is complete before the character at `at`.
  Match read_on(size_t start, size_t at) {
    Match match{start, at};
    for (const Candidate& c : candidates_) {
      if (c.start > match.start) break;
      // Earlier ones have read the character at `at` already.
      size_t end = c.start < match.start ? at + 1 : at;
      match.end = end;
      const auto note = [&](int32_t node) {
        if (!ends(node)) return;
        match = {c.start, end};
        skip_ = end;
      };
      note(c.node);
      for (int32_t node = c.node; end < text_.size();) {
        node = trie_.child(node, text_[end]);
        if (node < 0) break;
        ++end;
        note(node);
      }
    }
    return match;
  }

  const TextTrie& trie_;
  const std::vector<char32_t>& text_;
  std::vector<Candidate> candidates_;  // by start
  std::vector<size_t> cuts_;
  size_t skip_ = 0;  // characters before it belong to a match
};

std::vector<std::string_view> TextTrie::split(std::string_view text) const {
  std::vector<char32_t> characters;
  std::vector<size_t> places;  // of characters, and the end
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = code_point_at(text, at);
    characters.push_back(c.value);
    places.push_back(at);
    at += static_cast<size_t>(c.length);
  }
  places.push_back(text.size());
  std::vector<size_t> cuts = Scan(*this, characters).run();
  cuts.push_back(characters.size());
  std::vector<std::string_view> parts;
  size_t begin = 0;
  for (const size_t cut : cuts) {
    const size_t end = std::min(cut, characters.size());
    if (end <= begin) continue;
    parts.push_back(text.substr(places[begin], places[end] - places[begin]));
    begin = end;
  }
  return parts;
}

}  // namespace tandem
