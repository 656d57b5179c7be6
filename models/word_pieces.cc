#include "models/word_pieces.h"

#include <utility>

namespace tandem {
namespace {

using nlohmann::json;

bool flag(const JsonView& config, const char* key, bool otherwise) {
  const auto value = config.find(key);
  return value ? value->boolean() : otherwise;
}

}  // namespace

void bert_words(const TokenizerRule::StageInput& in, json& document) {
  const auto accents = in.config.find("strip_accents");
  document["normalizer"] = {
      {"type", "BertNormalizer"},
      {"clean_text", true},
      {"handle_chinese_chars", flag(in.config, "tokenize_chinese_chars", true)},
      {"strip_accents", accents ? accents->value() : json(nullptr)},
      {"lowercase", flag(in.config, "do_lower_case", true)}};
  json vocabulary = std::move(document["model"]["vocab"]);
  document["model"] = {{"type", "WordPiece"},
                       {"unk_token", in.token("unk_token")},
                       {"continuing_subword_prefix", "##"},
                       {"max_input_chars_per_word", 100},
                       {"vocab", std::move(vocabulary)}};
  document["pre_tokenizer"] = {{"type", "BertPreTokenizer"}};
  document["decoder"] = {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}};
}

}  // namespace tandem
