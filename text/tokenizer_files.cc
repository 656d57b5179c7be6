// tokenizer.json, or vocab.json and merges.txt, and the files beside them.
#include "text/tokenizer_files.h"

#include <cstddef>
#include <cstdint>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "base/printable.h"
#include "text/pipeline/pre_tokenizers/byte_level.h"
#include "text/pipeline/special_tokens.h"
#include "text/sentencepiece/piece_normalizer.h"

namespace tandem {
namespace {

using nlohmann::json;

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
  const bool other = is_set(config, rule.alternative.flag);
  const TokenizerRule::Template& of_one = other ? rule.alternative.single : rule.single;
  json single = make(of_one, {"$A"});
  json pair = make(other ? rule.alternative.pair : rule.pair, {"$A", "$B"});
  if (of_rule) {
    out.languages = rule.languages;
    out.source_first = of_one.front() == "$source";
    out.source_last = of_one.back() == "$source";
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
  // HuggingFace's class of that kind leaves the text alone then; the others differ.
  if (table.is_null() && rule.kind == TokenizerRule::Kind::kPieceBpe) return nullptr;
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

// A whole text is a word in which SentencePiece's symbol stands for spaces.
void rebuild_text(const TokenizerRule& rule, const OptionalFile& config,
                  const SpecialTokens& tokens, bool has_tokenizer_json, TokenizerFiles& out) {
  const auto replace = [](std::string_view from, std::string_view to) {
    return json{{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
  };
  json& model = out.document["model"];
  model = {{"type", "BPE"},
           {"vocab", std::move(model["vocab"])},
           {"merges", std::move(model["merges"])},
           {"unk_token", tokens.content("unk_token")},
           {"fuse_unk", true},
           {"byte_fallback", true}};
  out.document["normalizer"] = replace(" ", kSpaceSymbol);
  out.document["pre_tokenizer"] = nullptr;
  out.document["decoder"] = {
      {"type", "Sequence"},
      {"decoders",
       json::array({replace(kSpaceSymbol, " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}})}};
  add_template(rule, config, tokens, has_tokenizer_json, out);
}

// The stages that the class builds, whatever tokenizer.json has there.
void rebuild(const TokenizerRule& rule, const OptionalFile& config, const SpecialTokens& tokens,
             bool has_tokenizer_json, TokenizerFiles& out) {
  using Kind = TokenizerRule::Kind;
  out.left_out = rule.left_out;
  if (rule.kind == Kind::kUnigram || rule.kind == Kind::kPieceBpe)
    return rebuild_words(rule, config, tokens, has_tokenizer_json, out);
  if (rule.kind == Kind::kTextBpe)
    return rebuild_text(rule, config, tokens, has_tokenizer_json, out);
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

// `tidies`: the class's.
void read_settings(const OptionalFile& config, bool tidies, TokenizerFiles& out) {
  out.model_max_length = read_max_length(config);
  out.tidies = tidies;
  if (const auto flag = config.view().find("clean_up_tokenization_spaces"))
    out.tidies = flag->boolean();
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
  SentencePieceFiles files;
  files.vocabulary = std::move(in.vocabulary.value);
  if (in.target_vocabulary.exists) files.target_vocabulary = std::move(in.target_vocabulary.value);
  // With one vocabulary HuggingFace decodes with the source's model.
  files.target = in.target_vocabulary.exists ? std::move(in.target) : in.source;
  files.source = std::move(in.source);
  files.unknown_token = tokens.content("unk_token");
  files.options = rule.sentencepiece;
  out.sentencepiece = std::move(files);
  add_template(rule, in.config, tokens, /*has_tokenizer_json=*/false, out);
  read_settings(in.config, rule.sentencepiece.tidies, out);
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
  read_settings(in.config, /*tidies=*/false, out);
  return out;
}

// <extra_id_0> … behind the bytes, but for those that are there already.
std::vector<AddedToken> with_extra_ids(std::vector<AddedToken> tokens, int32_t count) {
  std::unordered_set<std::string> present;
  for (const AddedToken& token : tokens) present.insert(token.content);
  AddedToken extra;
  extra.special = true;
  extra.normalized = false;
  for (int32_t i = 0; i < count; ++i) {
    extra.content = "<extra_id_" + std::to_string(i) + ">";
    if (!present.count(extra.content)) tokens.push_back(extra);
  }
  return tokens;
}

// No file but for settings.
TokenizerFiles combine_bytes(const CheckpointFiles& in, const TokenizerRule& rule) {
  const SpecialTokens tokens(in.config, in.special_tokens_map, in.added_tokens,
                             OptionalFile().view(), rule.special_tokens);
  TokenizerFiles out;
  out.file = in.config.name;
  std::vector<std::string> first;
  for (const auto& [key, token] : rule.special_tokens) first.push_back(tokens.content(key));
  out.document = byte_document(first);
  int32_t extra_ids = rule.bytes.extra_ids;
  if (const auto count = in.config.view().find("extra_ids")) extra_ids = count->count(kMaxExtraIds);
  if (names_no_extra_tokens(in.config.view())) extra_ids = 0;
  out.added_tokens = {with_extra_ids(tokens.to_add({}), extra_ids)};
  add_template(rule, in.config, tokens, /*has_tokenizer_json=*/false, out);
  out.document["post_processor"]["once"] = true;
  read_settings(in.config, /*tidies=*/false, out);
  return out;
}

// HuggingFace tidies no text of a BPE model that the library decodes, unless it is told to twice.
void tidy_unless_bpe(const OptionalFile& config, TokenizerFiles& out) {
  const auto type = JsonView(out.document, out.file).at("model").find("type");
  const bool bpe = type ? type->string() == "BPE" : true;
  if (bpe &&
      !is_set(config, "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output"))
    out.tidies = false;
}

// HuggingFace neither pads nor truncates a single text, but a token that tokenizer.json pads with is
// special, where no file names another one.
void name_padding(const JsonView& document, OptionalFile& config) {
  const auto padding = document.find("padding");
  if (!padding || config.value.contains("pad_token")) return;
  config.value["pad_token"] = padding->at("pad_token").string();
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
  if (rule && rule->kind == TokenizerRule::Kind::kBytes) return combine_bytes(in, *rule);
  const bool has_tokenizer_json = in.document.exists;
  if (has_tokenizer_json) {
    if (rule && !has_model_of(*rule, in.document.view())) rule = nullptr;
  } else if (!rule || !has_model_of(*rule, in.document.view())) {
    const std::string name = class_name(in);
    if (!name.empty() || rules.empty())
      throw not_supported(in.config.name,
                          "tokenizer_class: " + printable(name) + " without a tokenizer.json");
    rule = &rules.front();
  }

  if (!rule) name_padding(in.document.view(), in.config);
  TokenizerFiles out;
  const SpecialTokens tokens(in.config, in.special_tokens_map, in.added_tokens, in.document.view(),
                             rule ? rule->special_tokens : TokenizerRule::Tokens{});
  std::vector<AddedToken> present;
  if (!rule) present = read_added_tokens(in.document.view());
  out.added_tokens = {present, tokens.to_add(present)};
  out.document = std::move(in.document.value);
  out.file = in.document.name;
  if (rule) rebuild(*rule, in.config, tokens, has_tokenizer_json, out);
  read_settings(in.config, /*tidies=*/false, out);
  tidy_unless_bpe(in.config, out);
  return out;
}

TokenizerFiles read_tokenizer_files(const std::filesystem::path& directory,
                                    std::span<const TokenizerRule> rules) {
  return combine(read_checkpoint_files(directory, rules), rules);
}

}  // namespace tandem
