// The vocabulary of a token model. Ids may have holes; every id has at most one token.
#include "text/pipeline/models/vocabulary.h"

#include <algorithm>
#include <cstddef>

#include "base/strings/printable.h"

namespace tandem {

Vocabulary::Vocabulary(const JsonView& json) {
  const nlohmann::json& tokens = json.object();
  if (tokens.size() > size_t{kMaxVocabulary})
    json.fail("has " + std::to_string(tokens.size()) + " tokens; at most " +
              std::to_string(kMaxVocabulary) + " are possible");
  size_t bytes = 0;
  int32_t max_id = -1;
  for (const auto& [token, id] : tokens.items()) {
    bytes += token.size();
    const bool plain = id.is_number_unsigned() && id.get<uint64_t>() < uint64_t{kMaxVocabulary};
    max_id = std::max(max_id, plain ? id.get<int32_t>() : json.at(token).id());
  }
  if (bytes >= kAbsent) json.fail("more than 4 GiB of tokens");
  text_.reserve(bytes);  // string_views into it stay valid
  places_.resize(static_cast<size_t>(max_id) + 1);
  ids_.reserve(tokens.size());
  for (const auto& [token, value] : tokens.items()) {
    const auto id = value.get<int32_t>();
    Place& place = places_[static_cast<size_t>(id)];
    if (place.length != kAbsent)
      json.fail("id " + std::to_string(id) + " has two tokens, " + in_quotes(*this->token(id)) +
                " and " + in_quotes(token));
    place = {static_cast<uint32_t>(text_.size()), static_cast<uint32_t>(token.size())};
    text_ += token;
    ids_.emplace(*this->token(id), id);
  }
}

std::optional<int32_t> Vocabulary::find(std::string_view token) const {
  const auto found = ids_.find(token);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

std::optional<std::string_view> Vocabulary::token(int32_t id) const {
  if (id < 0 || id > max_id()) return std::nullopt;
  const Place& place = places_[static_cast<size_t>(id)];
  if (place.length == kAbsent) return std::nullopt;
  return std::string_view(text_).substr(place.offset, place.length);
}

}  // namespace tandem
