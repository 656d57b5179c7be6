// What HuggingFace takes of config.json beside its keys: the class by model_type, Python's numbers,
// ids in lists; and directories of other formats.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "models/config/config.h"
#include "models/family.h"
#include "tests/support/files/expect_error.h"
#include "tests/support/files/files.h"

namespace tandem::foreign_config_test {
namespace {

using nlohmann::json;
using test::TempDir;

json small_bart() {
  return {{"architectures", {"BartForConditionalGeneration"}},
          {"model_type", "bart"},
          {"vocab_size", 100},
          {"d_model", 16},
          {"encoder_attention_heads", 4},
          {"decoder_attention_heads", 2}};
}

// Of a directory with that config.json, changed by `patch`, where null removes a key.
ModelConfig load(const json& patch) {
  TempDir dir;
  json config = small_bart();
  config.merge_patch(patch);
  dir.write("config.json", config.dump());
  return ModelConfig::load(dir.path());
}
// With a key that is null in the file.
ModelConfig load_null(const std::string& key) {
  TempDir dir;
  json config = small_bart();
  config[key] = nullptr;
  dir.write("config.json", config.dump());
  return ModelConfig::load(dir.path());
}

// HuggingFace goes by model_type.
TEST(ModelConfig, ModelTypeDecides) {
  const auto architecture = [](const json& patch) { return load(patch).architecture; };
  const char* right = "BartForConditionalGeneration";
  EXPECT_EQ(architecture({{"architectures", nullptr}}), right);
  EXPECT_EQ(load_null("architectures").architecture, right);
  EXPECT_EQ(architecture({{"architectures", json::array()}}), right);
  EXPECT_EQ(architecture({{"architectures", {1}}}), right);
  EXPECT_EQ(architecture({{"architectures", {"BartForTokenClassification"}}}), right);
  EXPECT_EQ(architecture({{"architectures", {"MBartForConditionalGeneration"}}}), right);
  EXPECT_EQ(architecture({{"architectures", {"MyModel", "BartModel"}}}), "BartModel");
  // Where it is missing the class does.
  const ModelConfig c = load({{"model_type", nullptr}});
  EXPECT_EQ(c.model_type, "bart");
  EXPECT_EQ(c.architecture, right);
  EXPECT_EQ(c.bos_token_id, 0);
}

TEST(ModelConfig, NumbersOfPython) {
  TempDir dir;
  std::string config = small_bart().dump();
  config.pop_back();
  dir.write(
      "config.json",
      config + R"(, "dropout": NaN, "x": [Infinity, -Infinity], "y": {"__float__": "Infinity"}})");
  dir.write("generation_config.json", R"({"max_length": 9, "z": NaN})");
  const ModelConfig c = ModelConfig::load(dir.path());
  EXPECT_TRUE(std::isnan(c.raw["dropout"].get<double>()));
  EXPECT_EQ(c.raw["x"][1].get<double>(), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(c.raw["y"].get<double>(), std::numeric_limits<double>::infinity());
  EXPECT_EQ(c.generation["max_length"], 9);
}

TEST(ModelConfig, AnIdMayBeAListOfOne) {
  const ModelConfig c = load({{"bos_token_id", {0}},
                              {"pad_token_id", {1}},
                              {"decoder_start_token_id", {2}},
                              {"eos_token_id", {2}}});
  EXPECT_EQ(c.bos_token_id, 0);
  EXPECT_EQ(c.pad_token_id, 1);
  EXPECT_EQ(c.decoder_start_token_id, 2);
  EXPECT_EQ(c.eos_token_id, (std::vector<int>{2}));
}

TEST(ModelConfig, TypesThatBecomeFloats) {
  for (const char* name : {"float64", "float8_e4m3fn", "float8_e5m2", "auto"})
    EXPECT_FALSE(load({{"torch_dtype", name}}).checkpoint_dtype.has_value()) << name;
  EXPECT_EQ(load({{"torch_dtype", "torch.float16"}}).checkpoint_dtype, DType::kF16);
}

TEST(ModelConfigErrors, QuantizedWeights) {
  const ModelConfig c = load({{"quantization_config", {{"quant_method", "bitsandbytes"}}}});
  EXPECT_INPUT_ERROR(find_family(c), "config.json: quantization_config", "\"bitsandbytes\"");
  EXPECT_NO_THROW(find_family(load_null("quantization_config")));
}

TEST(ModelConfigErrors, DirectoriesOfOtherFormats) {
  TempDir adapter;
  adapter.write("adapter_config.json", R"({"base_model_name_or_path": "t5-small"})");
  EXPECT_INPUT_ERROR(ModelConfig::load(adapter.path()), adapter.path().string(), "no config.json",
                     "PEFT", "t5-small");
  TempDir gguf;
  gguf.write("small-q4.gguf", "x");
  EXPECT_INPUT_ERROR(ModelConfig::load(gguf.path()), "no config.json", "GGUF", "small-q4.gguf");
  TempDir empty;
  EXPECT_INPUT_ERROR(ModelConfig::load(empty.path()), empty.path().string(), "no config.json");
  TempDir ctranslate;
  ctranslate.write("config.json", R"({"add_source_bos": false, "bos_token": "<s>"})");
  ctranslate.write("model.bin", "x");
  EXPECT_INPUT_ERROR(ModelConfig::load(ctranslate.path()), "model_type: is missing", "CTranslate2");
}

}  // namespace
}  // namespace tandem::foreign_config_test
