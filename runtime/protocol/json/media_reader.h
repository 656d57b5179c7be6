// Files that belong to a prompt: where they come from. Their bytes are read here, what they are is
// found out where the model is known (runtime/media).
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "runtime/protocol/tandem.pb.h"

namespace tandem {

// Reads a file that a prompt names; `field` is for messages. Throws InputError. Given by programs
// whose own user writes the prompts, as the command line; never by a server.
using ReadFile = std::string (*)(const std::string& path, const std::string& field);

// The bytes of a URL "data:image/…;base64,…", as browsers read it: capitals, white space, escapes
// (%2B) and what is not base64 are understood. Nothing is fetched. Throws InputError (`field`).
std::string read_image_url(const std::string& url, const std::string& field);

// {"image": a data URL, or with `read_file` a path} into `part`; whether there is anything: null
// and {} are nothing. Throws InputError naming the key.
bool read_media(const nlohmann::json& data, const std::string& field, ReadFile read_file,
                proto::PromptPart& part);

}  // namespace tandem
