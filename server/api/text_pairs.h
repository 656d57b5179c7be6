// Pairs of texts in a body: 1:N or N:N.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "server/http/config.h"

namespace tandem::server {

struct TextPairs {
  std::string first_name, second_name;     // of the fields
  std::vector<std::string> first, second;  // one of the first for all of the second, or one each

  size_t size() const { return second.size(); }
  size_t first_of(size_t pair) const { return first.size() == 1 ? 0 : pair; }
  // For messages: the field of a text.
  std::string name_of_first(size_t i) const { return first_name + "[" + std::to_string(i) + "]"; }
  std::string name_of_second(size_t i) const { return second_name + "[" + std::to_string(i) + "]"; }
};

// Takes a text or a list of texts out of the body. Throws InputError naming the field.
std::vector<std::string> take_texts(nlohmann::json& body, const char* field);
// Takes both fields out of the body. Throws InputError naming the one at fault.
TextPairs take_text_pairs(nlohmann::json& body, const char* first, const char* second,
                          const ServerConfig& config);

}  // namespace tandem::server
