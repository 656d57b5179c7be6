// tokenizer.json, or vocab.json and merges.txt, and the files beside them.
#include "text/tokenizer_files.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/strings/printable.h"
#include "text/class_template.h"
#include "text/pipeline/special_tokens.h"
#include "text/python/python_files.h"
#include "text/sentencepiece/piece_normalizer.h"

namespace tandem {
namespace {

using nlohmann::json;

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

json replacement(const char* kind, std::string_view from, std::string_view to) {
  return {{"type", "Replace"}, {"pattern", {{kind, from}}}, {"content", to}};
}

json normalizer_of_words(const TokenizerRule& rule, json table) {
  using Normalizer = TokenizerRule::WordOptions::Normalizer;
  if (rule.words.normalizer == Normalizer::kNone) return nullptr;
  if (rule.words.normalizer == Normalizer::kTable) return table;
  json steps = json::array();
  if (!table.is_null())
    steps.push_back(std::move(table));
  else if (rule.words.without_table == TokenizerRule::WordOptions::WithoutTable::kNothing)
    return nullptr;
  else if (rule.words.without_table == TokenizerRule::WordOptions::WithoutTable::kLines)
    steps.push_back(replacement("String", "\n", " "));
  steps.push_back(replacement("Regex", " {2,}", " "));
  return {{"type", "Sequence"}, {"normalizers", std::move(steps)}};
}

// Words that begin with SentencePiece's symbol.
void rebuild_words(const TokenizerRule& rule, const OptionalFile& config,
                   const SpecialTokens& tokens, TokenizerFiles& out) {
  json& model = out.document["model"];
  out.document["normalizer"] =
      normalizer_of_words(rule, precompiled_of(JsonView(out.document, out.file)));
  if (rule.kind == TokenizerRule::Kind::kPieceBpe) {
    model = {{"type", "BPE"},
             {"vocab", std::move(model["vocab"])},
             {"merges", std::move(model["merges"])},
             {"unk_token", tokens.content("unk_token")},
             {"fuse_unk", true}};
  } else {
    const auto token = [&](const std::string& key) { return tokens.content(key); };
    if (rule.words.change_vocabulary != nullptr)
      rule.words.change_vocabulary({config.view(), nullptr, token}, model.at("vocab"));
    int32_t unknown = rule.words.unknown_id;
    if (rule.words.find_unknown != nullptr)
      unknown = rule.words.find_unknown(model.at("vocab"), tokens.content("unk_token"));
    model = {{"type", "Unigram"}, {"vocab", std::move(model["vocab"])}, {"unk_id", unknown}};
  }
  bool prepend = true;
  if (const auto flag = config.view().find("add_prefix_space"); flag && rule.words.prefix_option)
    prepend = flag->boolean();
  const json metaspace = {{"type", "Metaspace"},
                          {"replacement", kSpaceSymbol},
                          {"prepend_scheme", prepend ? "always" : "never"}};
  const json words = {{"type", "WhitespaceSplit"}};
  out.document["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       rule.words.split_whitespace ? json::array({words, metaspace}) : json::array({metaspace})}};
  out.document["decoder"] = metaspace;
}

// A whole text is a word in which SentencePiece's symbol stands for spaces.
void rebuild_text(const SpecialTokens& tokens, TokenizerFiles& out) {
  json& model = out.document["model"];
  model = {{"type", "BPE"},
           {"vocab", std::move(model["vocab"])},
           {"merges", std::move(model["merges"])},
           {"unk_token", tokens.content("unk_token")},
           {"fuse_unk", true},
           {"byte_fallback", true}};
  out.document["normalizer"] = replacement("String", " ", kSpaceSymbol);
  out.document["pre_tokenizer"] = nullptr;
  out.document["decoder"] = {{"type", "Sequence"},
                             {"decoders", json::array({replacement("String", kSpaceSymbol, " "),
                                                       {{"type", "ByteFallback"}},
                                                       {{"type", "Fuse"}}})}};
}

void rebuild_byte_level(const TokenizerRule& rule, const OptionalFile& config,
                        TokenizerFiles& out) {
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
}

// The stages that the class builds, whatever tokenizer.json has there.
void rebuild(const TokenizerRule& rule, const OptionalFile& config, const SpecialTokens& tokens,
             bool has_tokenizer_json, TokenizerFiles& out) {
  using Kind = TokenizerRule::Kind;
  // (Rules look into the vocabulary themselves. Throws: it is no array.)
  if (rule.kind == Kind::kUnigram) JsonView(out.document, out.file).at("model").at("vocab").size();
  out.left_out = rule.left_out;
  if (rule.stages != nullptr) {
    const json table = precompiled_of(JsonView(out.document, out.file));
    const auto token = [&](const std::string& key) { return tokens.content(key); };
    rule.stages({config.view(), table, token}, out.document);
  } else if (rule.kind == Kind::kUnigram || rule.kind == Kind::kPieceBpe) {
    rebuild_words(rule, config, tokens, out);
  } else if (rule.kind == Kind::kTextBpe) {
    rebuild_text(tokens, out);
  } else {
    rebuild_byte_level(rule, config, out);
  }
  out.unknown_token = tokens.content("unk_token");
  add_template(rule, config, tokens, has_tokenizer_json, out);
}

// HuggingFace tidies no text of a BPE model that the library decodes, unless it is told to twice.
void tidy_unless_bpe(const OptionalFile& config, TokenizerFiles& out) {
  const auto type = JsonView(out.document, out.file).at("model").find("type");
  const bool bpe = type ? type->string() == "BPE" : true;
  if (bpe &&
      !is_set(config, "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output"))
    out.tidies = false;
}

// HuggingFace neither pads nor truncates a single text, but a token that tokenizer.json pads with
// is special, where no file names another one.
void name_padding(const JsonView& document, OptionalFile& config) {
  const auto padding = document.find("padding");
  if (!padding || config.value.contains("pad_token")) return;
  config.value["pad_token"] = padding->at("pad_token").string();
}

// Whether the class can be made of the document's model; HuggingFace's constructor fails else.
bool has_model_of(const TokenizerRule& rule, const JsonView& document) {
  using Kind = TokenizerRule::Kind;
  const JsonView model = document.at("model");
  const auto vocabulary = model.find("vocab");
  std::string type = vocabulary && vocabulary->value().is_array() ? "Unigram" : "BPE";
  if (const auto named = model.find("type")) type = named->string();
  if (rule.kind == Kind::kUnigram) return type == "Unigram";
  return type == (rule.kind == Kind::kWordPiece ? "WordPiece" : "BPE");
}

// Whether HuggingFace takes tokenizer.json as it is.
bool takes_file(const TokenizerRule& rule, const CheckpointFiles& in,
                std::span<const TokenizerRule> rules) {
  if (rule.but_byte_level &&
      json_text(in.document.value).find("\"ByteLevel\"") != std::string::npos)
    return true;
  const auto type = in.model_config.view().find("model_type");
  return type && std::any_of(rules.begin(), rules.end(), [&](const TokenizerRule& other) {
           return other.kind == TokenizerRule::Kind::kFile && other.model_type == type->string();
         });
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
  if (rule && runs_in_python(rule->kind)) return combine_python_files(std::move(in), *rule);
  const bool has_tokenizer_json = in.document.exists;
  if (has_tokenizer_json) {
    if (rule && (takes_file(*rule, in, rules) || !has_model_of(*rule, in.document.view())))
      rule = nullptr;
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
                             rule ? *rule : TokenizerRule(), !has_tokenizer_json);
  std::vector<AddedToken> present;
  if (!rule) present = read_added_tokens(in.document.view());
  out.added_tokens = {present, tokens.to_add(present)};
  out.document = std::move(in.document.value);
  out.file = in.document.name;
  if (rule) rebuild(*rule, in.config, tokens, has_tokenizer_json, out);
  read_settings(in.config, rule != nullptr && rule->tidies, out);
  tidy_unless_bpe(in.config, out);
  return out;
}

TokenizerFiles read_tokenizer_files(const std::filesystem::path& directory,
                                    std::span<const TokenizerRule> rules) {
  return combine(read_checkpoint_files(directory, rules), rules);
}

}  // namespace tandem
