#include "text/sentencepiece/piece_document.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/strings/base64.h"
#include "base/strings/utf8.h"
#include "text/pipeline/special_tokens.h"

namespace tandem {
namespace {

using nlohmann::json;
using Tokens = TokenizerRule::PieceFile::Tokens;
using Type = PieceModel::Type;

Tokens tokens_of(Tokens (*make)(const JsonView&), const JsonView& config) {
  return make != nullptr ? make(config) : Tokens{};
}

// [["a", "b"], …]
json merges_of(const PieceModel& model) {
  std::unordered_map<std::string_view, size_t> ids;
  for (const PieceModel::Piece& piece : model.pieces) ids.emplace(piece.text, ids.size());
  json merges = json::array();
  for (const PieceModel::Piece& piece : model.pieces) {
    const std::string_view text = piece.text;
    for (size_t at = 0; at < text.size();) {
      at += static_cast<size_t>(code_point_at(text, at).length);
      if (at == text.size()) break;
      const std::string_view left = text.substr(0, at), right = text.substr(at);
      if (ids.count(left) && ids.count(right)) merges.push_back(json::array({left, right}));
    }
  }
  return merges;
}

bool is_named(const TokenizerRule& rule, const std::string& content) {
  return std::any_of(rule.special_tokens.begin(), rule.special_tokens.end(),
                     [&](const auto& named) { return named.second.content == content; });
}

class Document {
 public:
  Document(const PieceModel& model, const TokenizerRule& rule) : model_(model), rule_(rule) {}

  json make(const JsonView& config) {
    const TokenizerRule::PieceFile& file = rule_.pieces;
    extra_tokens_ = !lists_extra_tokens(config);
    add_special(tokens_of(file.before, config));
    for (size_t i = file.replaced; i < model_.pieces.size(); ++i) {
      const PieceModel::Piece& piece = model_.pieces[i];
      if (piece.type == Type::kControl || piece.type == Type::kUserDefined)
        note(piece.text, piece.type == Type::kControl);
      add(piece.text, static_cast<double>(piece.score));
    }
    add_special(tokens_of(file.behind, config));
    json document = {{"model", rule_.kind == TokenizerRule::Kind::kUnigram ? unigram() : bpe()},
                     {"added_tokens", std::move(added_)}};
    if (!model_.charsmap.empty())
      document["normalizer"] = {{"type", "Precompiled"},
                                {"precompiled_charsmap", encode_base64(model_.charsmap)}};
    return document;
  }

 private:
  void add(const std::string& content, double score) {
    vocabulary_.push_back(json::array({content, score}));
  }
  void add_special(const Tokens& tokens) {
    for (const TokenizerRule::PieceFile::Token& token : tokens) {
      note(token.content, /*special=*/true);
      add(token.content, token.score);
    }
  }
  // The next token is looked for in texts. How, the class says of those that it names.
  void note(const std::string& content, bool special) {
    if (extra_tokens_ && !is_named(rule_, content))
      added_.push_back({{"id", vocabulary_.size()},
                        {"content", content},
                        {"special", special},
                        {"normalized", false}});
  }

  json unigram() {
    json out = {{"type", "Unigram"}};
    const auto unknown = std::find_if(model_.pieces.begin(), model_.pieces.end(),
                                      [](const auto& p) { return p.type == Type::kUnknown; });
    if (unknown != model_.pieces.end())
      for (size_t id = 0; id < vocabulary_.size(); ++id)
        if (vocabulary_[id][0] == unknown->text) out["unk_id"] = id;
    out["vocab"] = std::move(vocabulary_);
    return out;
  }
  json bpe() const {
    json ids = json::object();
    for (size_t i = 0; i < vocabulary_.size(); ++i)
      ids.emplace(vocabulary_[i][0].get_ref<const std::string&>(), i);
    return {{"type", "BPE"}, {"vocab", std::move(ids)}, {"merges", merges_of(model_)}};
  }

  const PieceModel& model_;
  const TokenizerRule& rule_;
  bool extra_tokens_ = true;
  json vocabulary_ = json::array();  // [["token", score], …]
  json added_ = json::array();
};

}  // namespace

json piece_document(const PieceModel& model, const TokenizerRule& rule, const JsonView& config) {
  return Document(model, rule).make(config);
}

}  // namespace tandem
