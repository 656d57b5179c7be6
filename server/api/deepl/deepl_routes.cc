// DeepL's routes beside that of translations: what its clients ask for first.
#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "server/api/deepl/deepl.h"
#include "server/api/fields/json_body.h"
#include "server/api/routes.h"
#include "text/language_names.h"

namespace tandem::server {
namespace {

// As DeepL says that there is no limit.
constexpr int64_t kNoLimit = 1'000'000'000'000;

// "type=target": what languages are asked for, by a query or a form.
bool wants_targets(const std::string& query) {
  for (size_t at = 0; at < query.size();) {
    const size_t end = std::min(query.find('&', at), query.size());
    const std::string field = query.substr(at, end - at);
    at = end + 1;
    if (field.rfind("type=", 0) != 0) continue;
    const std::string type = field.substr(5);
    if (type != "source" && type != "target")
      throw invalid_request("type", "must be source or target");
    return type == "target";
  }
  return false;
}

std::string deepl_spelling(std::string code) {
  for (char& c : code)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return code;
}

}  // namespace

void get_deepl_usage(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  exchange->respond(
      {.body = dump_ordered_line({{"character_count", app.characters_translated.load()},
                                  {"character_limit", kNoLimit}})});
}

void get_deepl_languages(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  // DeepL's package puts what others say in the query into a form.
  const HttpRequest& request = exchange->request();
  const bool targets = wants_targets(request.query) || wants_targets(request.body);
  Json list = Json::array();
  const auto add = [&](std::string_view code, std::string_view name) {
    Json one = {{"language", code}, {"name", name}};
    if (targets) one["supports_formality"] = false;
    list.push_back(std::move(one));
  };
  const std::string& fixed = targets ? app.fixed_languages.target : app.fixed_languages.source;
  const std::set<std::string> tasks =
      targets ? app.fixed_languages.task_targets() : app.fixed_languages.task_sources();
  if (!tasks.empty())
    for (const std::string& code : tasks) add(deepl_spelling(code), english_name_of(code));
  else if (!fixed.empty())
    add(deepl_spelling(fixed), english_name_of(fixed));
  else
    for (const DeeplLanguage& language : deepl_languages(app.tokenizer.languages(), targets))
      add(language.code, language.name);
  exchange->respond({.body = dump_ordered_line(list)});
}

}  // namespace tandem::server
