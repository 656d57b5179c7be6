#include "server/api/fields/field_names.h"

namespace tandem::server {
namespace {

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// Where the name that begins at `at` ends: words with dots between them, as
// "prompt.decoder_prompt".
size_t end_of_name(std::string_view text, size_t at) {
  while (at < text.size() && is_word(text[at])) {
    while (at < text.size() && is_word(text[at])) ++at;
    if (at + 1 < text.size() && text[at] == '.' && is_word(text[at + 1])) ++at;
  }
  return at;
}

}  // namespace

std::string FieldNames::of(const std::string& field) const {
  const auto it = theirs_.find(field);
  return it == theirs_.end() ? field : it->second;
}

std::string FieldNames::in(std::string_view text) const {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = end_of_name(text, at);
    const std::string_view name = text.substr(at, end - at);
    const bool plain_word = name.find_first_of("_.") == name.npos;
    const auto it = plain_word && at > 0 ? theirs_.end() : theirs_.find(name);
    out += it == theirs_.end() ? name : std::string_view(it->second);
    at = end;
    if (at < text.size() && !is_word(text[at])) out += text[at++];
  }
  return out;
}

InputError FieldNames::in(const InputError& error) const {
  return {error.kind(), in(std::string_view(error.what())), of(error.param())};
}

}  // namespace tandem::server
