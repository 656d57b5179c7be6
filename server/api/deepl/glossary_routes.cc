// DeepL's glossaries: of one pair of languages (v2), and of several (v3).
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "server/api/deepl/deepl.h"
#include "server/api/deepl/glossary_store.h"
#include "server/api/fields/form_body.h"
#include "server/api/fields/json_body.h"
#include "server/api/routes.h"
#include "server/http/url.h"

namespace tandem::server {
namespace {

using nlohmann::json;

constexpr const char* kGlossaryTexts[] = {"name",    "source_lang",    "target_lang",
                                          "entries", "entries_format", "glossary_id"};

std::string time_text(std::time_t time) {
  std::tm parts{};
  gmtime_r(&time, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S.000000Z", &parts);
  return text;
}

std::string needed(json& body, const char* name) {
  auto text = take_string(body, name);
  if (!text || text->empty()) throw invalid_request(name, "is missing");
  return *text;
}

// The pair of codes in lower case. Throws InputError: the model has none of it, or it is the same.
std::string language_code(const AppContext& app, json& body, const char* name) {
  std::string code = needed(body, name);
  for (char& c : code)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  const LanguageSet& languages = app.tokenizer.languages();
  if (!languages.names().empty() && !languages.meant(code))
    throw invalid_request(name, "\"" + code.substr(0, 40) + "\" is no language of the model");
  return code;
}

GlossaryDictionary take_dictionary(const AppContext& app, json& body) {
  GlossaryDictionary out;
  out.source_lang = language_code(app, body, "source_lang");
  out.target_lang = language_code(app, body, "target_lang");
  const std::string entries = needed(body, "entries");
  const std::string format = take_string(body, "entries_format").value_or("tsv");
  if (format != "tsv" && format != "csv")
    throw invalid_request("entries_format", "must be tsv or csv");
  out.glossary =
      std::make_shared<const Glossary>(format == "tsv" ? Glossary::of_tsv(entries, "entries")
                                                       : Glossary::of_csv(entries, "entries"));
  if (out.glossary->entries().empty()) throw invalid_request("entries", "has no entry");
  return out;
}

std::vector<GlossaryDictionary> take_dictionaries(const AppContext& app, json& body) {
  auto list = take(body, "dictionaries");
  std::vector<GlossaryDictionary> out;
  if (!list) return out;
  if (!list->is_array()) throw invalid_request("dictionaries", "expected a list");
  for (json& one : *list) {
    if (!one.is_object()) throw invalid_request("dictionaries", "expected a list of objects");
    out.push_back(take_dictionary(app, one));
  }
  return out;
}

void put_dictionary(StoredGlossary& glossary, GlossaryDictionary dictionary) {
  for (GlossaryDictionary& one : glossary.dictionaries) {
    if (one.source_lang != dictionary.source_lang || one.target_lang != dictionary.target_lang)
      continue;
    one = std::move(dictionary);
    return;
  }
  glossary.dictionaries.push_back(std::move(dictionary));
}

// PATCH adds entries to those that there are.
void merge_dictionary(StoredGlossary& glossary, GlossaryDictionary dictionary) {
  if (const auto* there = glossary.find(dictionary.source_lang, dictionary.target_lang)) {
    std::vector<Glossary::Entry> entries = dictionary.glossary->entries();
    std::vector<std::string> sources;
    for (const auto& entry : entries) sources.push_back(entry.first);
    std::sort(sources.begin(), sources.end());
    for (const auto& entry : there->glossary->entries())
      if (!std::binary_search(sources.begin(), sources.end(), entry.first))
        entries.push_back(entry);
    dictionary.glossary = std::make_shared<const Glossary>(std::move(entries), "entries");
  }
  put_dictionary(glossary, std::move(dictionary));
}

std::string tsv_of(const Glossary& glossary) {
  std::string out;
  for (const auto& [source, target] : glossary.entries())
    out += (out.empty() ? "" : "\n") + source + "\t" + target;
  return out;
}

Json dictionary_json(const GlossaryDictionary& one) {
  return {{"source_lang", one.source_lang},
          {"target_lang", one.target_lang},
          {"entry_count", one.glossary->entries().size()}};
}

Json v2_json(const StoredGlossary& glossary) {
  Json out = {{"glossary_id", glossary.id}, {"name", glossary.name}, {"ready", true}};
  out.update(dictionary_json(glossary.dictionaries.front()));
  out["creation_time"] = time_text(glossary.created);
  return out;
}

Json v3_json(const StoredGlossary& glossary) {
  Json out = {{"glossary_id", glossary.id}, {"name", glossary.name}};
  out["dictionaries"] = Json::array();
  for (const GlossaryDictionary& one : glossary.dictionaries)
    out["dictionaries"].push_back(dictionary_json(one));
  out["creation_time"] = time_text(glossary.created);
  return out;
}

// Of ".../glossaries/{id}/...".
std::string glossary_id_of(const HttpRequest& request) {
  const size_t begin = request.path.find("/glossaries/") + 12;
  return request.path.substr(begin, request.path.find('/', begin) - begin);
}

InputError no_glossary(const std::string& id) {
  return {ErrorKind::kNotFound, "glossary_id: there is no glossary \"" + id.substr(0, 80) + "\"",
          "glossary_id"};
}

StoredGlossary found(const AppContext& app, const HttpRequest& request) {
  const std::string id = glossary_id_of(request);
  auto glossary = app.glossaries.find(id);
  if (!glossary) throw no_glossary(id);
  return std::move(*glossary);
}

// The dictionary that the query names. Its place in the list.
size_t dictionary_of_query(const StoredGlossary& glossary, const HttpRequest& request) {
  const auto lower = [](std::string text) {
    for (char& c : text)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return text;
  };
  const std::string source = lower(query_field(request.query, "source_lang"));
  const std::string target = lower(query_field(request.query, "target_lang"));
  const GlossaryDictionary* one = glossary.find(source, target);
  if (one == nullptr)
    throw InputError(ErrorKind::kNotFound,
                     "source_lang: the glossary has no dictionary of \"" + source.substr(0, 40) +
                         "\" and \"" + target.substr(0, 40) + "\"",
                     "source_lang");
  return static_cast<size_t>(one - glossary.dictionaries.data());
}

bool is_v2(const HttpRequest& request) { return request.path.starts_with("/v2/"); }

Json json_of(const HttpRequest& request, const StoredGlossary& glossary) {
  return is_v2(request) ? v2_json(glossary) : v3_json(glossary);
}

json glossary_body(const HttpRequest& request) {
  return parse_form_or_json(request, {{}, kGlossaryTexts, {}});
}

}  // namespace

void get_deepl_glossary_pairs(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  const auto codes = deepl_languages(app.tokenizer.languages(), /*targets=*/false);
  const auto lower = [](std::string_view code) {
    std::string out(code);
    for (char& c : out)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return out;
  };
  Json pairs = Json::array();
  for (const DeeplLanguage& source : codes)
    for (const DeeplLanguage& target : codes)
      if (source.code != target.code)
        pairs.push_back({{"source_lang", lower(source.code)}, {"target_lang", lower(target.code)}});
  exchange->respond({.body = dump_ordered_line({{"supported_languages", pairs}})});
}

void post_glossary(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  const HttpRequest& request = exchange->request();
  json body = glossary_body(request);
  StoredGlossary glossary;
  glossary.name = needed(body, "name");
  if (is_v2(request)) {
    glossary.dictionaries.push_back(take_dictionary(app, body));
  } else {
    for (GlossaryDictionary& one : take_dictionaries(app, body))
      put_dictionary(glossary, std::move(one));
    if (glossary.dictionaries.empty()) throw invalid_request("dictionaries", "is missing");
  }
  refuse_rest(body);
  const StoredGlossary added = app.glossaries.add(std::move(glossary));
  exchange->respond({.status = 201, .body = dump_ordered_line(json_of(request, added))});
}

void get_glossaries(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  Json list = Json::array();
  const bool v2 = is_v2(exchange->request());
  for (const StoredGlossary& one : app.glossaries.all())
    if (!v2 || one.dictionaries.size() == 1) list.push_back(json_of(exchange->request(), one));
  exchange->respond({.body = dump_ordered_line({{"glossaries", list}})});
}

void get_glossary(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  const StoredGlossary one = found(app, exchange->request());
  if (is_v2(exchange->request()) && one.dictionaries.size() != 1) throw no_glossary(one.id);
  exchange->respond({.body = dump_ordered_line(json_of(exchange->request(), one))});
}

void get_glossary_entries(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  const HttpRequest& request = exchange->request();
  const StoredGlossary one = found(app, request);
  if (is_v2(request)) {
    if (one.dictionaries.size() != 1) throw no_glossary(one.id);
    return exchange->respond({.body = tsv_of(*one.dictionaries.front().glossary),
                              .content_type = "text/tab-separated-values; charset=utf-8"});
  }
  const GlossaryDictionary& dictionary = one.dictionaries[dictionary_of_query(one, request)];
  const Json entries = {{"source_lang", dictionary.source_lang},
                        {"target_lang", dictionary.target_lang},
                        {"entries", tsv_of(*dictionary.glossary)},
                        {"entries_format", "tsv"}};
  exchange->respond({.body = dump_ordered_line({{"dictionaries", Json::array({entries})}})});
}

void delete_glossary(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  const std::string id = glossary_id_of(exchange->request());
  if (!app.glossaries.erase(id)) throw no_glossary(id);
  exchange->respond({.status = 204, .content_type = ""});
}

void patch_glossary(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  json body = glossary_body(exchange->request());
  const auto name = take_string(body, "name");
  const std::vector<GlossaryDictionary> dictionaries = take_dictionaries(app, body);
  refuse_rest(body);
  const std::string id = glossary_id_of(exchange->request());
  const auto changed = app.glossaries.update(id, [&](StoredGlossary& glossary) {
    if (name && !name->empty()) glossary.name = *name;
    for (const GlossaryDictionary& one : dictionaries) merge_dictionary(glossary, one);
  });
  if (!changed) throw no_glossary(id);
  exchange->respond({.body = dump_ordered_line(v3_json(*changed))});
}

void put_glossary_dictionary(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  json body = glossary_body(exchange->request());
  const GlossaryDictionary dictionary = take_dictionary(app, body);
  refuse_rest(body);
  const std::string id = glossary_id_of(exchange->request());
  const auto changed = app.glossaries.update(
      id, [&](StoredGlossary& glossary) { put_dictionary(glossary, dictionary); });
  if (!changed) throw no_glossary(id);
  exchange->respond({.body = dump_ordered_line(dictionary_json(dictionary))});
}

void delete_glossary_dictionary(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  const HttpRequest& request = exchange->request();
  const std::string id = glossary_id_of(request);
  const auto changed = app.glossaries.update(id, [&](StoredGlossary& glossary) {
    const size_t place = dictionary_of_query(glossary, request);
    if (glossary.dictionaries.size() == 1)
      throw invalid_request("source_lang",
                            "is the glossary's last dictionary; delete the glossary");
    glossary.dictionaries.erase(glossary.dictionaries.begin() + static_cast<std::ptrdiff_t>(place));
  });
  if (!changed) throw no_glossary(id);
  exchange->respond({.status = 204, .content_type = ""});
}

}  // namespace tandem::server
