// Images and sound through the CUDA plugin, on the emulator: HuggingFace's tokens, alone and
// together.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "runtime/engine/llm_engine.h"
#include "runtime/media/image/image_file.h"
#include "runtime/media/sound/speech_settings.h"
#include "runtime/media/sound/transcription.h"
#include "runtime/protocol/json/options_reader.h"
#include "tests/support/files/files.h"
#include "tests/support/media/sounds.h"

namespace tandem::frames_goldens_test {
namespace {

using nlohmann::json;

EngineConfig device_config(const std::string& checkpoint, DType dtype) {
  EngineConfig config;
  config.mutable_loading()->set_model((test::test_root() / "tests/data" / checkpoint).string());
  config.mutable_loading()->set_device("cuda");
  config.mutable_loading()->add_cudagraph_capture_sizes(0);  // nothing is recorded at start
  config.mutable_loading()->set_dtype(name_of(dtype));
  config.mutable_cache()->set_block_size(4);
  config.mutable_cache()->set_num_gpu_blocks_override(256);
  config.mutable_loading()->set_threads(1);
  return config;
}

// Each prompt with its greedy and its beams' ids.
void expect_ids(const EngineConfig& config, const std::vector<proto::Prompt>& prompts,
                const json& golden) {
  LLMEngine engine(config);
  for (size_t i = 0; i < prompts.size(); ++i)
    for (const std::string kind : {"greedy", "beams"})
      engine.add_request(kind + std::to_string(i), prompts[i],
                         read_options({{"num_beams", kind == "beams" ? 3 : 1},
                                       {"max_new_tokens", kind == "beams" ? 12 : 24},
                                       {"no_repeat_ngram_size", 2}}));
  std::map<std::string, json> got;
  for (int step = 0; engine.has_unfinished_requests() && step < 1000; ++step)
    for (const auto& output : engine.step()) {
      if (!output.finished()) continue;
      json& ids = got[output.request_id()] = json::array();
      for (const int32_t id : output.inputs().prompt_token_ids()) ids.push_back(id);
      for (const int32_t id : output.outputs(0).token_ids()) ids.push_back(id);
    }
  for (size_t i = 0; i < prompts.size(); ++i)
    for (const std::string kind : {"greedy", "beams"}) {
      if (asked_dtype(config) != DType::kF32 && kind == "beams")
        continue;  // they lie close together
      EXPECT_EQ(got[kind + std::to_string(i)], golden[i][kind]) << kind << i;
    }
}

class FramesOnDevices : public ::testing::TestWithParam<DType> {};

TEST_P(FramesOnDevices, Images) {
  const EngineConfig config = device_config("vision-tiny", GetParam());
  const std::filesystem::path model = config.loading().model();
  const json golden = load_json(model / "golden.json");
  std::vector<proto::Prompt> prompts;
  for (const json& one : golden) {
    proto::PromptPart& encoder = *prompts.emplace_back().mutable_encoder();
    encoder.set_field("prompt");
    encoder.set_image(read_image_file((model / one["image"].get<std::string>()).string(), "file"));
  }
  expect_ids(config, prompts, golden);
}

TEST_P(FramesOnDevices, Clips) {
  const EngineConfig config = device_config("clip-tiny", GetParam());
  const std::filesystem::path model = config.loading().model();
  const json golden = load_json(model / "golden.json")["clips"];
  const SpeechSettings settings = SpeechSettings::load(ModelConfig::load(model));
  std::vector<proto::Prompt> prompts;
  for (size_t k = 0; k < 2; ++k) {  // the short ones
    AudioFile file = AudioFile::of_bytes(
        testing::float_wav(
            testing::clip_samples(static_cast<int64_t>(k), golden[k]["samples"].get<int64_t>()),
            16000),
        "audio", 16000);
    *prompts.emplace_back().mutable_encoder()->mutable_frames() =
        window_of(settings.frames_of(file, "audio"), settings, 0);
  }
  expect_ids(config, prompts, golden);
}

INSTANTIATE_TEST_SUITE_P(Types, FramesOnDevices, ::testing::Values(DType::kF32, DType::kF16),
                         [](const auto& info) { return std::string(name_of(info.param)); });

class FurtherSound : public ::testing::TestWithParam<const char*> {};

TEST_P(FurtherSound, Greedy) {
  const EngineConfig config = device_config(std::string("sound-models/") + GetParam(), DType::kF32);
  const std::filesystem::path model = config.loading().model();
  const SpeechSettings settings = SpeechSettings::load(ModelConfig::load(model));
  LLMEngine engine(config);
  std::map<std::string, json> wanted, got;
  for (const json& one : load_json(model / "golden.json")) {
    if (!one.contains("output_ids")) continue;
    AudioFile file = AudioFile::of_bytes(
        testing::float_wav(
            testing::clip_samples(one["clip"].get<int64_t>(), one["samples"].get<int64_t>()),
            16000),
        "audio", 16000);
    proto::Prompt prompt;
    *prompt.mutable_encoder()->mutable_frames() =
        window_of(settings.frames_of(file, "audio"), settings, 0);
    auto& ids = *prompt.mutable_decoder()->mutable_token_ids();
    for (const int id : one["decoder_prompt_ids"]) ids.add_ids(id);
    wanted[one["name"]] = one["output_ids"];
    engine.add_request(one["name"], prompt, read_options(one["generation"]));
  }
  for (int step = 0; engine.has_unfinished_requests() && step < 1000; ++step)
    for (const auto& output : engine.step()) {
      if (!output.finished()) continue;
      json& ids = got[output.request_id()] = json::array();
      for (const int32_t id : output.inputs().prompt_token_ids()) ids.push_back(id);
      for (const int32_t id : output.outputs(0).token_ids()) ids.push_back(id);
    }
  EXPECT_GE(wanted.size(), 3u);
  EXPECT_EQ(got, wanted);
}

INSTANTIATE_TEST_SUITE_P(All, FurtherSound,
                         ::testing::Values("filter-banks", "waves-layers", "waves-groups", "frames",
                                           "spectra", "spectra-noise"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace tandem::frames_goldens_test
