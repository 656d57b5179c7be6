#include "text/class_template.h"

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "base/log/log.h"
#include "base/strings/printable.h"
#include "text/checkpoint_files.h"
#include "text/languages.h"

namespace tandem {
namespace {

using nlohmann::json;

// HuggingFace's class knows its languages, and takes no other source.
void check_source(const TokenizerRule& rule, const JsonView& config, const JsonView& named) {
  const TokenizerRule::Languages& languages = rule.languages;
  std::map<std::string, int32_t> tokens;
  const auto names =
      languages.table != nullptr ? languages.table(config) : rule.extra_tokens(config);
  for (const std::string& name : names) tokens.emplace(languages.token(name), 0);
  if (tokens.count(languages.token(named.string())) == 0)
    named.fail(
        LanguageSet(languages, tokens, true, "").refusal(named.string(), /*lists_all=*/true));
}

// The token of the source's language; empty: texts have none.
std::string source_token(const TokenizerRule& rule, const OptionalFile& config,
                         const SpecialTokens& tokens) {
  const TokenizerRule::Languages& languages = rule.languages;
  if (const auto named = config.view().find("src_lang")) {
    if (languages.only_own) check_source(rule, config.view(), *named);
    if (!named->string().empty()) return languages.token(named->string());
    const std::string unknown = tokens.content("unk_token");
    log_warning("{}: src_lang is empty; texts have {} for their language, as in HuggingFace",
                config.name, printable(unknown));
    return unknown;
  }
  return languages.token(languages.fallback_of != nullptr ? languages.fallback_of(config.view())
                                                          : languages.fallback);
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

struct Templates {
  TokenizerRule::Template single, pair;
};

// Of a class that has none: what the flags say where no tokenizer.json is.
Templates flagged_templates(const OptionalFile& config, const SpecialTokens& tokens) {
  TokenizerRule::Template before, behind;
  if (is_set(config, "add_bos_token") && !tokens.content("bos_token").empty())
    before = {"bos_token"};
  if (is_set(config, "add_eos_token") && !tokens.content("eos_token").empty())
    behind = {"eos_token"};
  Templates out;
  const auto add = [](TokenizerRule::Template& to, const TokenizerRule::Template& parts) {
    to.insert(to.end(), parts.begin(), parts.end());
  };
  for (const char* text : {"$A", "$B"}) {
    for (const auto& part : {before, TokenizerRule::Template{text}, behind}) {
      add(out.pair, part);
      if (text == std::string_view("$A")) add(out.single, part);
    }
  }
  return out;
}

int read_max_length(const OptionalFile& config) {
  const auto length = config.view().find("model_max_length");
  if (!length) return 0;
  if (!length->value().is_number()) length->fail("expected a number");
  const double value = length->value().get<double>();  // 1e30 stands for "not known"
  return value >= 1 && value < 1e9 ? static_cast<int>(value) : 0;
}

}  // namespace

void add_template(const TokenizerRule& rule, const OptionalFile& config,
                  const SpecialTokens& tokens, bool has_tokenizer_json, TokenizerFiles& out) {
  const bool of_rule = !rule.single.empty() && !has_any(config, rule.template_keys);
  if (!of_rule && has_tokenizer_json) return;
  if (rule.file_template && has_tokenizer_json &&
      JsonView(out.document, out.file).find("post_processor"))
    return;
  Templates templates{rule.single, rule.pair};
  if (of_rule && is_set(config, rule.alternative.flag))
    templates = {rule.alternative.single, rule.alternative.pair};
  if (!of_rule) templates = flagged_templates(config, tokens);
  if (of_rule) {
    out.languages = rule.languages;
    out.source_first = templates.single.front() == "$source";
    out.source_last = templates.single.back() == "$source";
  }
  const std::string source = of_rule ? source_token(rule, config, tokens) : std::string();
  json single = template_json(templates.single, tokens, source, out);
  json pair = template_json(templates.pair, tokens, source, out);
  out.document["post_processor"] = {
      {"type", "TemplateProcessing"}, {"single", std::move(single)}, {"pair", std::move(pair)}};
}

void read_settings(const OptionalFile& config, bool tidies, TokenizerFiles& out) {
  out.model_max_length = read_max_length(config);
  out.tidies = tidies;
  if (const auto flag = config.view().find("clean_up_tokenization_spaces"))
    out.tidies = flag->boolean();
  if (const auto flag = config.view().find("split_special_tokens"))
    out.split_special_tokens = flag->boolean();
}

}  // namespace tandem
