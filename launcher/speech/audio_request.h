// Requests of the command line, which may name files.
#pragma once

#include <nlohmann/json.hpp>

#include "runtime/request/request_json.h"

namespace tandem::launcher {

// As request_from_json(); images and sound may be files of this host, for nobody but the user of
// this program may name them: no other reader of prompts takes paths. `multi_modal_data: {"audio":
// FILE}` and, where the decoder has no prompt of the request's own, the parameters of speech, of
// the line and of the flags (`defaults`), become JsonRequest's `audio` and `speech`. Throws
// InputError naming the field.
JsonRequest local_request_from_json(nlohmann::json line, const nlohmann::json& defaults);

}  // namespace tandem::launcher
