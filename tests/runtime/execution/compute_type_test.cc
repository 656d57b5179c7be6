#include "runtime/execution/compute_type.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "models/inspect.h"
#include "runtime/execution/engine_config.h"
#include "tests/support/goldens/golden_twins.h"

namespace tandem {
namespace {

class WeightsFit : public ::testing::Test {
 protected:
  uint64_t bytes_in(DType dtype) const {
    for (const auto& memory : inspect(config, checkpoint).memory)
      if (memory.dtype == name_of(dtype)) return memory.weight_bytes;
    return 0;
  }
  std::string refusal(DType dtype, int ranks, size_t available,
                      const Stage* stage = nullptr) const {
    try {
      check_weights_fit(config, checkpoint, dtype, ranks, available, stage);
    } catch (const InputError& e) {
      EXPECT_EQ(e.kind(), ErrorKind::kResource);
      EXPECT_EQ(e.param(), "--dtype");
      return e.what();
    }
    return "";
  }
  const ModelConfig config = ModelConfig::load(test::golden("bart-tiny"));
  const Checkpoint checkpoint = Checkpoint::open(test::golden("bart-tiny"));
};

TEST_F(WeightsFit, ToTheByte) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kI8, DType::kI4}) {
    const size_t bytes = bytes_in(dtype);
    ASSERT_GT(bytes, 0u) << name_of(dtype);
    EXPECT_EQ(refusal(dtype, 1, bytes), "") << name_of(dtype);
    EXPECT_NE(refusal(dtype, 1, bytes - 1), "") << name_of(dtype);
    EXPECT_EQ(refusal(dtype, 2, bytes / 2), "") << name_of(dtype);
  }
}

TEST_F(WeightsFit, AStageHasItsOwnLayersOnly) {
  const auto plan = plan_stages(layer_sizes(config, checkpoint), {.stages = 2});
  for (const DType dtype : {DType::kF32, DType::kI8, DType::kI4})
    for (const Stage& stage : plan)
      for (const int ranks : {1, 2}) {
        const size_t bytes = stage.bytes_of_rank(dtype, ranks);
        ASSERT_LT(bytes, bytes_in(dtype) / static_cast<size_t>(ranks)) << stage.text();
        EXPECT_NE(refusal(dtype, ranks, bytes), "") << "the whole model does not fit";
        EXPECT_EQ(refusal(dtype, ranks, bytes, &stage), "") << stage.text();
        EXPECT_NE(refusal(dtype, ranks, bytes - 1, &stage), "") << stage.text();
      }
  const std::string text = refusal(DType::kF32, 1, 300'000, &plan[1]);
  EXPECT_NE(text.find("on a rank with decoder layer 1"), std::string::npos) << text;
  EXPECT_NE(text.find("what fits: int8 (174.1 KiB), int4"), std::string::npos) << text;
}

TEST_F(WeightsFit, AnErrorNamesTheTypesThatFit) {
  const std::string one = refusal(DType::kF32, 1, bytes_in(DType::kI8));
  EXPECT_EQ(one.find("bfloat16"), std::string::npos) << one;
  EXPECT_NE(one.find("what fits: int8 ("), std::string::npos) << one;
  EXPECT_NE(one.find("int4 ("), std::string::npos) << one;
  EXPECT_NE(one.find(human_bytes(bytes_in(DType::kF32))), std::string::npos) << one;
  const std::string two = refusal(DType::kF32, 2, bytes_in(DType::kBF16) / 2);
  EXPECT_NE(two.find("on each rank"), std::string::npos) << two;
  EXPECT_NE(two.find("what fits: bfloat16 ("), std::string::npos) << two;
  EXPECT_NE(refusal(DType::kI4, 1, 1000).find("no type fits"), std::string::npos);
}

TEST(ComputeType, OnlyFloat32IsCalledExact) {
  const auto line = [](DType dtype, std::optional<DType> stored) {
    return describe_compute_type(dtype, stored, /*on_cpu=*/true);
  };
  const std::string claim = "computes in float32: HuggingFace's tokens exactly";
  EXPECT_TRUE(line(DType::kF32, DType::kF16).starts_with(claim));
  EXPECT_NE(line(DType::kF32, std::nullopt).find("--dtype int8 is faster"), std::string::npos);
  for (const DType dtype : {DType::kBF16, DType::kI8, DType::kI4}) {
    const std::string other = line(dtype, DType::kBF16);
    EXPECT_NE(other.find("some tokens differ"), std::string::npos) << other;
    EXPECT_NE(other.find("--dtype float32 gives"), std::string::npos) << other;
  }
  EXPECT_NE(line(DType::kBF16, DType::kBF16).find("the type of the files"), std::string::npos);
  EXPECT_EQ(line(DType::kBF16, DType::kF32).find("the type of the files"), std::string::npos);
}

StoredType draft_type(const std::string& said, DType of_model, bool on_cpu) {
  EngineConfig config;
  config.mutable_drafting()->set_draft_dtype(said);
  return draft_type_of(config, {of_model, Quantization::kNone}, on_cpu);
}

TEST(ComputeType, DraftsAreInt8OnACpuAndTheModelsOnADevice) {
  const auto type = [](DType dtype, Quantization q = Quantization::kNone) {
    return StoredType{dtype, q};
  };
  EXPECT_EQ(draft_type("auto", DType::kF32, true), type(DType::kI8));
  EXPECT_EQ(draft_type("auto", DType::kI4, true), type(DType::kI4));
  EXPECT_EQ(draft_type("float32", DType::kI8, true), type(DType::kF32));
  EXPECT_EQ(draft_type("auto", DType::kBF16, false), type(DType::kBF16));
  EXPECT_EQ(draft_type("bfloat16", DType::kBF16, false), type(DType::kBF16));
  EXPECT_EQ(draft_type("int8", DType::kF16, false), type(DType::kF16, Quantization::kInt8));
  EXPECT_EQ(draft_type("int4", DType::kF32, false), type(DType::kF32, Quantization::kInt4));
  EXPECT_THROW(draft_type("float16", DType::kF32, true), InputError);
  EXPECT_THROW(draft_type("float32", DType::kBF16, false), InputError);
  EXPECT_THROW(draft_type("fp8", DType::kBF16, false), InputError);
}

}  // namespace
}  // namespace tandem
