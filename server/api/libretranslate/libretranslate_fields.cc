#include <algorithm>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "server/api/api_key.h"
#include "server/api/fields/form_body.h"
#include "server/api/fields/json_body.h"
#include "server/api/libretranslate/libretranslate.h"
#include "server/http/errors.h"

namespace tandem::server {
namespace {

using nlohmann::json;

constexpr int kMostAlternatives = 15;
// Of forms: texts, however they look.
constexpr const char* kLibreTranslateTexts[] = {"q", "source", "target", "format", "api_key"};

// LibreTranslate's own codes, which its earlier versions listed, and which it still takes.
std::string as_iso_code(const std::string& code) {
  return code == "zt" ? "zh-Hant" : code == "pb" ? "pt-BR" : code;
}

}  // namespace

bool is_libretranslate_path(std::string_view path) {
  static constexpr std::string_view kPaths[] = {"/translate", "/translate_file", "/detect",
                                                "/languages", "/frontend/settings"};
  return path.starts_with("/download_file/") ||
         std::find(std::begin(kPaths), std::end(kPaths), path) != std::end(kPaths);
}

void as_libretranslate_error(const HttpRequest& request, HttpResponse& response) {
  if (response.status < 400 || !is_libretranslate_path(request.path)) return;
  if (response.status == 401) response.status = 403;
  const Json body = json_or_discarded<Json>(response.body);
  if (!body.is_object() || !body.contains("error") || !body["error"].is_object()) return;
  response.body = dump_ordered_line({{"error", body["error"].value("message", "")}});
}

std::optional<json> parse_libretranslate_body(const ServerConfig& config, Exchange& exchange) {
  json body = parse_form_or_json(exchange.request(), {{}, kLibreTranslateTexts, {}});
  const auto key = take_string(body, "api_key");
  if (has_key(config, exchange.request()) || is_key(config, key.value_or(""))) return body;
  exchange.respond(error_response(401, kWrongKeyInBody));
  return std::nullopt;
}

LibreTranslateOptions take_libretranslate_fields(json& body, const LanguageSet& languages,
                                                 const FixedLanguages& fixed) {
  LibreTranslateOptions out;
  const auto q = take(body, "q");
  if (!q) throw invalid_request("q", "is missing");
  out.list = q->is_array();
  const std::string format = take_string(body, "format").value_or("text");
  if (format != "text" && format != "html") throw invalid_request("format", "must be text or html");
  if (format == "html") body["tag_handling"] = "html";
  out.alternatives =
      static_cast<int>(take_int(body, "alternatives", 0, kMostAlternatives).value_or(0));
  const auto source = take_string(body, "source");
  if (!source) throw invalid_request("source", "is missing");
  const auto target = take_string(body, "target");
  if (!target) throw invalid_request("target", "is missing");
  if (*source != "auto") {
    body["source_lang"] = as_iso_code(*source);
  } else if (languages.has_source()) {
    const auto found = detect_known_languages(*q, languages);
    if (found.empty())
      throw invalid_request("source", "\"auto\": no language of the model was recognised");
    out.detected = found.front();
    body["source_lang"] = out.detected->code;
  } else if (!fixed.source.empty()) {
    const auto found = detect_known_languages(*q, languages, fixed);
    const auto it = std::find_if(found.begin(), found.end(), [&](const DetectedLanguage& language) {
      return language.code == fixed.source;
    });
    out.detected = it == found.end() ? DetectedLanguage{fixed.source, 0} : *it;
  }
  body["target_lang"] = as_iso_code(*target);
  body["text"] = *q;
  if (out.alternatives > 0) {
    const int sequences = out.alternatives + 1;
    body["num_return_sequences"] = sequences;
    if (!body.contains("num_beams")) body["num_beams"] = std::max(sequences, 4);
  }
  return out;
}

Json libretranslate_answer(const LibreTranslateOptions& options,
                           const std::vector<std::string>& texts) {
  const size_t each = static_cast<size_t>(options.alternatives) + 1;
  Json first = Json::array(), others = Json::array(), detected = Json::array();
  for (size_t i = 0; i < texts.size(); i += each) {
    first.push_back(texts[i]);
    Json more = Json::array();
    for (size_t k = 1; k < each && i + k < texts.size(); ++k) more.push_back(texts[i + k]);
    others.push_back(std::move(more));
    if (options.detected)
      detected.push_back({{"confidence", static_cast<int>(100 * options.detected->confidence)},
                          {"language", options.detected->code}});
  }
  const auto one_or_all = [&](Json& list) { return options.list ? list : list.at(0); };
  Json body = {{"translatedText", one_or_all(first)}};
  if (options.detected) body["detectedLanguage"] = one_or_all(detected);
  if (options.alternatives > 0) body["alternatives"] = one_or_all(others);
  return body;
}

}  // namespace tandem::server
