// Models of images of several families, from the files to the ids: what HuggingFace says of small
// random checkpoints (tests/data/image-models), in one batch and in small blocks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "models/checkpoint/checkpoint.h"
#include "models/family.h"
#include "models/load_model.h"
#include "parallel/communicators/communicator.h"
#include "runtime/engine/llm_engine.h"
#include "runtime/media/image/image_file.h"
#include "runtime/media/image/image_processor.h"
#include "runtime/protocol/json/options_reader.h"
#include "tests/support/files/files.h"
#include "tests/support/goldens/golden_config.h"
#include "tests/support/goldens/golden_engine.h"

namespace tandem::image_models_test {
namespace {

using nlohmann::json;

std::filesystem::path folder(const std::string& name) {
  return test::test_root() / "tests/data/image-models" / name;
}

std::string image_of(const std::string& name, const std::string& image) {
  return read_image_file((folder(name) / image).string(), "file");
}

class ImageModels : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, ImageModels,
                         ::testing::Values("donut-tiny", "nougat-tiny", "blip-tiny",
                                           "pix2struct-tiny"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

proto::Prompt prompt_of(const std::string& name, const json& golden) {
  proto::Prompt out;
  out.mutable_encoder()->set_field("prompt");
  out.mutable_encoder()->set_image(image_of(name, golden["image"].get<std::string>()));
  auto& ids = *out.mutable_decoder()->mutable_token_ids();
  for (const int id : golden["decoder_prompt_ids"]) ids.add_ids(id);
  return out;
}

void expect_goldens(const std::string& name, const EngineConfig& config) {
  LLMEngine engine(config);
  const ModelConfig& model = engine.model_config();
  std::map<std::string, json> wanted;
  for (const json& golden : load_json(folder(name) / "golden.json")) {
    const auto id = golden["name"].get<std::string>();
    wanted[id] = golden;
    engine.add_request(id, prompt_of(name, golden), read_options(golden["generation"]));
  }
  ASSERT_FALSE(wanted.empty());
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
  EXPECT_EQ(finished, wanted.size());
}

TEST_P(ImageModels, IdsOfAllTogether) {
  EngineConfig config = testing::small_config(folder(GetParam()));
  config.mutable_cache()->set_num_gpu_blocks_override(512);
  expect_goldens(GetParam(), config);
}

TEST_P(ImageModels, IdsInBlocksOfOne) {
  EngineConfig config = testing::small_config(folder(GetParam()));
  config.mutable_cache()->set_block_size(1);
  config.mutable_cache()->set_num_gpu_blocks_override(400);
  expect_goldens(GetParam(), config);
}

std::map<std::string, Tensor> golden_tensors(const std::string& name) {
  std::ifstream in(folder(name) / "golden.safetensors", std::ios::binary);
  const std::vector<char> bytes(std::istreambuf_iterator<char>(in), {});
  std::map<std::string, Tensor> out;
  for (const HostTensor& t : read_safetensors(reinterpret_cast<const std::byte*>(bytes.data()),
                                              bytes.size(), "golden", nullptr))
    out[t.name] = to_float(t).reshape(t.shape);
  return out;
}

double difference(const float* got, const Tensor& want, int64_t count) {
  double most = 0;
  for (int64_t i = 0; i < count; ++i)
    most = std::max(most, std::abs(double{got[i]} - double{want.data<float>()[i]}));
  return most;
}

// Pixels of one image; states of all images of the goldens in one step.
TEST_P(ImageModels, PixelsAndStates) {
  const std::string name = GetParam();
  const auto golden = golden_tensors(name);
  const auto processor = ImageProcessor::load(folder(name));
  const ModelConfig config = ModelConfig::load(folder(name));
  const ModelLimits limits = limits_of(config);
  Checkpoint weights = Checkpoint::open(folder(name));
  Context ctx(2);
  const auto comm = make_local_communicator();
  const auto model = load_model(config, weights, {ctx, *comm, DType::kF32});
  ModelInput all;
  std::vector<std::pair<int64_t, std::string>> rows;
  for (const json& one : load_json(folder(name) / "golden.json")) {
    const std::string states = one["name"].get<std::string>() + ".encoder_last_hidden_state";
    if (!golden.contains(states)) continue;
    const std::string bytes = image_of(name, one["image"].get<std::string>());
    const auto pixels = golden.find(one["name"].get<std::string>() + ".pixel_values");
    if (pixels != golden.end()) {
      const auto values = processor->pixel_values(decode_image(bytes, "image"));
      ASSERT_EQ(std::ssize(values), pixels->second.size());
      EXPECT_LT(difference(values.data(), pixels->second, pixels->second.size()), 1e-6);
    }
    const auto frames = processor->frames(bytes, "image", *limits.frames);
    if (const auto patches = golden.find(one["name"].get<std::string>() + ".flattened_patches");
        patches != golden.end()) {
      EXPECT_LT(difference(frames.values().data(), patches->second, frames.values_size()), 3e-6);
    }
    EncoderFrames& to = all.encoder_frames;
    to.width = frames.width();
    to.values.insert(to.values.end(), frames.values().begin(), frames.values().end());
    to.start_loc.push_back(to.start_loc.back() + frames.num_frames());
    const auto length = static_cast<int32_t>(limits.frames->length_of(frames.num_frames()));
    rows.push_back({std::ssize(all.encoder_positions), states});
    all.attention.add_encoder(length, {});
    for (int32_t i = 0; i < length; ++i) all.encoder_positions.push_back(i);
  }
  ASSERT_GE(rows.size(), 2u);
  const Tensor states = model->encode(StepTensors(all));
  ASSERT_EQ(states.dim(0), std::ssize(all.encoder_positions));
  for (size_t i = 0; i < rows.size(); ++i) {
    const int64_t end = i + 1 < rows.size() ? rows[i + 1].first : states.dim(0);
    EXPECT_LT(difference(states.row<float>(rows[i].first), golden.at(rows[i].second),
                         (end - rows[i].first) * states.dim(1)),
              1e-4)
        << rows[i].second;
  }
}

}  // namespace
}  // namespace tandem::image_models_test
