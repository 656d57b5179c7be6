// What a checkpoint's files say of its prompts.
#include "runtime/media/sound/speech_settings.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/error.h"
#include "tests/support/files/files.h"

namespace tandem {
namespace {

using nlohmann::json;

SpeechSettings settings_of(const json& more, const json& generation) {
  test::TempDir dir;
  json config = {
      {"model_type", "whisper"},    {"architectures", {"WhisperForConditionalGeneration"}},
      {"vocab_size", 50},           {"decoder_start_token_id", 1},
      {"max_source_positions", 20}, {"eos_token_id", 2}};
  config.update(more);
  dir.write("config.json", config.dump());
  if (!generation.is_null()) dir.write("generation_config.json", generation.dump());
  return SpeechSettings::load(ModelConfig::load(dir.path()));
}

using Forced = decltype(SpeechSettings::forced_prompt);

TEST(SpeechSettings, IdsThatAreForcedOfEitherFile) {
  const json ids = {{"forced_decoder_ids", {{1, 5}, {2, nullptr}}}},
             others = {{"forced_decoder_ids", {{1, 7}}}}, none = {{"forced_decoder_ids", nullptr}};
  const Forced want = {{1, 5}, {2, std::nullopt}};
  EXPECT_EQ(settings_of(ids, nullptr).forced_prompt, want);
  EXPECT_EQ(settings_of(ids, json::object()).forced_prompt, want);
  EXPECT_EQ(settings_of(ids, none).forced_prompt, want);
  EXPECT_EQ(settings_of(others, ids).forced_prompt, want);
  EXPECT_EQ(settings_of(json::object(), json::object()).forced_prompt, Forced());
  for (const auto& [more, file] :
       {std::pair(json{{"forced_decoder_ids", 3}}, "config.json"),
        std::pair(json{{"forced_decoder_ids", {{1, 50}}}}, "config.json")})
    try {
      settings_of(more, json::object());
      ADD_FAILURE() << more;
    } catch (const InputError& error) {
      EXPECT_NE(std::string(error.what()).find(file), std::string::npos) << error.what();
      EXPECT_EQ(std::string(error.what()).find("generation_config"), std::string::npos);
    }
}

TEST(SpeechSettings, LanguagesHaveNames) {
  try {
    settings_of(json::object(), {{"lang_to_id", {{"<|en|>", 3}, {"", 4}}}});
    ADD_FAILURE();
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("lang_to_id: has an empty name"), std::string::npos)
        << error.what();
  }
}

TEST(SpeechSettings, WindowsOfFrames) {
  const SpeechSettings settings = settings_of(json::object(), json::object());
  EXPECT_FALSE(settings.clip);
  EXPECT_EQ(settings.window_frames, 40);
  EXPECT_EQ(settings.frames_per_position, 2);
}

}  // namespace
}  // namespace tandem
