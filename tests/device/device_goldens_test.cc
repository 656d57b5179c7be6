// Whole generations through the CUDA plugin, on the emulator: HuggingFace's tokens in f32, whatever
// shares the batch; steps recorded and eager; short caches; every family.
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <string>

#include "tests/support/goldens/golden_engine.h"

namespace tandem {
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
  config.device = "cuda";
  config.enforce_eager = setting.eager;
  config.block_size = setting.block_size;
  config.num_gpu_blocks_override = setting.blocks;
  config.preemption = setting.preemption;
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

// Other families, some of their cases each.
class FamilyGoldens : public ::testing::TestWithParam<const char*> {};

TEST_P(FamilyGoldens, Tokens) {
  EngineConfig config = testing::golden_config(GetParam());
  config.device = "cuda";
  config.num_gpu_blocks_override = 2000;
  testing::expect_goldens(config, GetParam(), 11, 16);
}

INSTANTIATE_TEST_SUITE_P(Families, FamilyGoldens,
                         ::testing::Values("blenderbot-small-tiny", "blenderbot-tiny",
                                           "flan-t5-untied", "marian-tiny", "mbart50-tiny",
                                           "mvp-tiny", "plbart-tiny", "t5-tiny", "umt5-tiny"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace tandem
