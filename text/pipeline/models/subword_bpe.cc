#include "text/pipeline/models/subword_bpe.h"

#include <unicode/bytestream.h>
#include <unicode/casemap.h>
#include <unicode/stringpiece.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/strings/utf8.h"
#include "text/pipeline/models/bpe_model.h"
#include "text/pipeline/models/vocabulary.h"
#include "text/unicode/unicode_classes.h"

namespace tandem {
namespace {

using nlohmann::json;

constexpr std::string_view kGoesOn = "@@", kEnd = "</w>", kNewLine = "__newln__";
constexpr const char* kNoSymbol = " ";  // in no piece

std::string lower_case(std::string_view text) {
  UErrorCode status = U_ZERO_ERROR;
  std::string out;
  icu::StringByteSink<std::string> sink(&out);
  const icu::StringPiece piece(text.data(), static_cast<int32_t>(text.size()));
  icu::CaseMap::utf8ToLower("", 0, piece, sink, nullptr, status);
  TANDEM_CHECK(U_SUCCESS(status));
  return out;
}

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
json symbols_model(const JsonView& in) {
  json vocabulary = {{kNoSymbol, 0}};
  const auto add = [&](std::string symbol) {
    if (!symbol.empty()) vocabulary.emplace(std::move(symbol), vocabulary.size());
  };
  for (const auto& entry : in.at("vocab").object().items()) {
    const std::string& token = entry.key();
    add(token + std::string(kEnd));
    if (token.ends_with(kGoesOn)) add(token.substr(0, token.size() - kGoesOn.size()));
  }
  const JsonView merges = in.at("merges");
  for (size_t i = 0, n = merges.size(); i < n; ++i) {
    const std::string& merge = merges.at(i).string();
    const size_t space = merge.find(' ');
    if (space == std::string::npos) merges.at(i).fail("expected two tokens");
    std::string left = merge.substr(0, space), right = merge.substr(space + 1);
    add(left + right);
    add(std::move(left));
    add(std::move(right));
  }
  return {{"type", "BPE"},
          {"vocab", std::move(vocabulary)},
          {"merges", merges.value()},
          {"unk_token", kNoSymbol},
          {"end_of_word_suffix", kEnd}};
}

class SubwordModel final : public VocabularyModel {
 public:
  SubwordModel(const JsonView& in, const std::string& unknown_token)
      : VocabularyModel(in.at("vocab")) {
    const auto unknown = vocabulary_.find(unknown_token);
    if (!unknown) in.at("vocab").fail("lacks " + unknown_token);
    const json model = symbols_model(in);
    symbols_ = std::make_unique<BpeModel>(JsonView(model, in.file()));
    for (int32_t symbol = 0; symbol <= symbols_->max_id(); ++symbol) {
      std::string token(symbols_->id_to_token(symbol).value_or(kNoSymbol));
      if (token.ends_with(kEnd))
        token.resize(token.size() - kEnd.size());
      else
        token += kGoesOn;
      ids_.push_back(vocabulary_.find(token).value_or(*unknown));
    }
    ids_[0] = *unknown;
  }

  std::unique_ptr<WordEncoder> word_encoder(GrowthBudget& budget) const override {
    return std::make_unique<Encoder>(*this, budget);
  }

 private:
  class Encoder final : public WordEncoder {
   public:
    Encoder(const SubwordModel& model, GrowthBudget& budget)
        : model_(model), symbols_(model.symbols_->word_encoder(budget)) {}
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
        if (space > 0) encode_word(lower_case(run.substr(0, space)), ids);
        run.remove_prefix(std::min(space + 1, run.size()));
      }
    }
    void encode_word(std::string_view word, std::vector<int32_t>& ids) {
      found_.clear();
      symbols_->encode(word, found_);
      for (const int32_t symbol : found_) ids.push_back(model_.ids_[static_cast<size_t>(symbol)]);
    }

    const SubwordModel& model_;
    std::unique_ptr<WordEncoder> symbols_;
    std::vector<int32_t> found_;
  };

  std::unique_ptr<TokenModel> symbols_;
  std::vector<int32_t> ids_;  // by symbol
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
