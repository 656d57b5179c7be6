#include "text/pipeline/models/subword_bpe.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/strings/utf8.h"
#include "text/pipeline/models/symbol_bpe.h"
#include "text/pipeline/models/vocabulary.h"
#include "text/unicode/letter_case.h"
#include "text/unicode/unicode_classes.h"

namespace tandem {
namespace {

constexpr std::string_view kGoesOn = "@@", kNewLine = "__newln__";

// A run of characters that are no space, and the line's end behind it, with spaces around
// punctuation.
std::string spaced(std::string_view run) {
  std::string out;
  bool after_space = false;
  const auto space = [&] {
    if (!after_space) out += ' ';
    after_space = true;
  };
  for (const char c : run) {
    if (c == '\n') {
      if (!after_space) out.append(" ").append(kNewLine);
      continue;
    }
    if (std::string_view(".,!?()'").find(c) != std::string_view::npos) space();
    out += c;
    after_space = false;
    if (c == '\'') space();
  }
  return out;
}

// What the merges work on: characters, the last one of a word with kEnd, and what they become.
std::vector<std::string> symbols_of(const JsonView& vocabulary) {
  std::vector<std::string> out;
  for (const auto& entry : vocabulary.object().items()) {
    const std::string& token = entry.key();
    out.push_back(token + std::string(SymbolBpe::kEnd));
    if (token.ends_with(kGoesOn)) out.push_back(token.substr(0, token.size() - kGoesOn.size()));
  }
  return out;
}

// A symbol within a word, or at its end, as pieces are written.
std::string token_of(std::string_view symbol) {
  if (symbol.ends_with(SymbolBpe::kEnd))
    return std::string(symbol.substr(0, symbol.size() - SymbolBpe::kEnd.size()));
  return std::string(symbol).append(kGoesOn);
}

class SubwordModel final : public VocabularyModel {
 public:
  SubwordModel(const JsonView& in, const std::string& unknown_token)
      : VocabularyModel(in.at("vocab")) {
    const auto unknown = vocabulary_.find(unknown_token);
    if (!unknown) in.at("vocab").fail("lacks " + unknown_token);
    const auto id_of = [&](std::string_view symbol) {
      return vocabulary_.find(token_of(symbol)).value_or(*unknown);
    };
    symbols_.emplace(symbols_of(in.at("vocab")), in.at("merges"), id_of, *unknown);
  }

  std::unique_ptr<WordEncoder> word_encoder(GrowthBudget& budget) const override {
    return std::make_unique<Encoder>(*this, budget);
  }

 private:
  class Encoder final : public WordEncoder {
   public:
    Encoder(const SubwordModel& model, GrowthBudget& budget) : symbols_(*model.symbols_, budget) {}
    void encode(std::string_view text, std::vector<int32_t>& ids) override {
      for (size_t at = 0; at < text.size();) {
        size_t end = at;
        while (end < text.size() && !is_space(code_point_at(text, end).value))
          end += static_cast<size_t>(code_point_at(text, end).length);
        if (end == at) {
          at += static_cast<size_t>(code_point_at(text, at).length);
          continue;
        }
        if (end < text.size() && text[end] == '\n') ++end;
        encode_run(spaced(text.substr(at, end - at)), ids);
        at = end;
      }
    }

   private:
    void encode_run(std::string_view run, std::vector<int32_t>& ids) {
      while (!run.empty()) {
        const size_t space = std::min(run.find(' '), run.size());
        if (space > 0) symbols_.encode(lower_case(run.substr(0, space)), ids);
        run.remove_prefix(std::min(space + 1, run.size()));
      }
    }

    SymbolBpe::Encoder symbols_;
  };

  std::optional<SymbolBpe> symbols_;
};

class SubwordDecoder final : public Decoder {
 public:
  std::string token_bytes(std::string_view token) const override {
    if (token.ends_with(kGoesOn))
      return std::string(token.substr(0, token.size() - kGoesOn.size()));
    return std::string(token) + ' ';
  }
  // "@@" is taken away before a space only, and there is one between any two tokens.
  std::string inner_text(std::string_view token) const override {
    return std::string(1, ' ').append(token);
  }
  bool trims_spaces() const override { return true; }
  std::string_view ending(std::string_view token) const override {
    return token.ends_with(kGoesOn) ? kGoesOn : std::string_view();
  }
};

}  // namespace

std::unique_ptr<TokenModel> make_subword_model(const JsonView& json,
                                               const std::string& unknown_token) {
  return std::make_unique<SubwordModel>(json, unknown_token);
}

std::unique_ptr<Decoder> make_subword_decoder() { return std::make_unique<SubwordDecoder>(); }

}  // namespace tandem
