// Input: an object of "config.json", "generation_config.json" and "preprocessor_config.json", as
// they lie in a checkpoint directory. Whatever is accepted of them has limits, a decoder prompt,
// parameters with and without its tasks, and the prompts of speech where it hears.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "base/json.h"
#include "base/log/log.h"
#include "models/config/config.h"
#include "models/config/decoder_prompt.h"
#include "models/config/limits.h"
#include "models/config/task_params.h"
#include "models/family.h"
#include "runtime/media/sound/speech_settings.h"
#include "runtime/request/params/params_resolver.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

void check(bool condition) {
  if (!condition) std::abort();
}

// Of this process; gone with it.
class ConfigDirectory {
 public:
  ConfigDirectory()
      : path_(fs::temp_directory_path() / ("config_fuzzer." + std::to_string(getpid()))) {
    fs::create_directories(path_);
  }
  ~ConfigDirectory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }
  // The files, and no others, whatever `json` has as their contents.
  void write(const nlohmann::json& json) const {
    for (const char* name : {"config.json", "generation_config.json", "preprocessor_config.json"}) {
      const auto found = json.find(name);
      if (found == json.end())
        fs::remove(path_ / name);
      else
        std::ofstream(path_ / name) << found->dump();
    }
  }

 private:
  const fs::path path_;
};

template <class Use>
void try_to(const Use& use) {
  try {
    use();
  } catch (const InputError&) {
  }
}

void check_limits(const ModelConfig& config) {
  const ModelLimits limits = limits_of(config);
  check(limits.scratch_values_per_token >= 0 && limits.widest_linear >= 0);
  check(limits.self_cache_values_per_token >= 0 && limits.cross_cache_values_per_token >= 0);
  check(limits.cache_heads_per_token >= 0);
  check(limits.encoder_positions.value_or(0) >= 0 && limits.decoder_positions.value_or(0) >= 0);
  if (!limits.frames) return;
  check(limits.frames->width > 0);
  for (const int64_t frames : {int64_t{1}, int64_t{3000}, int64_t{1} << 40})
    check(limits.frames->length_of(frames) >= 0);
  if (limits.frames->image) check(limits.frames->image->count() > 0);
}

void resolve(const ModelConfig& config) {
  const ParamsResolver resolver(config, config.vocab_size);
  const proto::GenerationOptions none;
  for (const int32_t id : resolver.end_tokens(none)) check(id >= 0 && id < config.vocab_size);
  check(resolver.decoder_start(none) < config.vocab_size);
  check(resolver.default_bos(none) < config.vocab_size);
  check(resolver.model_forced_bos(none) < config.vocab_size);
  try_to([&] {
    const auto prompt = decoder_prompt_rule(config)(
        std::nullopt, {config, resolver.decoder_start(none), resolver.default_bos(none)});
    check(!prompt.ids.empty());
    for (const int32_t id : prompt.ids) check(id >= 0 && id < config.vocab_size);
  });
  try_to([&] { check(resolver.resolve(none, {2, true}).max_tokens() > 0); });
  for (const auto& [name, task] : task_params(config)) {
    proto::GenerationOptions options;
    options.set_task(name);
    try_to([&] { check(resolver.resolve(options, {1, false}).max_tokens() > 0); });
  }
}

void hear(const ModelConfig& config) {
  if (!SpeechSettings::has_speech(config)) return;
  const SpeechSettings settings = SpeechSettings::load(config);
  check(settings.window_frames > 0 && settings.frames_per_position > 0);
  for (const char* name : {"en", "german", "<|fr|>", ""})
    try_to([&] {
      const int32_t id = settings.language_id(name);
      check(id >= 0 && id < config.vocab_size && !settings.language_of(id).empty());
    });
  try_to([&] { check(settings.task_id("transcribe") < config.vocab_size); });
}

}  // namespace
}  // namespace tandem

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tandem;
  static const ConfigDirectory directory;
  log_nothing();
  try_to([&] {
    const nlohmann::json json =
        parse_json(std::string(reinterpret_cast<const char*>(data), size), "input");
    if (!json.is_object()) return;
    directory.write(json);
    const ModelConfig config = ModelConfig::load(directory.path());
    try_to([&] { check_limits(config); });
    if (!is_supported(config)) return;
    try_to([&] { resolve(config); });
    try_to([&] { hear(config); });
  });
  return 0;
}
