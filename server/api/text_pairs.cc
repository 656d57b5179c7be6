#include "server/api/text_pairs.h"

#include <utility>

#include "base/error.h"
#include "server/api/fields/json_body.h"

namespace tandem::server {

std::vector<std::string> take_texts(nlohmann::json& body, const char* field) {
  const auto value = take(body, field);
  if (!value) throw invalid_request(field, "is missing");
  if (value->is_string()) return {value->get<std::string>()};
  if (!value->is_array() || value->empty())
    throw invalid_request(field, "expected a text or a list of texts");
  std::vector<std::string> texts;
  for (const nlohmann::json& text : *value) {
    if (!text.is_string()) throw invalid_request(field, "expected a text or a list of texts");
    texts.push_back(text.get<std::string>());
  }
  return texts;
}

TextPairs take_text_pairs(nlohmann::json& body, const char* first, const char* second,
                          const ServerConfig& config) {
  TextPairs pairs{first, second, take_texts(body, first), {}};
  pairs.second = take_texts(body, second);
  if (pairs.first.size() != 1 && pairs.first.size() != pairs.size())
    throw invalid_request(first, std::to_string(pairs.first.size()) + " texts for the " +
                                     std::to_string(pairs.size()) + " of " + second +
                                     "; give one for all, or one for each");
  if (pairs.size() > static_cast<size_t>(config.max_prompts))
    throw invalid_request(second, std::to_string(pairs.size()) + " texts; at most " +
                                      std::to_string(config.max_prompts) + " fit a request");
  return pairs;
}

}  // namespace tandem::server
