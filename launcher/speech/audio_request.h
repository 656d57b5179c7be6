// Requests of the command line that name a file of sound.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace tandem::launcher {

struct AudioLine {
  std::string file;       // empty: the line names none
  nlohmann::json speech;  // parameters of the transcription; null: the decoder has a prompt
};

// Takes `multi_modal_data: {"audio": FILE}` out of the prompt of a JSON request, and, where the
// decoder has no prompt of the request's own, the parameters of speech out of those of the line and
// of the flags (`defaults`). Nobody but the user of this program may name files of its host, so
// that no other reader of prompts knows the key. Throws InputError naming the field.
AudioLine take_audio(nlohmann::json& line, nlohmann::json& defaults);

}  // namespace tandem::launcher
