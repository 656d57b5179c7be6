// What a device fails at, as the engine meets it: a step that cannot be recorded costs no token, a
// device that fails ends the engine with a word that says so.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <stdexcept>
#include <string>

#include "base/error.h"
#include "tests/support/goldens/golden_engine.h"

namespace tandem::device_failure_test {
namespace {

EngineConfig device_config() {
  EngineConfig config = testing::golden_config("bart-tiny");
  config.mutable_loading()->set_device("cuda");
  config.mutable_cache()->set_num_gpu_blocks_override(2000);
  return config;
}

class DeviceFailure : public ::testing::Test {
 protected:
  void SetUp() override {
    if (make_context(device_config(), DType::kF32, 1)->backend().name().find("emulated") ==
        std::string::npos)
      GTEST_SKIP() << "a GPU does not fail when it is told to";
  }
  void TearDown() override { unsetenv("TANDEM_EMULATOR_FAULT"); }
};

TEST_F(DeviceFailure, StepsThatCannotBeRecordedRunAsTheyAre) {
  for (const char* fault : {"capture:1", "capture:3"}) {
    setenv("TANDEM_EMULATOR_FAULT", fault, 1);
    testing::expect_goldens(device_config(), "bart-tiny", 7, 5);
  }
}

TEST_F(DeviceFailure, ADeviceThatFailsEndsTheEngine) {
  setenv("TANDEM_EMULATOR_FAULT", "graph_launch:2", 1);
  std::string error;
  {
    LLMEngine engine(device_config());
    engine.add_request("a", testing::json{{"prompt_token_ids", {0, 5, 6, 7, 2}}},
                       testing::json{{"max_tokens", 12}, {"ignore_eos", true}});
    try {
      while (engine.has_unfinished_requests()) engine.step();
    } catch (const std::runtime_error& e) {
      error = e.what();
    }
  }
  EXPECT_NE(error.find("the GPU failed: a recorded step"), std::string::npos) << error;
  // The CPU is no stand-in for a GPU that was there.
  for (const char* device : {"cuda", "cuda:0", "auto"}) {
    EngineConfig config = device_config();
    config.mutable_loading()->set_device(device);
    try {
      const LLMEngine engine(config);
      FAIL() << device;
    } catch (const InputError& e) {
      EXPECT_NE(std::string(e.what()).find(error), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find("only a new process"), std::string::npos) << e.what();
    }
  }
}

}  // namespace
}  // namespace tandem::device_failure_test
