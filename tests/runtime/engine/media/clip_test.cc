// A model that hears whole clips, from the files to the ids and texts: what HuggingFace says of a
// random checkpoint (scripts/goldens/make_clip_golden.py).
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "models/checkpoint/checkpoint.h"
#include "models/family.h"
#include "models/load_model.h"
#include "runtime/engine/llm_engine.h"
#include "runtime/media/sound/transcription.h"
#include "runtime/protocol/json/options_reader.h"
#include "runtime/protocol/json/speech_params_reader.h"
#include "tests/support/files/files.h"
#include "tests/support/goldens/golden_config.h"
#include "tests/support/media/sounds.h"
#include "tests/support/media/transcripts.h"
#include "tests/support/ranks/rank_threads.h"

namespace tandem {
namespace {

using nlohmann::json;
using testing::clip_samples;

std::filesystem::path clip_checkpoint() { return test::test_root() / "tests/data/clip-tiny"; }

LogMel heard(const SpeechSettings& settings, const std::vector<float>& samples) {
  AudioFile file = AudioFile::of_bytes(testing::float_wav(samples, 16000), "audio", 16000);
  return settings.frames_of(file, "audio");
}

class Clips : public ::testing::Test {
 protected:
  Clips()
      : golden_(load_json(clip_checkpoint() / "golden.json")),
        settings_(std::make_shared<SpeechSettings>(
            SpeechSettings::load(ModelConfig::load(clip_checkpoint())))),
        tokenizer_(load_tokenizer(clip_checkpoint())) {}
  LogMel heard_of(size_t k) const {
    return heard(*settings_, clip_samples(static_cast<int64_t>(k), golden_["clips"][k]["samples"]));
  }
  std::unique_ptr<Transcription> transcription(size_t k, const proto::GenerationOptions& options,
                                               const json& params = nullptr) const {
    LogMel clip = heard_of(k);
    const double seconds = clip.seconds;
    SpeechInput input{seconds, {}, {}};
    input.pieces.push_back({std::move(clip), seconds});
    return std::make_unique<Transcription>(settings_, std::move(input), read_speech_params(params),
                                           options, *tokenizer_);
  }
  std::map<std::string, Tensor> tensors() const {
    std::ifstream in(clip_checkpoint() / "golden.safetensors", std::ios::binary);
    const std::vector<char> bytes(std::istreambuf_iterator<char>(in), {});
    std::map<std::string, Tensor> out;
    for (const HostTensor& t : read_safetensors(reinterpret_cast<const std::byte*>(bytes.data()),
                                                bytes.size(), "golden", nullptr))
      out[t.name] = to_float(t).reshape(t.shape);
    return out;
  }

  json golden_;
  std::shared_ptr<const SpeechSettings> settings_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

proto::GenerationOptions options_of(const std::string& kind) {
  const bool beams = kind == "beams";
  return read_options({{"num_beams", beams ? 3 : 1},
                       {"max_new_tokens", beams ? 12 : 24},
                       {"no_repeat_ngram_size", 2}});
}

TEST_F(Clips, SamplesAreThoseOfTheFeatureExtractor) {
  const auto golden = tensors();
  for (size_t k = 0; k < golden_["clips"].size(); ++k) {
    const LogMel mel = heard_of(k);
    EXPECT_EQ(mel.bins, 1);
    EXPECT_EQ(mel.frames, golden_["clips"][k]["samples"].get<int64_t>());
    const Tensor& want = golden.at(std::to_string(k) + ".samples");  // every 13th
    for (int64_t i = 0; i < want.size(); ++i)
      ASSERT_NEAR(mel.values[static_cast<size_t>(13 * i)], want.data<float>()[i], 1e-5) << k;
  }
}

TEST_F(Clips, StatesOfAnyNumberOfRanks) {
  const auto golden = tensors();
  const ModelConfig config = ModelConfig::load(clip_checkpoint());
  const ModelLimits limits = limits_of(config);
  ModelInput all;  // in one step
  all.encoder_frames.width = 1;
  for (size_t k = 0; k < golden_["clips"].size(); ++k) {
    const LogMel mel = heard_of(k);
    auto& values = all.encoder_frames.values;
    values.insert(values.end(), mel.values.begin(), mel.values.end());
    all.encoder_frames.start_loc.push_back(static_cast<int32_t>(values.size()));
    const auto length = static_cast<int32_t>(limits.frames->length_of(mel.frames));
    all.attention.add_encoder(length, {});
    for (int32_t i = 0; i < length; ++i) all.encoder_positions.push_back(i);
  }
  for (const int ranks : {1, 2, 4}) {  // of two heads
    const auto errors = testing::run_ranks(ranks, {}, [&](Communicator& comm) {
      Context ctx(1);
      Checkpoint weights = Checkpoint::open(clip_checkpoint());
      const auto model = load_model(config, weights, {ctx, comm, DType::kF32});
      const Tensor states = model->encode(StepTensors(all));
      for (size_t k = 0; k < golden_["clips"].size(); ++k) {
        const Tensor& want = golden.at(std::to_string(k) + ".encoder");
        const float* got = states.row<float>(all.attention.encoder_start_loc[k]);
        for (int64_t i = 0; i < want.size(); ++i)
          if (!(std::abs(got[i] - want.data<float>()[i]) < 2e-5))
            throw std::runtime_error("clip " + std::to_string(k) + ", " + std::to_string(i));
      }
    });
    for (const std::string& error : errors) EXPECT_EQ(error, "") << ranks;
  }
}

TEST_F(Clips, IdsOfAllTogether) {
  LLMEngine engine(testing::small_config(clip_checkpoint()));
  std::map<std::string, std::unique_ptr<Transcription>> jobs;
  for (int copy = 0; copy < 3; ++copy)
    for (size_t k = 0; k < golden_["clips"].size(); ++k)
      for (const std::string kind : {"greedy", "beams"}) {
        const std::string id = kind + std::to_string(k) + std::to_string(copy);
        auto& job = jobs[id] = transcription(k, options_of(kind));
        const auto requests = job->next();
        ASSERT_EQ(requests.size(), 1u);
        EXPECT_EQ(requests[0].number, 0);
        engine.add_request(id, requests[0].prompt, requests[0].options);
      }
  while (engine.has_unfinished_requests())
    for (const auto& output : engine.step())
      if (output.finished()) jobs.at(output.request_id())->take(0, output);
  for (auto& [id, job] : jobs) {
    SCOPED_TRACE(id);
    EXPECT_TRUE(job->done());
    EXPECT_DOUBLE_EQ(job->seconds_done(), job->seconds());
    const proto::RequestOutput result = testing::answer_of(*job, *tokenizer_);
    const json& one = golden_["clips"][static_cast<size_t>(id[id.size() - 2] - '0')];
    json ids = json::array();
    for (const int32_t token : result.inputs().prompt_token_ids()) ids.push_back(token);
    for (const int32_t token : result.outputs(0).token_ids()) ids.push_back(token);
    EXPECT_EQ(ids, one[id.substr(0, id.size() - 2)]);
  }
}

TEST_F(Clips, TextsAndIds) {
  const auto tokenizer = load_tokenizer(clip_checkpoint());
  for (const json& one : golden_["texts"])
    EXPECT_EQ(json(tokenizer->encode(one["text"].get<std::string>(), true)), one["ids"]) << one;
  for (const json& one : golden_["decoded"]) {
    EXPECT_EQ(tokenizer->decode(one["ids"], false), one["all"].get<std::string>()) << one;
    EXPECT_EQ(tokenizer->decode(one["ids"], true), one["text"].get<std::string>()) << one;
  }
}

template <class Body>
void expect_error(const std::string& words, const Body& body) {
  try {
    body();
    ADD_FAILURE() << words;
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

TEST_F(Clips, LengthsThatTheModelDoesNotHear) {
  EXPECT_EQ(settings_->clip->fewest, 895);
  EXPECT_EQ(heard(*settings_, clip_samples(0, 895)).frames, 895);
  expect_error("894 samples", [&] { heard(*settings_, clip_samples(0, 894)); });
  expect_error("no samples", [&] { heard(*settings_, {}); });
  expect_error("longer than 64 seconds",
               [&] { heard(*settings_, std::vector<float>(65 * 16000, 0.5f)); });
  LLMEngine engine(testing::small_config(clip_checkpoint()));
  proto::Prompt prompt;
  prompt.mutable_encoder()->mutable_frames()->set_width(1);
  prompt.mutable_encoder()->mutable_frames()->set_num_frames(894);
  prompt.mutable_encoder()->mutable_frames()->mutable_values()->Resize(894, 0);
  expect_error("too few", [&] { engine.add_request("x", prompt, {}); });
}

TEST_F(Clips, WhatOtherModelsOfSpeechKnowIsRefused) {
  const json others = {{"language", "de"},
                       {"task", "translate"},
                       {"return_timestamps", true},
                       {"condition_on_prev_tokens", true},
                       {"prompt_ids", {5}}};
  for (const auto& [name, value] : others.items())
    expect_error(name, [&] { transcription(0, {}, {{name, value}}); });
}

TEST_F(Clips, ConfigurationsThatAreNotBuiltAreNamed) {
  const auto expect = [&](const json& patch, const std::string& words) {
    test::TempDir dir;
    for (const auto& entry : std::filesystem::directory_iterator(clip_checkpoint()))
      std::filesystem::create_symlink(std::filesystem::absolute(entry.path()),
                                      dir / entry.path().filename().string());
    std::filesystem::remove(dir / "config.json");
    json config = load_json(clip_checkpoint() / "config.json");
    config.merge_patch(patch);
    dir.write("config.json", config.dump());
    expect_error(words, [&] { LLMEngine engine(testing::small_config(dir.path())); });
  };
  expect({{"decoder_num_attention_heads", 4}}, "decoder_num_attention_heads");
  expect({{"encoder_num_key_value_heads", 1}}, "encoder_num_key_value_heads");
  expect({{"encoder_num_attention_heads", 3}}, "encoder_num_attention_heads");
  expect({{"rope_scaling", {{"rope_type", "yarn"}}}}, "rope_type");
  expect({{"rope_parameters", 3}}, "rope_parameters");
  expect({{"partial_rotary_factor", 1.5}}, "partial_rotary_factor");
  expect({{"partial_rotary_factor", 0.01}}, "partial_rotary_factor");
  expect({{"rope_parameters", {{"rope_theta", 10000.0}, {"partial_rotary_factor", "x"}}}},
         "partial_rotary_factor");
  expect({{"hidden_size", 32}}, "shape");
}

}  // namespace
}  // namespace tandem
