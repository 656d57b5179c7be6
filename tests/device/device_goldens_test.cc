// Whole generations through the CUDA plugin, on the emulator: HuggingFace's tokens in f32, whatever
// shares the batch; steps recorded and eager; short caches; every family.
#include <gtest/gtest.h>

#include <ostream>
#include <set>
#include <string>

#include "models/family.h"
#include "tests/support/goldens/golden_engine.h"
#include "tests/support/goldens/golden_families.h"

namespace tandem::device_goldens_test {
namespace {

struct Setting {
  const char* name;
  const char* checkpoint;
  bool eager;
  int block_size, blocks;
  PreemptionMode preemption;
};

void PrintTo(const Setting& setting, std::ostream* out) { *out << setting.name; }

class DeviceGoldens : public ::testing::TestWithParam<Setting> {};

TEST_P(DeviceGoldens, Tokens) {
  const Setting& setting = GetParam();
  EngineConfig config = testing::golden_config(setting.checkpoint);
  config.mutable_loading()->set_device("cuda");
  config.mutable_loading()->set_enforce_eager(setting.eager);
  config.mutable_cache()->set_block_size(setting.block_size);
  config.mutable_cache()->set_num_gpu_blocks_override(setting.blocks);
  config.mutable_scheduling()->set_preemption_mode(testing::preemption_name(setting.preemption));
  testing::expect_goldens(config, setting.checkpoint, 7);
}

INSTANTIATE_TEST_SUITE_P(
    Settings, DeviceGoldens,
    ::testing::Values(
        Setting{"recorded", "bart-tiny", false, 16, 2000, PreemptionMode::kAuto},
        Setting{"eager", "bart-odd-heads", true, 4, 2000, PreemptionMode::kAuto},
        Setting{"swap", "bart-tiny", false, 4, 100, PreemptionMode::kSwap},
        Setting{"recompute", "bart-odd-heads", false, 1, 400, PreemptionMode::kRecompute},
        Setting{"odd_heads", "bart-odd-heads", false, 2, 2000, PreemptionMode::kAuto}),
    [](const auto& info) { return info.param.name; });

// Heads of 64, beams and sequences of one query.
TEST(HeadsOf64Goldens, Tokens) {
  EngineConfig config = testing::golden_config("bart-base-shape");
  config.mutable_loading()->set_device("cuda");
  config.mutable_cache()->set_num_gpu_blocks_override(500);
  testing::expect_goldens(config, "bart-base-shape", 5, 6);
}

// The other families, some of their cases each.
class FamilyGoldens : public ::testing::TestWithParam<const char*> {};

TEST_P(FamilyGoldens, Tokens) {
  EngineConfig config = testing::golden_config(GetParam());
  config.mutable_loading()->set_device("cuda");
  config.mutable_cache()->set_num_gpu_blocks_override(2000);
  testing::expect_goldens(config, GetParam(), 11, 16);
}

// UDOP's model reads boxes beside ids, which requests have and other tests' inputs have not.
testing::Checkpoints device_goldens() {
  testing::Checkpoints out = testing::family_goldens();
  out.push_back("udop-ids");
  return out;
}

INSTANTIATE_TEST_SUITE_P(Families, FamilyGoldens, ::testing::ValuesIn(device_goldens()),
                         testing::checkpoint_test_name);

// The plain kernels of --attention-backend reference, recorded and eager, over families whose
// attention differs: pages alone, a bias by distance, windows and global tokens, blocks, side keys,
// grouped heads with a soft cap, merged states.
class ReferenceGoldens : public ::testing::TestWithParam<const char*> {};

TEST_P(ReferenceGoldens, Tokens) {
  for (const bool eager : {false, true}) {
    EngineConfig config = testing::golden_config(GetParam());
    config.mutable_loading()->set_device("cuda");
    config.mutable_loading()->set_enforce_eager(eager);
    config.mutable_loading()->set_attention_backend("reference");
    config.mutable_cache()->set_num_gpu_blocks_override(2000);
    testing::expect_goldens(config, GetParam(), 13, 6);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, ReferenceGoldens,
                         ::testing::Values("bart-tiny", "bart-odd-heads", "t5-tiny", "mbart-ids",
                                           "led-ids", "bigbird-ids", "longt5-global-ids",
                                           "pegasus-x-ids", "t5gemma-ids", "t5gemma2-ids",
                                           "prophetnet-ids"),
                         testing::checkpoint_test_name);

// (Those that read frames: frames_goldens_test.cc.)
TEST(FamiliesOnADevice, AreAllThatReadTokenIds) {
  std::set<std::string> run{"bart"}, known;
  for (const char* checkpoint : device_goldens())
    run.insert(find_family(ModelConfig::load(testing::golden_dir(checkpoint))).model_type);
  for (const std::string& architecture : architectures()) {
    const ModelFamily& family = *family_of_architecture(architecture);
    if (family.encoder_input == EncoderInput::kTokenIds) known.insert(family.model_type);
  }
  EXPECT_EQ(run, known);
}

}  // namespace
}  // namespace tandem::device_goldens_test
