// tokenizer.json, or vocab.json and merges.txt, and the files beside them.
#include "text/tokenizer_files.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"
#include "text/pipeline/precompiled.h"
#include "text/pipeline/special_tokens.h"
#include "text/sentencepiece/piece_normalizer.h"

namespace tandem {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

OptionalFile read_optional(const fs::path& file) {
  OptionalFile out;
  out.name = file.string();
  std::error_code error;
  out.exists = fs::exists(file, error);
  if (out.exists) out.value = parse_json(read_text_file(file), out.name);
  out.view().object();  // or an error
  return out;
}

// The class that AutoTokenizer takes; empty if no file names one.
std::string class_name(const OptionalFile& tokenizer_config, const OptionalFile& config) {
  std::string name;
  for (const OptionalFile* file : {&config, &tokenizer_config})  // the latter counts
    if (const auto found = file->view().find("tokenizer_class")) name = found->string();
  if (name.ends_with("Fast")) name.resize(name.size() - 4);
  return name;
}

const TokenizerRule* find_rule(std::span<const TokenizerRule> rules, const std::string& name,
                               const std::string& model_type) {
  for (const TokenizerRule& rule : rules)
    if (name.empty() ? !model_type.empty() && model_type == rule.model_type
                     : name == rule.class_name)
      return &rule;
  return nullptr;
}

const TokenizerRule* rule_of(const CheckpointFiles& in, std::span<const TokenizerRule> rules) {
  std::string model_type;
  if (const auto type = in.model_config.view().find("model_type")) model_type = type->string();
  return find_rule(rules, class_name(in.config, in.model_config), model_type);
}

// The merges of merges.txt, one a line, as tokenizer.json has them.
json read_merges(const fs::path& file) {
  const std::string text = read_text_file(file);
  json merges = json::array();
  size_t line_number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    at = end + 1;
    ++line_number;
    if (line.ends_with('\r')) line.pop_back();
    if (line.starts_with("#version")) continue;
    if (std::count(line.begin(), line.end(), ' ') != 1)
      throw invalid_model(file.string(), "line " + std::to_string(line_number) +
                                             ": expected two tokens and a space between them");
    merges.push_back(std::move(line));
  }
  return merges;
}

// A document with nothing but the model.
OptionalFile read_vocabulary_and_merges(const fs::path& directory) {
  const fs::path vocabulary = directory / "vocab.json", merges = directory / "merges.txt";
  json model = {{"type", "BPE"}, {"merges", read_merges(merges)}};
  model["vocab"] = parse_json(read_text_file(vocabulary), vocabulary.string());
  OptionalFile document;
  document.name = vocabulary.string() + " and merges.txt";
  document.value["model"] = std::move(model);
  return document;
}

// What HuggingFace converts spiece.model to; "<extra_id_0>" is the last token.
OptionalFile read_pieces(const fs::path& file, const OptionalFile& config) {
  const PieceModel pieces = read_piece_model(file);
  json vocabulary = json::array(), model = {{"type", "Unigram"}};
  for (size_t i = 0; i < pieces.pieces.size(); ++i) {
    const PieceModel::Piece& piece = pieces.pieces[i];
    vocabulary.push_back(json::array({piece.text, piece.score}));
    if (piece.type == PieceModel::Type::kUnknown) model["unk_id"] = i;
  }
  int32_t extra_ids = 100;
  if (const auto count = config.view().find("extra_ids")) extra_ids = count->id();
  for (int32_t i = extra_ids - 1; i >= 0; --i)
    vocabulary.push_back(json::array({"<extra_id_" + std::to_string(i) + ">", 0.0}));
  model["vocab"] = std::move(vocabulary);
  OptionalFile document;
  document.name = file.string();
  document.value["model"] = std::move(model);
  if (!pieces.charsmap.empty())
    document.value["normalizer"] = {{"type", "Precompiled"},
                                    {"precompiled_charsmap", base64_of(pieces.charsmap)}};
  return document;
}

// Says why the directory has no tokenizer that can be read.
[[noreturn]] void fail_without_tokenizer(const fs::path& directory) {
  std::error_code error;
  for (const char* name :
       {"spiece.model", "sentencepiece.bpe.model", "source.spm", "tokenizer.model"})
    if (fs::exists(directory / name, error))
      throw not_supported((directory / name).string(),
                          "SentencePiece models are not supported; a tokenizer.json is needed");
  throw invalid_model(directory.string(),
                      "there is no tokenizer.json, nor vocab.json with merges.txt");
}

// The token of the source's language.
std::string source_token(const TokenizerRule& rule, const OptionalFile& config) {
  const auto named = config.view().find("src_lang");
  return rule.languages.token(named ? named->string() : rule.languages.fallback);
}

// A template in the form of tokenizer.json; its tokens are noted in `out`.
json template_json(const TokenizerRule::Template& parts, const SpecialTokens& tokens,
                   const std::string& source, TokenizerFiles& out) {
  json list = json::array();
  for (const std::string& part : parts) {
    if (part == "$A" || part == "$B") {
      list.push_back({{"Sequence", {{"id", part.substr(1)}}}});
      continue;
    }
    if (part == "$source") out.source_token = source;
    if (part == "$source" && source.empty()) continue;
    const std::string named = part == "$source" ? source : tokens.content(part);
    const std::string& token = named.empty() ? part : named;
    out.template_tokens.push_back(token);
    list.push_back({{"SpecialToken", {{"id", token}}}});
  }
  return list;
}

bool has_any(const OptionalFile& config, const std::vector<std::string>& keys) {
  for (const std::string& key : keys)
    if (config.view().find(key)) return true;
  return false;
}

void add_template(const TokenizerRule& rule, const OptionalFile& config,
                  const SpecialTokens& tokens, bool has_tokenizer_json, TokenizerFiles& out) {
  const bool of_rule = !rule.single.empty() && !has_any(config, rule.template_keys);
  if (!of_rule && has_tokenizer_json) return;
  const auto make = [&](const TokenizerRule::Template& mine, const TokenizerRule::Template& plain) {
    return template_json(of_rule ? mine : plain, tokens, source_token(rule, config), out);
  };
  json single = make(rule.single, {"$A"}), pair = make(rule.pair, {"$A", "$B"});
  if (of_rule) {
    out.languages = rule.languages;
    out.source_first = rule.single.front() == "$source";
    out.source_last = rule.single.back() == "$source";
  }
  out.document["post_processor"] = {
      {"type", "TemplateProcessing"}, {"single", std::move(single)}, {"pair", std::move(pair)}};
}

// The table of characters in a document's normalizer; null: there is none.
json precompiled_of(const JsonView& document) {
  const auto normalizer = document.find("normalizer");
  if (!normalizer) return nullptr;
  const auto is_precompiled = [](const JsonView& component) {
    return component.at("type").string() == "Precompiled";
  };
  if (is_precompiled(*normalizer)) return normalizer->value();
  if (const auto parts = normalizer->find("normalizers"))
    for (size_t i = 0, n = num_parts(*parts); i < n; ++i)
      if (is_precompiled(parts->at(i))) return parts->at(i).value();
  return nullptr;
}

json normalizer_of_words(const TokenizerRule& rule, const JsonView& document) {
  using Normalizer = TokenizerRule::WordOptions::Normalizer;
  if (rule.words.normalizer == Normalizer::kNone) return nullptr;
  json table = precompiled_of(document);
  if (rule.words.normalizer == Normalizer::kTable) return table;
  if (table.is_null())
    document.fail_unsupported("a normalizer without a table of characters is not supported");
  const json spaces = {{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", " "}};
  return {{"type", "Sequence"}, {"normalizers", json::array({std::move(table), spaces})}};
}

// Words that begin with SentencePiece's symbol.
void rebuild_words(const TokenizerRule& rule, const OptionalFile& config,
                   const SpecialTokens& tokens, bool has_tokenizer_json, TokenizerFiles& out) {
  out.document["normalizer"] = normalizer_of_words(rule, JsonView(out.document, out.file));
  if (rule.kind == TokenizerRule::Kind::kPieceBpe) {
    json& model = out.document["model"];
    model = {{"type", "BPE"},
             {"vocab", std::move(model["vocab"])},
             {"merges", std::move(model["merges"])},
             {"unk_token", tokens.content("unk_token")},
             {"fuse_unk", true}};
  }
  const json metaspace = {
      {"type", "Metaspace"}, {"replacement", kSpaceSymbol}, {"prepend_scheme", "always"}};
  const json words = {{"type", "WhitespaceSplit"}};
  out.document["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       rule.words.split_whitespace ? json::array({words, metaspace}) : json::array({metaspace})}};
  out.document["decoder"] = metaspace;
  add_template(rule, config, tokens, has_tokenizer_json, out);
}

// The stages that the class builds, whatever tokenizer.json has there.
void rebuild(const TokenizerRule& rule, const OptionalFile& config, const SpecialTokens& tokens,
             bool has_tokenizer_json, TokenizerFiles& out) {
  using Kind = TokenizerRule::Kind;
  if (rule.kind == Kind::kUnigram || rule.kind == Kind::kPieceBpe)
    return rebuild_words(rule, config, tokens, has_tokenizer_json, out);
  json& document = out.document;
  json model = {{"type", "BPE"}};
  for (const char* key : {"vocab", "merges"})
    if (document["model"].contains(key)) model[key] = std::move(document["model"][key]);
  document["model"] = std::move(model);
  bool add_prefix_space = rule.add_prefix_space;
  if (const auto flag = config.view().find("add_prefix_space")) add_prefix_space = flag->boolean();
  document["normalizer"] = nullptr;
  document["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", add_prefix_space}};
  document["decoder"] = {{"type", "ByteLevel"}};
  add_template(rule, config, tokens, has_tokenizer_json, out);
}

int read_max_length(const OptionalFile& config) {
  const auto length = config.view().find("model_max_length");
  if (!length) return 0;
  if (!length->value().is_number()) length->fail("expected a number");
  const double value = length->value().get<double>();  // 1e30 stands for "not known"
  return value >= 1 && value < 1e9 ? static_cast<int>(value) : 0;
}

void read_settings(const OptionalFile& config, TokenizerFiles& out) {
  out.model_max_length = read_max_length(config);
  if (const auto flag = config.view().find("split_special_tokens"))
    out.split_special_tokens = flag->boolean();
}

// Without a document: the model is of the .spm files, and vocab.json.
TokenizerFiles combine_sentencepiece(CheckpointFiles in, const TokenizerRule& rule) {
  const SpecialTokens tokens(in.config, in.special_tokens_map, in.added_tokens, in.document.view(),
                             rule.special_tokens);
  TokenizerFiles out;
  out.file = in.vocabulary.name;
  out.added_tokens = {tokens.to_add({})};
  out.document = json::object();
  out.sentencepiece =
      SentencePieceFiles{std::move(in.vocabulary.value), std::move(in.source), std::move(in.target),
                         tokens.content("unk_token"), rule.sentencepiece};
  add_template(rule, in.config, tokens, /*has_tokenizer_json=*/false, out);
  read_settings(in.config, out);
  return out;
}

// Whatever tokenizer.json says.
TokenizerFiles combine_subwords(CheckpointFiles in, const TokenizerRule& rule) {
  const SpecialTokens tokens(in.config, in.special_tokens_map, in.added_tokens,
                             OptionalFile().view(), rule.special_tokens);
  TokenizerFiles out;
  out.file = in.document.name;
  out.document = std::move(in.document.value);
  out.added_tokens = {tokens.to_add({})};
  out.subword_unknown = tokens.content("unk_token");
  add_template(rule, in.config, tokens, /*has_tokenizer_json=*/false, out);
  read_settings(in.config, out);
  return out;
}

bool has_model_of(const TokenizerRule& rule, const JsonView& document) {
  const auto type = document.at("model").find("type");
  if (rule.kind == TokenizerRule::Kind::kUnigram) {
    // With tokens for bytes HuggingFace takes the stages of the file, whatever the class.
    const auto bytes = document.at("model").find("byte_fallback");
    return type && type->string() == "Unigram" && !(bytes && bytes->boolean());
  }
  return !type || type->string() == "BPE";
}

}  // namespace

TokenizerFiles tokenizer_from_document(json document, const std::string& file) {
  TokenizerFiles out;
  out.document = std::move(document);
  out.file = file;
  out.added_tokens.push_back(read_added_tokens(JsonView(out.document, file)));
  return out;
}

TokenizerFiles combine(CheckpointFiles in, std::span<const TokenizerRule> rules) {
  const TokenizerRule* rule = rule_of(in, rules);
  if (rule && rule->kind == TokenizerRule::Kind::kSentencePiece)
    return combine_sentencepiece(std::move(in), *rule);
  if (rule && rule->kind == TokenizerRule::Kind::kSubwordBpe)
    return combine_subwords(std::move(in), *rule);
  const bool has_tokenizer_json = in.document.exists;
  if (has_tokenizer_json) {
    if (rule && !has_model_of(*rule, in.document.view())) rule = nullptr;
  } else if (!rule || !has_model_of(*rule, in.document.view())) {
    const std::string name = class_name(in.config, in.model_config);
    if (!name.empty() || rules.empty())
      throw not_supported(in.config.name,
                          "tokenizer_class: " + printable(name) + " without a tokenizer.json");
    rule = &rules.front();
  }

  TokenizerFiles out;
  const SpecialTokens tokens(in.config, in.special_tokens_map, in.added_tokens, in.document.view(),
                             rule ? rule->special_tokens : TokenizerRule::Tokens{});
  std::vector<AddedToken> present;
  if (!rule) present = read_added_tokens(in.document.view());
  out.added_tokens = {present, tokens.to_add(present)};
  out.document = std::move(in.document.value);
  out.file = in.document.name;
  if (rule) rebuild(*rule, in.config, tokens, has_tokenizer_json, out);
  read_settings(in.config, out);
  return out;
}

TokenizerFiles read_tokenizer_files(const fs::path& directory,
                                    std::span<const TokenizerRule> rules) {
  CheckpointFiles files;
  files.config = read_optional(directory / "tokenizer_config.json");
  files.special_tokens_map = read_optional(directory / "special_tokens_map.json");
  files.added_tokens = read_optional(directory / "added_tokens.json");
  files.model_config = read_optional(directory / "config.json");
  const TokenizerRule* rule = rule_of(files, rules);
  if (rule && rule->kind == TokenizerRule::Kind::kSentencePiece) {
    files.source = read_piece_model(directory / rule->sentencepiece.source);
    if (rule->sentencepiece.vocabulary != nullptr) {
      files.vocabulary.name = files.source.file;
      files.vocabulary.value = rule->sentencepiece.vocabulary(files.source, files.config.value);
    } else {
      files.vocabulary.name = (directory / "vocab.json").string();
      files.vocabulary.value =
          parse_json(read_text_file(directory / "vocab.json"), files.vocabulary.name);
    }
    files.target = rule->sentencepiece.target == rule->sentencepiece.source
                       ? files.source
                       : read_piece_model(directory / rule->sentencepiece.target);
    return combine(std::move(files), rules);
  }
  if (rule == nullptr || rule->kind != TokenizerRule::Kind::kSubwordBpe)
    files.document = read_optional(directory / "tokenizer.json");
  std::error_code error;
  const bool of_pieces =
      rule && rule->kind == TokenizerRule::Kind::kUnigram && rule->words.from_pieces;
  if (!files.document.exists && of_pieces && fs::exists(directory / "spiece.model", error)) {
    files.document = read_pieces(directory / "spiece.model", files.config);
  } else if (!files.document.exists) {
    if (!fs::exists(directory / "vocab.json", error) ||
        !fs::exists(directory / "merges.txt", error))
      fail_without_tokenizer(directory);
    files.document = read_vocabulary_and_merges(directory);
  }
  return combine(std::move(files), rules);
}

}  // namespace tandem
