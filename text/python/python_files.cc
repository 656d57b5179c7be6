#include "text/python/python_files.h"

#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/strings/printable.h"
#include "text/class_template.h"
#include "text/moses/moses_characters.h"
#include "text/moses/moses_stream.h"
#include "text/pipeline/pre_tokenizers/byte_level.h"
#include "text/pipeline/special_tokens.h"

namespace tandem {
namespace {

using nlohmann::json;
using Kind = TokenizerRule::Kind;

// Of tokenizer.json they take the added tokens, and only where no other file has them.
SpecialTokens special_tokens(const CheckpointFiles& in, const TokenizerRule& rule) {
  return SpecialTokens(in.config, in.special_tokens_map, in.added_tokens, in.listed.view(), rule);
}

void combine_sentencepiece(CheckpointFiles& in, const TokenizerRule& rule,
                           const SpecialTokens& tokens, TokenizerFiles& out) {
  out.file = in.vocabulary.name;
  out.document = json::object();
  SentencePieceFiles files;
  files.vocabulary = std::move(in.vocabulary.value);
  if (in.target_vocabulary.exists) files.target_vocabulary = std::move(in.target_vocabulary.value);
  // With one vocabulary HuggingFace decodes with the source's model.
  files.target = in.target_vocabulary.exists ? std::move(in.target) : in.source;
  files.source = std::move(in.source);
  files.unknown_token = tokens.content("unk_token");
  files.options = rule.sentencepiece;
  out.sentencepiece = std::move(files);
}

void combine_subwords(CheckpointFiles& in, const SpecialTokens& tokens, TokenizerFiles& out) {
  out.file = in.document.name;
  out.document = std::move(in.document.value);
  out.subword_unknown = tokens.content("unk_token");
}

// The languages' names choose Moses' rules.
void combine_moses(CheckpointFiles& in, const SpecialTokens& tokens, TokenizerFiles& out) {
  const JsonView languages = in.config.view().at("langs");
  if (languages.size() != 2)
    languages.fail("expected two languages, the source's and the target's");
  MosesFiles files;
  files.source_language = languages.at(0).string();
  files.target_language = languages.at(1).string();
  if (!moses::knows(files.source_language))
    languages.at(0).fail_unsupported("texts in " + in_quotes(files.source_language) +
                                     " are not supported: de, en, ru");
  if (!moses::joins(files.target_language))
    languages.at(1).fail_unsupported("texts in " + in_quotes(files.target_language) +
                                     " are not supported");
  files.source = std::move(in.vocabulary.value);
  files.target = std::move(in.target_vocabulary.value);
  files.merges = std::move(in.merges);
  files.lower_case = is_set(in.config, "do_lower_case");
  files.unknown_token = tokens.content("unk_token");
  out.file = in.vocabulary.name;
  out.document = json::object();
  out.moses = std::move(files);
}

// No file but for settings. The class numbers its special tokens before the bytes.
void combine_bytes(const CheckpointFiles& in, const TokenizerRule& rule,
                   const SpecialTokens& tokens, TokenizerFiles& out) {
  out.file = in.config.name;
  std::vector<std::string> first;
  for (const auto& [key, unused] : rule.special_tokens) {
    const AddedToken* token = tokens.named(key);
    if (token == nullptr) in.config.view().fail(key + " is null");
    out.python->by_id.emplace(static_cast<int32_t>(first.size()), *token);
    first.push_back(token->content);
  }
  out.document = byte_document(first);
}

}  // namespace

bool runs_in_python(Kind kind) {
  return kind == Kind::kSentencePiece || kind == Kind::kSubwordBpe || kind == Kind::kMosesBpe ||
         kind == Kind::kBytes;
}

TokenizerFiles combine_python_files(CheckpointFiles in, const TokenizerRule& rule) {
  const SpecialTokens tokens = special_tokens(in, rule);
  TokenizerFiles out;
  out.python = PythonTokenList{tokens.by_id(), tokens.contents(), {}};
  if (rule.reserved_tokens != nullptr)
    out.python->reserved = rule.reserved_tokens(in.config.view());
  if (rule.kind == Kind::kSentencePiece) combine_sentencepiece(in, rule, tokens, out);
  if (rule.kind == Kind::kSubwordBpe) combine_subwords(in, tokens, out);
  if (rule.kind == Kind::kMosesBpe) combine_moses(in, tokens, out);
  if (rule.kind == Kind::kBytes) combine_bytes(in, rule, tokens, out);
  if (rule.outside_is_unknown) out.outside = tokens.content("unk_token");
  add_template(rule, in.config, tokens, /*has_tokenizer_json=*/false, out);
  if (rule.kind == Kind::kBytes) out.document["post_processor"]["once"] = true;
  if (rule.languages.table != nullptr)
    for (const std::string& name : rule.languages.table(in.config.view()))
      out.language_tokens.push_back(rule.languages.token(name));
  read_settings(in.config, rule.kind == Kind::kSentencePiece && rule.sentencepiece.tidies, out);
  return out;
}

PythonVocabulary vocabulary_of_pieces(const TokenizerFiles& files, const TokenModel& model) {
  const auto& pieces = files.sentencepiece->source.pieces;
  std::set<std::string> all = {"<s>", "<pad>", "</s>", "<unk>"};
  for (const auto& piece : pieces) all.insert(piece.text);
  for (const auto& [id, token] : files.python->by_id) all.insert(token.content);
  PythonVocabulary out;
  out.size = static_cast<int32_t>(all.size());
  out.counts_added = false;
  out.find = [&pieces](std::string_view content) -> std::optional<int32_t> {
    for (size_t i = 0; i < pieces.size(); ++i)
      if (pieces[i].text == content) return static_cast<int32_t>(i);
    return std::nullopt;
  };
  out.find_reserved = [&files, &model](std::string_view content) {
    const auto id = model.token_to_id(content);
    return id ? id : model.token_to_id(files.sentencepiece->unknown_token);
  };
  return out;
}

}  // namespace tandem
