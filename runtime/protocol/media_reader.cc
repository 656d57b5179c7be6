#include "runtime/protocol/media_reader.h"

#include <string_view>

#include "base/base64.h"
#include "base/error.h"
#include "base/json_fields.h"

namespace tandem {

std::string read_image_url(const std::string& url, const std::string& field) {
  const std::string_view all = url;
  if (all.starts_with("http://") || all.starts_with("https://"))
    throw not_supported(field, "http URLs are not fetched; give the image as data:image/…;base64");
  if (!all.starts_with("data:"))
    throw invalid_request(field, "must be a URL that begins with \"data:image/\"");
  const size_t comma = all.find(',');
  const std::string_view type = all.substr(5, comma == all.npos ? 0 : comma - 5);
  if (!type.starts_with("image/") || !type.ends_with(";base64"))
    throw invalid_request(field, "must be \"data:image/png;base64,\" or …jpeg… and base64");
  auto bytes = decode_base64(all.substr(comma + 1));
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
    const bool url = source.starts_with("data:") || source.find("://") != source.npos;
    if (!url && read_file == nullptr)
      throw not_supported(name, "paths are not read here; give the image as data:image/…;base64");
    part.set_image(url ? read_image_url(source, name) : read_file(source, name));
    part.set_field(name);
  }
  return !data.empty();
}

}  // namespace tandem
