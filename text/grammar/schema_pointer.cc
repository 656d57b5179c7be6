#include "text/grammar/schema_pointer.h"

#include <cctype>

namespace tandem {
namespace {

using Json = nlohmann::ordered_json;

std::string without_percents(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool escape = text[i] == '%' && i + 2 < text.size() &&
                        std::isxdigit(static_cast<unsigned char>(text[i + 1])) != 0 &&
                        std::isxdigit(static_cast<unsigned char>(text[i + 2])) != 0;
    out += escape ? static_cast<char>(std::stoi(text.substr(i + 1, 2), nullptr, 16)) : text[i];
    if (escape) i += 2;
  }
  return out;
}

}  // namespace

const Json* find_schema(const Json& root, const std::string& pointer) {
  if (!pointer.starts_with('#')) return nullptr;
  try {
    const Json::json_pointer at(without_percents(pointer.substr(1)));
    return root.contains(at) ? &root.at(at) : nullptr;
  } catch (const Json::exception&) {
    return nullptr;
  }
}

}  // namespace tandem
