// Tokens beside the model's vocabulary, found in the text before anything else: special tokens such
// as <mask>, and tokens added after training.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "text/pipeline/text_pipeline.h"

namespace tandem {

struct AddedToken {
  std::string content;
  bool single_word = false;  // not inside a word
  bool lstrip = false;       // takes the white space on its left with it
  bool rstrip = false;
  bool normalized = true;  // looked for in the normalised text, else in the raw one
  bool special = false;    // decode() can skip it

  static AddedToken from_json(const JsonView& json);
};

// Finds the longest of several strings that starts at a position.
class TokenTrie {
 public:
  TokenTrie() : nodes_(1) {}
  // An empty token (a normalizer can leave nothing of one) is found between all characters where no
  // other is, and so parts them, as in the library.
  void insert(std::string_view token, int32_t id);
  struct Match {
    size_t start, end;
    int32_t id;
  };
  // The leftmost match from `position` on; of those that start there, the longest. empty_at_once:
  // whether an empty match may be at `position`; not right behind another match.
  std::optional<Match> find(std::string_view text, size_t position, bool empty_at_once) const;

 private:
  struct Node {
    int32_t id = -1;
    std::vector<std::pair<char, int32_t>> next;
  };
  int32_t child(int32_t node, char c) const;
  std::optional<Match> longest_at(std::string_view text, size_t position) const;

  std::vector<Node> nodes_;
  int32_t empty_ = -1;              // the empty token; below 0: there is none
  std::array<bool, 256> starts_{};  // first bytes of tokens
};

class AddedTokens {
 public:
  // A token that the model knows keeps the model's id; others are numbered from its end on. A token
  // added again gets the new properties. `file` is for errors of the normalizer.
  void add(const std::vector<AddedToken>& tokens, const TokenModel& model,
           const Normalizer* normalizer, std::string_view file);
  // Treats special tokens in the text as ordinary text.
  void ignore_special_in_text() { ignore_special_ = true; }

  // Exactly one of the two is called for each piece of the text, in order.
  struct Sink {
    std::function<void(std::string_view)> text;
    std::function<void(int32_t)> token;
  };
  // Looks for tokens in raw (`normalized` false) or normalised text.
  void split(std::string_view text, bool normalized, const Sink& sink) const;

  std::optional<int32_t> find(std::string_view content) const;
  // Text of an added token; nothing if `id` is not one.
  std::optional<std::string_view> text(int32_t id) const;
  bool is_special(std::string_view text) const { return special_.count(std::string(text)) != 0; }
  int32_t max_id() const;

 private:
  struct Entry {
    AddedToken token;
    std::string match;  // what is looked for: the content, normalised if the token is
    std::string text;   // that is decoded: the same, or what was looked for before
  };
  int32_t next_id(const TokenModel& model) const;
  void build_tries();
  bool stands_alone(std::string_view text, const TokenTrie::Match& match) const;

  std::unordered_map<int32_t, Entry> by_id_;
  std::unordered_map<std::string, int32_t> ids_;
  std::unordered_set<std::string> special_;
  TokenTrie raw_, normalized_;
  bool ignore_special_ = false;
};

}  // namespace tandem
