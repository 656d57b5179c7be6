// Bodies of translations: texts as they are, or with markup or a glossary.
#include <algorithm>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/strings/code_points.h"
#include "runtime/protocol/json/prompt_reader.h"
#include "server/api/fields/json_body.h"
#include "server/api/generation/generation_request.h"
#include "server/api/text_pairs.h"
#include "text/language_names.h"

namespace tandem::server {
namespace {

using nlohmann::json;

std::string language_in(const json& body, const char* ours, const char* theirs) {
  for (const char* name : {ours, theirs})
    if (const auto it = body.find(name); it != body.end() && it->is_string()) return *it;
  return "";
}

// The dictionary for the request's languages. Throws InputError (glossary_id).
const Glossary& dictionary_for(const StoredGlossary& glossary, const json& body,
                               const LanguageSet& languages) {
  const std::string target = language_in(body, "tgt_lang", "target_lang");
  std::string source = language_in(body, "src_lang", "source_lang");
  if (languages.empty() && glossary.dictionaries.size() == 1)
    return *glossary.dictionaries.front().glossary;
  if (source.empty() && !languages.has_source()) source = "en";
  if (source.empty()) throw invalid_request("source_lang", "is missing; a glossary needs it");
  const GlossaryDictionary* found = glossary.find(languages, source, target);
  if (found == nullptr)
    throw invalid_request("glossary_id", "the glossary has no dictionary of \"" +
                                             source.substr(0, 40) + "\" and \"" +
                                             target.substr(0, 40) + "\"");
  return *found->glossary;
}

// The request may give them, and nothing else.
void take_fixed_languages(json& body, const FixedLanguages& fixed) {
  const auto check = [&](const char* name, const std::string& code, const char* direction) {
    if (code.empty()) return;
    const auto given = take_string(body, name);
    if (!given || given->empty()) return;
    const auto tag = language_tag(*given);
    if (!tag || tag->language != code)
      throw invalid_request(
          name, "\"" + given->substr(0, 40) + "\": the model translates " + direction + code);
  };
  for (const char* name : {"source_lang", "src_lang"}) check(name, fixed.source, "from ");
  for (const char* name : {"target_lang", "tgt_lang"}) check(name, fixed.target, "to ");
}

// The first of the names that the body gives as a text, by its code; takes both.
std::string take_language(json& body, const char* ours, const char* theirs) {
  std::string out;
  for (const char* name : {ours, theirs}) {
    const std::string given = take_string(body, name).value_or("");
    if (given.empty() || !out.empty()) continue;
    const auto tag = language_tag(given);
    out = tag ? tag->language : given;
  }
  return out;
}

// A model of many sources does not ask which one it is.
bool takes_any_source(const TranslationContext& context) {
  const bool translates = !context.languages.empty() || !context.fixed.target.empty();
  return translates && !context.languages.has_source() && context.fixed.source.empty();
}

// Where languages are tasks: the task of the request's. Returns the source. Throws InputError
// (target_lang).
std::string choose_task(json& body, const FixedLanguages& fixed) {
  if (const auto task = body.find("task"); task != body.end() && !task->is_null()) return "";
  const std::string source = take_language(body, "src_lang", "source_lang");
  const std::string target = take_language(body, "tgt_lang", "target_lang");
  std::string from = source.empty() ? fixed.source : source;
  std::string all;
  for (const auto& [pair, task] : fixed.tasks) {
    all += (all.empty() ? "" : ", ") + pair.first + " to " + pair.second;
    if (from.empty() && pair.second == target) from = pair.first;
  }
  const auto found = fixed.tasks.find({from, target});
  if (found == fixed.tasks.end())
    throw invalid_request("target_lang",
                          (target.empty() ? std::string("is missing")
                                          : "\"" + target.substr(0, 40) + "\" is none of them") +
                              "; the model translates from " + all);
  body["task"] = found->second;
  return from;
}

// The source of texts whose request names none.
std::string usual_source(const TranslationContext& context) {
  return context.fixed.source.empty() ? context.languages.default_source() : context.fixed.source;
}

struct Parts {
  std::vector<std::string> texts;  // of the request
  DocumentFormat format;
  DocumentRules rules;
};

// Each text becomes a document, whose texts are prompts.
void add_documents(Parts parts, GenerationRequest& r) {
  for (size_t i = 0; i < parts.texts.size(); ++i) {
    const std::string field = "text[" + std::to_string(i) + "]";
    r.documents.emplace_back(parts.format, std::move(parts.texts[i]), parts.rules, field);
    for (const std::string& text : r.documents.back().texts())
      r.prompts.push_back(text_prompt(text, field));
  }
}

}  // namespace

GenerationRequest parse_translation(json body, const TranslationContext& context) {
  const ServerConfig& config = context.config;
  GenerationRequest r;
  r.endpoint = Endpoint::kTranslate;
  r.list_field = "text";
  r.deepl = take_deepl_options(body);
  take_common(body, config, r);
  if (r.stream) throw not_supported("stream", "translations come whole");
  std::vector<std::string> texts = take_texts(body, "text");
  const auto check_count = [&](size_t count, const char* what) {
    if (count > static_cast<size_t>(config.max_prompts))
      throw invalid_request("text", std::to_string(count) + what + "; at most " +
                                        std::to_string(config.max_prompts) + " fit a request");
  };
  check_count(texts.size(), " texts");
  take_fixed_languages(body, context.fixed);
  for (const char* name : {"source_lang", "src_lang", "target_lang", "tgt_lang"})
    if (const auto it = body.find(name); it != body.end() && it->is_string())
      *it = context.languages.meant(it->get<std::string>()).value_or(it->get<std::string>());
  for (const std::string& text : texts) r.characters.push_back(count_code_points(text));

  const DocumentFormat format =
      context.format ? *context.format : r.deepl.format.value_or(DocumentFormat::kText);
  std::optional<StoredGlossary> glossary;  // as long as the documents are read
  DocumentRules rules;
  if (!r.deepl.glossary_id.empty()) {
    glossary = context.glossaries.find(r.deepl.glossary_id);
    if (!glossary)
      throw invalid_request("glossary_id",
                            "there is no glossary \"" + r.deepl.glossary_id.substr(0, 80) + "\"");
    rules.glossary = &dictionary_for(*glossary, body, context.languages);
  }
  if (format != DocumentFormat::kText || rules.glossary != nullptr) {
    rules.language = language_in(body, "src_lang", "source_lang");
    if (rules.language.empty()) rules.language = usual_source(context);
    rules.sentences = r.deepl.sentences;
    rules.tags = r.deepl.tags;
    // (A sentence that the model cannot read whole is cut, unless nothing is to be.)
    if (body.value("split", json()) == "sentences") body["split"] = "auto";
    add_documents({std::move(texts), format, rules}, r);
    check_count(r.prompts.size(), " parts of texts");
  } else {
    for (size_t i = 0; i < texts.size(); ++i)
      r.prompts.push_back(text_prompt(texts[i], "text[" + std::to_string(i) + "]"));
  }
  std::string source;
  if (!context.fixed.tasks.empty())
    source = choose_task(body, context.fixed);
  else if (takes_any_source(context))
    source = take_language(body, "src_lang", "source_lang");
  set_options(std::move(body), config, r);
  if (source.empty())
    source = r.options.has_src_lang() ? r.options.src_lang() : usual_source(context);
  r.source_language = source;
  return r;
}

std::vector<std::string> translated_documents(const GenerationRequest& request,
                                              const std::vector<std::string>& texts) {
  const auto sequences = static_cast<size_t>(request.sequences);
  std::vector<std::string> out;
  size_t first = 0;  // prompt of the document
  for (const TranslatableDocument& document : request.documents) {
    for (size_t sequence = 0; sequence < sequences; ++sequence) {
      std::vector<std::string> translations;
      for (size_t i = 0; i < document.texts().size(); ++i)
        translations.push_back(texts.at((first + i) * sequences + sequence));
      out.push_back(document.with(translations));
    }
    first += document.texts().size();
  }
  return out;
}

}  // namespace tandem::server
