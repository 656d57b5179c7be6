// A model that reads images, from the files to the ids: what HuggingFace says of a checkpoint with
// the names of the published files (scripts/goldens/make_vision_golden.py).
#include <gtest/gtest.h>

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
#include "parallel/communicators/communicator.h"
#include "runtime/engine/llm_engine.h"
#include "runtime/media/image/image_file.h"
#include "runtime/protocol/json/options_reader.h"
#include "tests/support/files/files.h"
#include "tests/support/goldens/golden_config.h"

namespace tandem::vision_test {
namespace {

using nlohmann::json;

std::filesystem::path checkpoint() { return test::test_root() / "tests/data/vision-tiny"; }

std::string bytes_of(const std::string& image) {
  return read_image_file((checkpoint() / image).string(), "file");
}

proto::Prompt prompt_of(const std::string& bytes) {
  proto::Prompt out;
  out.mutable_encoder()->set_field("prompt");
  out.mutable_encoder()->set_image(bytes);
  return out;
}

json params_of(const std::string& kind) {
  const bool beams = kind == "beams";
  return {{"num_beams", beams ? 3 : 1},
          {"max_new_tokens", beams ? 12 : 24},
          {"no_repeat_ngram_size", 2}};
}

std::map<std::string, std::vector<int>> run(LLMEngine& engine) {
  std::map<std::string, std::vector<int>> out;
  for (int i = 0; engine.has_unfinished_requests() && i < 10000; ++i)
    for (const auto& output : engine.step()) {
      if (output.outputs_size() == 0 || !output.finished()) continue;
      std::vector<int> ids(output.inputs().prompt_token_ids().begin(),
                           output.inputs().prompt_token_ids().end());
      const auto& more = output.outputs(0).token_ids();
      ids.insert(ids.end(), more.begin(), more.end());
      out[output.request_id()] = ids;
    }
  return out;
}

TEST(Vision, IdsOfAllImagesTogether) {
  const json golden = load_json(checkpoint() / "golden.json");
  LLMEngine engine(testing::small_config(checkpoint()));
  for (int copy = 0; copy < 3; ++copy)
    for (const json& one : golden)
      for (const std::string kind : {"greedy", "beams"})
        engine.add_request(one["image"].get<std::string>() + kind + std::to_string(copy),
                           prompt_of(bytes_of(one["image"])), read_options(params_of(kind)));
  const auto got = run(engine);
  ASSERT_EQ(got.size(), 3 * 2 * golden.size());
  for (const json& one : golden)
    for (const std::string kind : {"greedy", "beams"})
      for (int copy = 0; copy < 3; ++copy) {
        const std::string id = one["image"].get<std::string>() + kind + std::to_string(copy);
        EXPECT_EQ(json(got.at(id)), one[kind]) << id;
      }
}

std::map<std::string, Tensor> golden_tensors() {
  std::ifstream in(checkpoint() / "golden.safetensors", std::ios::binary);
  const std::vector<char> bytes(std::istreambuf_iterator<char>(in), {});
  std::map<std::string, Tensor> out;
  for (const HostTensor& t : read_safetensors(reinterpret_cast<const std::byte*>(bytes.data()),
                                              bytes.size(), "golden", nullptr))
    out[t.name] = to_float(t).reshape(t.shape);
  return out;
}

double difference(const float* a, const Tensor& b) {
  double most = 0;
  for (int64_t i = 0; i < b.size(); ++i)
    most = std::max(most, std::abs(double{a[i]} - double{b.data<float>()[i]}));
  return most;
}

TEST(Vision, PixelsAndStates) {
  const auto golden = golden_tensors();
  const auto processor = ImageProcessor::load(checkpoint());
  const ModelConfig config = ModelConfig::load(checkpoint());
  const ModelLimits limits = limits_of(config);
  ASSERT_TRUE(limits.frames && limits.frames->image);
  EXPECT_EQ(limits.encoder_positions, 8);  // six patches, two tokens
  Checkpoint weights = Checkpoint::open(checkpoint());
  Context ctx(1);
  const auto comm = make_local_communicator();
  const auto model = load_model(config, weights, {ctx, *comm, DType::kF32});
  ModelInput both;  // in one step
  for (const std::string name : {"image_0.png", "image_1.jpg"}) {
    const Image image = decode_image(bytes_of(name), "image");
    EXPECT_LT(difference(processor->pixel_values(image).data(), golden.at(name + ".pixel_values")),
              1e-6);
    const auto frames = processor->frames(bytes_of(name), "image", *limits.frames->image);
    both.encoder_frames.width = frames.width();
    both.encoder_frames.values.insert(both.encoder_frames.values.end(), frames.values().begin(),
                                      frames.values().end());
    both.encoder_frames.start_loc.push_back(both.encoder_frames.start_loc.back() +
                                            frames.num_frames());
    both.attention.add_encoder(8, {});
    for (int32_t i = 0; i < 8; ++i) both.encoder_positions.push_back(i);
  }
  const Tensor states = model->encode(StepTensors(both));
  ASSERT_EQ(states.dim(0), 16);
  EXPECT_LT(difference(states.row<float>(0), golden.at("image_0.png.encoder")), 2e-5);
  EXPECT_LT(difference(states.row<float>(8), golden.at("image_1.jpg.encoder")), 2e-5);
}

void expect_refused(LLMEngine& engine, const proto::Prompt& prompt, const std::string& words) {
  try {
    engine.add_request("x", prompt, read_options(json::object()));
    ADD_FAILURE() << words;
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    EXPECT_EQ(error.param().rfind("prompt", 0), 0u) << error.param();
  }
}

TEST(Vision, WrongInputIsRefused) {
  LLMEngine engine(testing::small_config(checkpoint()));
  expect_refused(engine, prompt_of("no image"), "is no image");
  expect_refused(engine, prompt_of(bytes_of("image_0.png").substr(0, 500)), "broken PNG");
  proto::Prompt prompt;
  prompt.mutable_encoder()->set_field("prompt");
  prompt.mutable_encoder()->set_text("words");
  expect_refused(engine, prompt, "must be an image");
  proto::EncoderFrames& frames = *prompt.mutable_encoder()->mutable_frames();
  frames.set_width(192);
  frames.set_num_frames(5);
  frames.mutable_values()->Resize(5 * 192, 0);
  expect_refused(engine, prompt, "have 6 patches");
  EXPECT_FALSE(engine.has_unfinished_requests());
}

// A copy of the checkpoint with other settings.
struct Changed {
  Changed(const std::string& file, const json& patch) {
    for (const auto& entry : std::filesystem::directory_iterator(checkpoint()))
      std::filesystem::create_symlink(std::filesystem::absolute(entry.path()),
                                      dir / entry.path().filename().string());
    std::filesystem::remove(dir / file);
    json config = load_json(checkpoint() / file);
    config.merge_patch(patch);
    dir.write(file, config.dump());
  }
  test::TempDir dir;
};

TEST(Vision, WhatIsNotReadIsNamed) {
  const auto expect = [](const std::string& file, const json& patch, const std::string& words) {
    const Changed changed(file, patch);
    try {
      LLMEngine engine(testing::small_config(changed.dir.path()));
      ADD_FAILURE() << patch;
    } catch (const InputError& error) {
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  };
  const std::string config = "config.json";
  expect(config, {{"encoder", {{"model_type", "swin"}}}}, "encoder: model_type");
  expect(config, {{"decoder", {{"model_type", "xlnet"}}}}, "decoder: model_type");
  expect(config, {{"decoder", {{"model_type", "gpt2"}, {"add_cross_attention", false}}}},
         "decoder: add_cross_attention");
  expect(config, {{"encoder", {{"image_size", "x"}}}}, "image_size");
  expect(config, {{"encoder", {{"patch_size", 20}}}}, "patch_size");
  expect(config, {{"encoder", {{"num_channels", 1}}}}, "num_channels");
  expect(config, {{"encoder", {{"num_attention_heads", 3}}}}, "num_attention_heads");
  expect(config, {{"decoder", {{"cross_attention_hidden_size", 24}}}}, "hidden_size");
  expect(config, {{"encoder", {{"model_type", "vit"}}}}, "position_embeddings");
  expect("preprocessor_config.json", {{"size", 32}}, "32 x 32");
}

TEST(Vision, WithoutAnImageProcessorThereAreNoImages) {
  const Changed changed("preprocessor_config.json", json::object());
  std::filesystem::remove(changed.dir / "preprocessor_config.json");
  LLMEngine engine(testing::small_config(changed.dir.path()));
  expect_refused(engine, prompt_of(bytes_of("image_0.png")), "preprocessor_config.json");
}

}  // namespace
}  // namespace tandem::vision_test
