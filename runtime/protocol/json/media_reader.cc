#include "runtime/protocol/json/media_reader.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/strings/base64.h"
#include "base/strings/percent.h"
#include "runtime/protocol/json/json_fields.h"

namespace tandem {

namespace {

bool is_white(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f'; }

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return out;
}

// As browsers read it: with white space, and with the alphabet of URLs too.
std::optional<std::string> forgiving_base64(std::string text) {
  text.erase(std::remove_if(text.begin(), text.end(), is_white), text.end());
  std::replace(text.begin(), text.end(), '-', '+');
  std::replace(text.begin(), text.end(), '_', '/');
  return decode_base64(text);
}

// Of "image/png;charset=x;base64", lower case, without white space.
bool says_image(const std::string& type) {
  const std::string media = type.substr(0, type.find(';'));
  return media.starts_with("image/") || media.empty() || media == "application/pdf" ||
         media == "application/octet-stream";
}

}  // namespace

std::string read_image_url(const std::string& url, const std::string& field) {
  std::string_view all = url;
  while (!all.empty() && is_white(all.front())) all.remove_prefix(1);
  const std::string scheme = lower(all.substr(0, 8));
  if (scheme.starts_with("http://") || scheme.starts_with("https://"))
    throw not_supported(field, "http URLs are not fetched; give the image as data:image/…;base64");
  if (!scheme.starts_with("data:"))
    throw invalid_request(field, "must be a URL that begins with \"data:image/\"");
  const size_t comma = all.find(',');
  std::string type = lower(all.substr(5, comma == all.npos ? 0 : comma - 5));
  type.erase(std::remove_if(type.begin(), type.end(), is_white), type.end());
  if (comma == all.npos || !says_image(type))
    throw invalid_request(field, "must be \"data:image/png;base64,\" or …jpeg… and base64");
  std::optional<std::string> bytes = percent_decoded(all.substr(comma + 1));
  if (type.ends_with(";base64")) bytes = forgiving_base64(std::move(*bytes));
  if (!bytes) throw invalid_request(field, "is not base64");
  if (bytes->empty()) throw invalid_request(field, "is empty");
  return std::move(*bytes);
}

bool read_media(const nlohmann::json& data, const std::string& field, ReadFile read_file,
                proto::PromptPart& part) {
  if (data.is_null()) return false;
  if (!data.is_object()) throw invalid_request(field, "must be an object, not " + describe(data));
  for (const auto& [key, value] : data.items()) {
    const std::string name = field + "." + key;
    if (key != "image") throw not_supported(name, "not built yet; there is \"image\"");
    const std::string source = read_string(value, name);
    const size_t begin = std::min(source.find_first_not_of(" \t\r\n\f"), source.size());
    const bool url = lower(source.substr(begin, 5)) == "data:" || source.find("://") != source.npos;
    if (!url && read_file == nullptr)
      throw not_supported(name, "paths are not read here; give the image as data:image/…;base64");
    part.set_image(url ? read_image_url(source, name) : read_file(source, name));
    part.set_field(name);
  }
  return !data.empty();
}

}  // namespace tandem
