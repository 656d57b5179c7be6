// Models of sound of several families, from clips to ids: what HuggingFace says of small random
// checkpoints (scripts/goldens/make_sound_models.py), in one batch, in small blocks, on two ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "models/checkpoint/checkpoint.h"
#include "models/family.h"
#include "models/load_model.h"
#include "runtime/engine/llm_engine.h"
#include "runtime/media/sound/speech_settings.h"
#include "runtime/protocol/json/options_reader.h"
#include "tests/support/files/files.h"
#include "tests/support/goldens/golden_config.h"
#include "tests/support/goldens/golden_engine.h"
#include "tests/support/media/sounds.h"
#include "tests/support/ranks/rank_threads.h"

namespace tandem {
namespace {

using nlohmann::json;

class SoundModels : public ::testing::TestWithParam<const char*> {
 protected:
  std::filesystem::path folder() const {
    return test::test_root() / "tests/data/sound-models" / GetParam();
  }
  json goldens() const { return load_json(folder() / "golden.json"); }
  // What the encoder gets of a case's clip.
  LogMel heard(const json& golden) const {
    const auto samples =
        testing::clip_samples(golden["clip"].get<int64_t>(), golden["samples"].get<int64_t>());
    AudioFile file = AudioFile::of_bytes(testing::float_wav(samples, 16000), "audio", 16000);
    return SpeechSettings::load(ModelConfig::load(folder())).frames_of(file, "audio");
  }
  std::map<std::string, Tensor> tensors() const {
    std::ifstream in(folder() / "golden.safetensors", std::ios::binary);
    const std::vector<char> bytes(std::istreambuf_iterator<char>(in), {});
    std::map<std::string, Tensor> out;
    for (const HostTensor& t : read_safetensors(reinterpret_cast<const std::byte*>(bytes.data()),
                                                bytes.size(), "golden", nullptr))
      out[t.name] = to_float(t).reshape(t.shape);
    return out;
  }
  void expect_ids(const EngineConfig& config) const;
};
INSTANTIATE_TEST_SUITE_P(All, SoundModels,
                         ::testing::Values("filter-banks", "waves-layers", "waves-groups", "frames",
                                           "spectra", "spectra-noise"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

proto::Prompt prompt_of(const LogMel& clip, const json& golden) {
  proto::Prompt out;
  out.mutable_encoder()->set_field("prompt");
  proto::EncoderFrames& frames = *out.mutable_encoder()->mutable_frames();
  frames.set_width(clip.bins);
  frames.set_num_frames(static_cast<int32_t>(clip.frames));
  frames.mutable_values()->Add(clip.values.begin(), clip.values.end());
  auto& ids = *out.mutable_decoder()->mutable_token_ids();
  for (const int id : golden["decoder_prompt_ids"]) ids.add_ids(id);
  return out;
}

void SoundModels::expect_ids(const EngineConfig& config) const {
  LLMEngine engine(config);
  const ModelConfig& model = engine.model_config();
  std::map<std::string, json> wanted;
  for (const json& golden : goldens()) {
    const auto id = golden["name"].get<std::string>();
    wanted[id] = golden;
    engine.add_request(id, prompt_of(heard(golden), golden), read_options(golden["generation"]));
  }
  size_t finished = 0;
  while (engine.has_unfinished_requests())
    for (const auto& output : engine.step()) {
      const json& golden = wanted.at(output.request_id());
      const json all =
          golden.contains("sequences") ? golden["sequences"] : json::array({golden["output_ids"]});
      ASSERT_EQ(static_cast<size_t>(output.outputs_size()), all.size());
      for (int i = 0; i < output.outputs_size(); ++i) {
        const auto& prompt = output.inputs().prompt_token_ids();
        const auto& tokens = output.outputs(i).token_ids();
        testing::Ids got(prompt.begin(), prompt.end());
        got.insert(got.end(), tokens.begin(), tokens.end());
        const auto want = all[static_cast<size_t>(i)].get<testing::Ids>();
        EXPECT_EQ(testing::unpadded(got, model), testing::unpadded(want, model))
            << output.request_id() << " " << i;
      }
      ++finished;
    }
  EXPECT_GE(wanted.size(), 4u);
  EXPECT_EQ(finished, wanted.size());
}

TEST_P(SoundModels, IdsOfAllTogether) { expect_ids(testing::small_config(folder())); }

TEST_P(SoundModels, IdsInBlocksOfOne) {
  EngineConfig config = testing::small_config(folder());
  config.mutable_cache()->set_block_size(1);
  config.mutable_cache()->set_num_gpu_blocks_override(400);
  expect_ids(config);
}

// Of samples every 13th. Rows that HuggingFace masks are not there.
TEST_P(SoundModels, InputsAreThoseOfTheFeatureExtractor) {
  const auto golden = tensors();
  for (const json& one : goldens()) {
    const LogMel clip = heard(one);
    const Tensor& want = golden.at(one["name"].get<std::string>() + ".input");
    const bool samples = want.rank() == 1;
    if (!samples) {
      ASSERT_EQ(clip.frames * clip.bins, want.size());
    }
    for (int64_t i = 0; i < want.size(); ++i) {
      const auto at = static_cast<size_t>(samples ? 13 * i : i);
      // Samples that fill no frame are heard as silence, behind a mask.
      const bool masked =
          clip.bins > 1 && samples &&
          static_cast<int64_t>(at) >= one["samples"].get<int64_t>() / clip.bins * clip.bins;
      ASSERT_NEAR(clip.values[at], masked ? 0.0f : want.data<float>()[i], 2e-4) << one["name"];
    }
  }
}

TEST_P(SoundModels, StatesOfAnyNumberOfRanks) {
  const auto golden = tensors();
  const ModelConfig config = ModelConfig::load(folder());
  const ModelLimits limits = limits_of(config);
  const json cases = goldens();
  ModelInput all;  // in one step
  for (const json& one : cases) {
    const LogMel clip = heard(one);
    EncoderFrames& to = all.encoder_frames;
    to.width = clip.bins;
    to.values.insert(to.values.end(), clip.values.begin(), clip.values.end());
    to.start_loc.push_back(to.start_loc.back() + static_cast<int32_t>(clip.frames));
    const auto length = static_cast<int32_t>(limits.frames->length_of(clip.frames));
    all.attention.add_encoder(length, {});
    for (int32_t i = 0; i < length; ++i) all.encoder_positions.push_back(i);
  }
  for (const int ranks : {1, 2}) {
    const auto errors = testing::run_ranks(ranks, {}, [&](Communicator& comm) {
      Context ctx(1);
      Checkpoint weights = Checkpoint::open(folder());
      const auto model = load_model(config, weights, {ctx, comm, DType::kF32});
      const Tensor states = model->encode(StepTensors(all));
      for (size_t k = 0; k < cases.size(); ++k) {
        const Tensor& want =
            golden.at(cases[k]["name"].get<std::string>() + ".encoder_last_hidden_state");
        const int32_t begin = all.attention.encoder_start_loc[k],
                      rows = all.attention.encoder_seq_lens[k];
        if (want.dim(1) != states.dim(1) || want.dim(0) < rows)
          throw std::runtime_error("another shape: " + to_string(want.shape()));
        for (int64_t i = 0; i < rows * states.dim(1); ++i)
          if (!(std::abs(states.row<float>(begin)[i] - want.data<float>()[i]) < 2e-4))
            throw std::runtime_error("clip " + std::to_string(k) + ", " + std::to_string(i));
      }
    });
    for (const std::string& error : errors) EXPECT_EQ(error, "") << ranks;
  }
}

}  // namespace
}  // namespace tandem
