// The messages of a chat → the encoder's input.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "runtime/protocol/tandem.pb.h"

namespace tandem::server {

// The image of the last user's message, or its text in the template: {user}; {system} is the first
// system's (or developer's) message. Throws InputError naming the part of `messages`.
proto::PromptPart read_messages(const nlohmann::json& messages, const std::string& pattern);

}  // namespace tandem::server
