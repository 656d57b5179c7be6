// The encoder of images beside T5Gemma 2's texts, by both names that its tensors have in files.
#include "models/sides/pooled_pictures.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "base/json.h"
#include "models/checkpoint/checkpoint.h"
#include "models/step/step_tensors.h"
#include "parallel/communicators/communicator.h"
#include "tests/support/files/files.h"

namespace tandem {
namespace {

const std::string kPublished = "vision_tower.vision_model.", kSaved = "vision_tower.";

// A checkpoint as transformers 5.24 saves it.
class SavedAnew final : public WeightSource {
 public:
  explicit SavedAnew(Checkpoint& checkpoint) : checkpoint_(checkpoint) {}
  const HostTensor* find(const std::string& name) override {
    const size_t at = name.find(kSaved);
    if (at == std::string::npos) return checkpoint_.find(name);
    if (name.find(kPublished) != std::string::npos) return nullptr;
    return checkpoint_.find(std::string(name).replace(at, kSaved.size(), kPublished));
  }
  std::string location() const override { return checkpoint_.location(); }

 private:
  Checkpoint& checkpoint_;
};

TEST(PooledPictures, NamesOfBothKinds) {
  const auto folder = test::test_root() / "tests/data/goldens/t5gemma2-ids";
  std::ifstream file(folder / "config.json");
  const auto config = nlohmann::json::parse(file).at("encoder");
  const int width = config.at("text_config").at("hidden_size").get<int>();
  const auto pictures = read_pooled_pictures({"vision_config", config.at("vision_config")},
                                             config.at("mm_tokens_per_image").get<int>(), width);
  ASSERT_TRUE(pictures.has_value());
  Checkpoint checkpoint = Checkpoint::open(folder);
  SavedAnew saved(checkpoint);
  Context ctx(1);
  const auto comm = make_local_communicator();
  const Build build{ctx, *comm, DType::kF32};

  ModelInput in;
  in.encoder_frames.width = static_cast<int>(pictures->vision.patches.frame_width());
  for (int i = 0; i < pictures->vision.patches.count() * in.encoder_frames.width; ++i)
    in.encoder_frames.values.push_back(static_cast<float>(i % 7) * 0.2f - 0.6f);
  in.encoder_frames.start_loc.push_back(static_cast<int32_t>(pictures->vision.patches.count()));
  const auto vectors = [&](WeightSource& source) {
    const PooledPictures model(Weights(source) / "model.encoder", build, *pictures);
    return model.forward(StepTensors(in));
  };
  const Tensor published = vectors(checkpoint), anew = vectors(saved);
  ASSERT_EQ(published.size(), pictures->vectors() * width);
  ASSERT_EQ(anew.size(), published.size());
  EXPECT_EQ(std::memcmp(anew.raw(), published.raw(), published.bytes()), 0);
}

}  // namespace
}  // namespace tandem
