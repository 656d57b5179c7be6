// Sound as prompts, and engines that hear.
#pragma once

#include <filesystem>
#include <string>
#include <utility>

#include "runtime/protocol/tandem.pb.h"
#include "tests/support/goldens/golden_config.h"
#include "tests/support/goldens/random_speech.h"
#include "tests/support/media/transcripts.h"

namespace tandem::testing {

inline proto::Prompt sound_prompt(std::string file, const proto::SpeechParams& params = {}) {
  proto::Prompt out;
  out.mutable_encoder()->set_field("sound");
  out.mutable_encoder()->mutable_sound()->set_file(std::move(file));
  *out.mutable_encoder()->mutable_sound()->mutable_params() = params;
  return out;
}

inline EngineConfig speech_config(const std::filesystem::path& model) {
  EngineConfig out = golden_config("bart-tiny");
  out.mutable_loading()->set_model(model.string());
  out.mutable_cache()->set_kv_cache_memory(size_t{16} << 20);
  out.mutable_cache()->set_swap_space(size_t{4} << 20);
  return out;
}

}  // namespace tandem::testing
