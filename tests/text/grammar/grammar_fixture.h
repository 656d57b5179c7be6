// Whole texts against grammars, and a tokenizer of given pieces.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/grammar/grammar.h"
#include "text/grammar/grammar_error.h"
#include "text/grammar/grammar_program.h"
#include "text/grammar/recogniser.h"
#include "text/tokenizer.h"

namespace tandem::grammar_test {

class Matcher {
 public:
  // parse: into the grammar; returns its root.
  explicit Matcher(const std::function<Grammar::Ref(Grammar&)>& parse)
      : program_(made(parse), nullptr), has_text_(program_.place(program_.start()).completes) {
    if (!has_text_) return;
    recogniser_.emplace(program_);
    recogniser_->clear();
  }

  bool has_text() const { return has_text_; }
  bool matches(std::string_view text) {
    const auto state = behind(text);
    return state != Recogniser::kDead && recogniser_->accepts(state);
  }
  // Whether some text begins so.
  bool begins(std::string_view text) { return behind(text) != Recogniser::kDead; }
  Recogniser::State behind(std::string_view text) {
    if (!has_text_) return Recogniser::kDead;
    auto state = recogniser_->start();
    for (const char byte : text) {
      if (state == Recogniser::kDead) break;
      state = recogniser_->next(state, static_cast<uint8_t>(byte));
    }
    return state;
  }
  Recogniser& recogniser() { return *recogniser_; }

 private:
  static Grammar made(const std::function<Grammar::Ref(Grammar&)>& parse) {
    Grammar grammar;
    grammar.set_root(parse(grammar));
    return grammar;
  }

  GrammarProgram program_;
  bool has_text_;
  std::optional<Recogniser> recogniser_;
};

// The message of the GrammarError that it throws; empty: it throws none.
inline std::string error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const GrammarError& error) {
    return error.what();
  }
  return {};
}

// Ids are places in `pieces`, an empty one is special.
class PieceTokenizer : public Tokenizer {
 public:
  explicit PieceTokenizer(std::vector<std::string> pieces) : pieces_(std::move(pieces)) {}

  std::vector<int32_t> encode(std::string_view, bool) const override { return {}; }
  std::string decode(const std::vector<int32_t>&, bool) const override { return {}; }
  std::string token_bytes(int32_t id) const override { return pieces_[static_cast<size_t>(id)]; }
  bool is_special(int32_t id) const override { return token_bytes(id).empty(); }
  int32_t size() const override { return static_cast<int32_t>(pieces_.size()); }
  std::optional<int32_t> token_to_id(std::string_view) const override { return std::nullopt; }
  int num_suffix_tokens() const override { return 0; }
  int model_max_length() const override { return 0; }

 protected:
  std::vector<std::string> pieces_;
};

}  // namespace tandem::grammar_test
