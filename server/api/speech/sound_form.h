// The form of a request about sound: one file, and fields, as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "runtime/media/media_source.h"
#include "server/http/http.h"

namespace tandem::server {

struct SoundForm {
  std::optional<MediaSource> file;  // always there
  nlohmann::json fields;            // an object
};

// OpenAI's text fields stay texts. Other fields are read as JSON, with Python's True, False and
// None besides. "name[]" and "name[0]" are elements of a list, "name[key]" is a member of an
// object. Throws InputError naming the field: no form, no file or an empty one, a file in another
// field, a field twice, too much text.
SoundForm read_sound_form(const HttpRequest& request);

}  // namespace tandem::server
