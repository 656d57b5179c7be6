// The form of a request about sound: one file, and fields, as JSON.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>

#include "server/http/http.h"

namespace tandem::server {

struct SoundForm {
  size_t file_begin = 0, file_size = 0;  // of the request's body
  nlohmann::json fields;                 // an object
};

// The fields of OpenAI's that are texts stay texts; the text of another is what it would be in
// JSON, with Python's True, False and None besides. "name[]" and "name[0]" are elements of a list,
// "name[key]" is a member of an object. Throws InputError naming the field: no form, no file or an
// empty one, a file in another field, a field twice, too much text.
SoundForm read_sound_form(const HttpRequest& request);

}  // namespace tandem::server
