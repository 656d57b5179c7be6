// Transcriptions as tests ask for them and compare them.
#pragma once

#include <string>

#include "runtime/protocol/tandem.pb.h"

namespace tandem::testing {

// Several kinds of transcriptions.
inline proto::SpeechParams speech_params(int kind) {
  proto::SpeechParams out;
  if (kind % 4 == 1) out.set_language("de");
  if (kind % 4 == 2) out.set_condition_on_prev_tokens(true);
  if (kind % 4 == 3) {
    out.set_chunk_length_s(1);
    out.set_return_timestamps(true);
  }
  return out;
}

// All of an output that a worker's death, a batch or another way to the engine must not change.
inline std::string said(const proto::RequestOutput& output) {
  std::string out = output.language() + ": " + output.outputs(0).text() + " (" +
                    output.outputs(0).finish_reason() + ")";
  for (const auto& segment : output.outputs(0).segments()) {
    out += "\n" + std::to_string(segment.start()) + " " + std::to_string(segment.end()) + " " +
           segment.text() + " ";
    for (const int id : segment.token_ids()) out += " " + std::to_string(id);
  }
  for (const int id : output.outputs(0).token_ids()) out += " " + std::to_string(id);
  for (const int id : output.inputs().prompt_token_ids()) out += " <" + std::to_string(id);
  return out;
}

}  // namespace tandem::testing
