// Speech recognition as HuggingFace's endpoints have it: sound in, {"text", "chunks"} out.
#pragma once

#include "server/api/application.h"
#include "server/api/speech/speech_request.h"
#include "server/http/http.h"

namespace tandem::server {

// The body is a file of sound, a form with one (`file`), or JSON whose `inputs` is one in Base64,
// with `parameters`. Throws InputError naming the field.
SpeechRequest parse_recognition(const HttpRequest& request, const AppContext& app);

}  // namespace tandem::server
