#include "models/config/config.h"

#include <gtest/gtest.h>

#include <string>

#include "base/json.h"
#include "models/config/limits.h"
#include "models/family.h"
#include "tests/support/files/expect_error.h"
#include "tests/support/files/files.h"
#include "tests/support/goldens/golden_twins.h"

namespace tandem {
namespace {

using nlohmann::json;
using test::golden;
using test::golden_or_twin;
using test::TempDir;

json small_bart() {
  return {{"architectures", {"BartForConditionalGeneration"}},
          {"model_type", "bart"},
          {"vocab_size", 100},
          {"d_model", 16},
          {"encoder_layers", 2},
          {"decoder_layers", 3},
          {"encoder_attention_heads", 4},
          {"decoder_attention_heads", 2},
          {"encoder_ffn_dim", 32},
          {"decoder_ffn_dim", 64},
          {"max_position_embeddings", 20}};
}

// Loads a directory with that config.json, changed by `patch`, where null removes a key.
ModelConfig load(const json& patch, const char* generation = nullptr) {
  TempDir dir;
  json config = small_bart();
  config.merge_patch(patch);
  dir.write("config.json", config.dump());
  if (generation != nullptr) dir.write("generation_config.json", generation);
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

TEST(ModelConfig, ReadsABart) {
  const ModelConfig c = load({{"scale_embedding", true},
                              {"activation_function", "relu"},
                              {"tie_word_embeddings", false},
                              {"torch_dtype", "bfloat16"},
                              {"eos_token_id", {2, 5}},
                              {"decoder_start_token_id", 7}});
  EXPECT_EQ(c.architecture, "BartForConditionalGeneration");
  EXPECT_EQ(c.model_type, "bart");
  EXPECT_EQ(c.vocab_size, 100);
  EXPECT_EQ(c.d_model, 16);
  EXPECT_EQ(c.encoder_layers, 2);
  EXPECT_EQ(c.decoder_layers, 3);
  EXPECT_EQ(c.encoder_attention_heads, 4);
  EXPECT_EQ(c.decoder_attention_heads, 2);
  EXPECT_EQ(c.encoder_ffn_dim, 32);
  EXPECT_EQ(c.decoder_ffn_dim, 64);
  EXPECT_EQ(c.max_position_embeddings, 20);
  EXPECT_EQ(c.activation, Activation::kRelu);
  EXPECT_TRUE(c.scale_embedding);
  EXPECT_FALSE(c.tie_word_embeddings);
  EXPECT_EQ(c.checkpoint_dtype, DType::kBF16);
  EXPECT_EQ(c.eos_token_id, (std::vector<int>{2, 5}));
  EXPECT_EQ(c.decoder_start_token_id, 7);
  EXPECT_EQ(c.raw["vocab_size"], 100);
}

TEST(ModelConfig, AbsentKeysHaveHuggingFacesDefaults) {
  TempDir dir;
  dir.write("config.json", R"({"architectures": ["BartModel"], "model_type": "bart"})");
  const ModelConfig c = ModelConfig::load(dir.path());
  EXPECT_EQ(c.vocab_size, 50265);
  EXPECT_EQ(c.d_model, 1024);
  EXPECT_EQ(c.encoder_layers, 12);
  EXPECT_EQ(c.decoder_attention_heads, 16);
  EXPECT_EQ(c.decoder_ffn_dim, 4096);
  EXPECT_EQ(c.max_position_embeddings, 1024);
  EXPECT_EQ(c.activation, Activation::kGelu);
  EXPECT_FALSE(c.scale_embedding);
  EXPECT_TRUE(c.tie_word_embeddings);
  EXPECT_FALSE(c.checkpoint_dtype.has_value());
  EXPECT_EQ(c.bos_token_id, 0);
  EXPECT_EQ(c.pad_token_id, 1);
  EXPECT_EQ(c.eos_token_id, (std::vector<int>{2}));
  EXPECT_EQ(c.decoder_start_token_id, 2);
  // The family's defaults are not generation settings.
  EXPECT_EQ(c.generation, json::object());
}

TEST(ModelConfig, GeneralNamesOfSizes) {
  const ModelConfig c = load({{"d_model", nullptr},
                              {"hidden_size", 24},
                              {"encoder_layers", nullptr},
                              {"num_hidden_layers", 5},
                              {"num_attention_heads", 8}});
  EXPECT_EQ(c.d_model, 24);
  EXPECT_EQ(c.encoder_layers, 5);
  EXPECT_EQ(c.encoder_attention_heads, 8);  // it wins over the family's own name, 4 here
}

// Of a config.json that says nothing but `patch`.
ModelConfig load_family(const char* architecture, const char* model_type, const json& patch) {
  TempDir dir;
  json config = {{"architectures", {architecture}}, {"model_type", model_type}};
  config.merge_patch(patch);
  dir.write("config.json", config.dump());
  return ModelConfig::load(dir.path());
}

ModelConfig load_t5(const json& patch) {
  return load_family("T5ForConditionalGeneration", "t5", patch);
}

TEST(ModelConfig, Udop) {
  const auto load_udop = [](const json& patch) {
    return load_family("UdopForConditionalGeneration", "udop", patch);
  };
  EXPECT_EQ(load_udop(json::object()).activation, Activation::kRelu);
  // Not T5's gelu_new. Tables are tied whatever the file says.
  EXPECT_EQ(load_udop({{"feed_forward_proj", "gated-gelu"}}).activation, Activation::kGelu);
  EXPECT_EQ(load_udop({{"feed_forward_proj", "gated-silu"}}).activation, Activation::kSilu);
  EXPECT_TRUE(load_udop({{"tie_word_embeddings", false}}).tie_word_embeddings);
}

TEST(ModelConfig, T5) {
  const ModelConfig c = load_t5({{"d_kv", 24}, {"num_layers", 5}});
  EXPECT_EQ(c.vocab_size, 32128);
  EXPECT_EQ(c.encoder_layers, 5);
  EXPECT_EQ(c.decoder_layers, 5);
  EXPECT_EQ(c.decoder_heads_width(), 8 * 24);
  EXPECT_EQ(c.activation, Activation::kRelu);
  EXPECT_TRUE(c.tie_word_embeddings);
  EXPECT_EQ(c.decoder_start_token_id, c.pad_token_id);
  EXPECT_FALSE(limits_of(c).encoder_positions.has_value());
  EXPECT_EQ(load_t5({{"num_decoder_layers", 2}}).decoder_layers, 2);
  EXPECT_EQ(load_t5({{"feed_forward_proj", "gated-gelu"}}).activation, Activation::kGeluTanh);
  EXPECT_EQ(load_t5({{"feed_forward_proj", "gated-silu"}}).activation, Activation::kSilu);
  EXPECT_EQ(load_t5({{"feed_forward_proj", "gelu"}}).activation, Activation::kGelu);
  // The general names win; the decoder's layers go by the family's own.
  const ModelConfig named = load_t5({{"num_layers", 5},
                                     {"num_hidden_layers", 3},
                                     {"num_attention_heads", 2},
                                     {"hidden_size", 40},
                                     {"head_dim", 6}});
  EXPECT_EQ(named.encoder_layers, 3);
  EXPECT_EQ(named.decoder_layers, 5);
  EXPECT_EQ(named.encoder_attention_heads, 2);
  EXPECT_EQ(named.d_model, 40);
  EXPECT_EQ(named.decoder_heads_width(), 12);
  const ModelConfig later =
      load_t5({{"architectures", {"MT5ForConditionalGeneration"}}, {"model_type", "mt5"}});
  EXPECT_EQ(later.vocab_size, 250112);
  EXPECT_EQ(later.activation, Activation::kGeluTanh);
  EXPECT_FALSE(later.tie_word_embeddings);
}

TEST(ModelConfig, Led) {
  const auto load_led = [](const json& patch) {
    return load_family("LEDForConditionalGeneration", "led", patch);
  };
  const ModelLimits usual = limits_of(load_led(json::object()));
  EXPECT_EQ(usual.encoder_positions, 16384);
  EXPECT_EQ(usual.decoder_positions, 1024);
  EXPECT_EQ(usual.default_global_tokens, 1);
  EXPECT_EQ(limits_of(load(json::object())).default_global_tokens, std::nullopt);
  const ModelConfig c = load_led({{"encoder_layers", 3},
                                  {"attention_window", {8, 16, 2}},
                                  {"max_encoder_position_embeddings", 50},
                                  {"max_decoder_position_embeddings", 20}});
  EXPECT_EQ(c.encoder_layers, 3);
  EXPECT_EQ(limits_of(c).encoder_positions, 50);
  EXPECT_EQ(limits_of(c).decoder_positions, 20);
  const json wrong[] = {0, 7, -8, 1.5, "8", json::array(), {8, 16}, {8, 16, 3}, {8, "x", 8}};
  for (const json& window : wrong)
    EXPECT_INPUT_ERROR(load_led({{"encoder_layers", 3}, {"attention_window", window}}),
                       "config.json", "attention_window");
  EXPECT_INPUT_ERROR(load_led({{"max_encoder_position_embeddings", 0}}),
                     "max_encoder_position_embeddings");
}

// A family's tokens are those of its own vocabulary: a smaller one does not have them.
TEST(ModelConfig, DefaultTokensOutsideTheVocabularyAreNone) {
  const json whisper = {{"architectures", {"WhisperForConditionalGeneration"}},
                        {"model_type", "whisper"},
                        {"num_mel_bins", 80},
                        {"decoder_start_token_id", nullptr},
                        {"eos_token_id", nullptr}};
  json large = whisper;
  large["vocab_size"] = 51865;
  EXPECT_GE(load(large).decoder_start_token_id, 0);
  EXPECT_FALSE(load(large).eos_token_id.empty());
  EXPECT_EQ(load(whisper).decoder_start_token_id, -1);
  EXPECT_TRUE(load(whisper).eos_token_id.empty());
}

TEST(ModelConfig, NewerNameOfTheDtype) {
  EXPECT_EQ(load({{"dtype", "float16"}, {"torch_dtype", "float32"}}).checkpoint_dtype, DType::kF16);
}

TEST(ModelConfig, OtherFamiliesAreLoadedAsFarAsTheyGo) {
  TempDir dir;
  dir.write("config.json",
            R"({"architectures": ["MyModel"], "model_type": "mine", "d_model": 8, "extra": 1})");
  const ModelConfig c = ModelConfig::load(dir.path());
  EXPECT_EQ(c.d_model, 8);
  EXPECT_EQ(c.vocab_size, 0);
  EXPECT_EQ(c.bos_token_id, -1);
  EXPECT_TRUE(c.eos_token_id.empty());
  EXPECT_EQ(c.raw["extra"], 1);
}

// --- Generation settings -----------------------------------------------------------------------

TEST(GenerationConfig, FileComesFirstAndNullsAreGone) {
  const ModelConfig c =
      load({{"num_beams", 4}, {"eos_token_id", 3}},
           R"({"_from_model_config": true, "max_length": 9, "top_k": null, "eos_token_id": [6, 7],
          "decoder_start_token_id": 5, "transformers_version": "4.33.0"})");
  EXPECT_EQ(c.generation, json_from<json>(R"({"max_length": 9, "eos_token_id": [6, 7],
                                          "decoder_start_token_id": 5})"));
  EXPECT_EQ(c.eos_token_id, (std::vector<int>{6, 7}));
  EXPECT_EQ(c.decoder_start_token_id, 5);
  EXPECT_EQ(c.bos_token_id, 0);
}

TEST(GenerationConfig, WithoutAFileTheKeysOfConfigJsonCount) {
  const ModelConfig c = load({{"num_beams", 4},
                              {"no_repeat_ngram_size", 3},
                              {"early_stopping", true},
                              {"forced_eos_token_id", 2},
                              {"bos_token_id", 0}});
  EXPECT_EQ(c.generation,
            json_from<json>(R"({"num_beams": 4, "no_repeat_ngram_size": 3, "early_stopping": true,
                            "forced_eos_token_id": 2, "bos_token_id": 0})"));
}

TEST(GenerationConfig, OldNameOfTheForcedBos) {
  EXPECT_EQ(load({{"force_bos_token_to_be_generated", true}, {"bos_token_id", 9}})
                .generation["forced_bos_token_id"],
            9);
  EXPECT_FALSE(load({{"force_bos_token_to_be_generated", false}, {"bos_token_id", 9}})
                   .generation.contains("forced_bos_token_id"));
}

TEST(GenerationConfig, SettingsOfADecoderFillTheGaps) {
  const ModelConfig c = load({{"num_beams", 2},
                              {"decoder", {{"num_beams", 3}, {"max_length", 8}}},
                              {"text_config", {{"min_length", 1}}}});
  EXPECT_EQ(c.generation, json_from<json>(R"({"num_beams": 2, "max_length": 8})"));
}

// What transformers 5 resolves for the goldens, written down from its source: with the file of
// bart-base-shape removed and its keys in config.json, the settings stay the same.
TEST(GenerationConfig, Goldens) {
  const json base = ModelConfig::load(golden("bart-base-shape")).generation;
  EXPECT_EQ(base, json_from<json>(R"({"bos_token_id": 0, "decoder_start_token_id": 2,
      "eos_token_id": 2, "forced_eos_token_id": 2, "pad_token_id": 1, "forced_bos_token_id": 0,
      "num_beams": 4, "length_penalty": 2.0, "max_length": 30, "min_length": 8,
      "no_repeat_ngram_size": 3, "early_stopping": true})"));
  EXPECT_EQ(ModelConfig::load(golden_or_twin("bart-pickle")).generation, base);
  EXPECT_EQ(ModelConfig::load(golden_or_twin("bart-sharded")).generation, base);
  const json plain = json_from<json>(R"({"bos_token_id": 0, "decoder_start_token_id": 2,
      "eos_token_id": 2, "forced_eos_token_id": 2, "pad_token_id": 1})");
  EXPECT_EQ(ModelConfig::load(golden("bart-model-only")).generation, plain);
}

// --- Errors ------------------------------------------------------------------------------------

TEST(ModelConfigErrors, Files) {
  TempDir dir;
  EXPECT_INPUT_ERROR(ModelConfig::load(dir / "none"), (dir / "none").string(),
                     "is not a directory");
  EXPECT_INPUT_ERROR(ModelConfig::load(dir.path()), dir.path().string(), "no config.json");
  dir.write("config.json", "{\"architectures\": [");
  EXPECT_INPUT_ERROR(ModelConfig::load(dir.path()), "config.json", "line 1, column 20");
  dir.write("config.json", "[]");
  EXPECT_INPUT_ERROR(ModelConfig::load(dir.path()), "config.json: is not a JSON object");
  EXPECT_INPUT_ERROR(load(json::object(), "[1]"), "generation_config.json: is not a JSON object");
  EXPECT_INPUT_ERROR(load(json::object(), "{"), "generation_config.json", "line 1");
}

TEST(ModelConfigErrors, Architecture) {
  EXPECT_INPUT_ERROR(load({{"architectures", "BartModel"}}), "architectures: is \"BartModel\"");
  EXPECT_INPUT_ERROR(load({{"model_type", nullptr}, {"architectures", {"Unheard"}}}),
                     "config.json: model_type: is missing");
  EXPECT_INPUT_ERROR(load({{"model_type", nullptr}, {"architectures", nullptr}}),
                     "config.json: model_type: is missing");
  EXPECT_INPUT_ERROR(load({{"model_type", 3}}), "model_type: is 3, expected a string");
  const ModelConfig other = load({{"model_type", "bert"}});
  EXPECT_FALSE(is_supported(other));
  EXPECT_INPUT_ERROR(find_family(other), "BartForConditionalGeneration (bert) is not");
}

TEST(ModelConfigErrors, Sizes) {
  for (const char* key : {"vocab_size", "d_model", "encoder_layers", "decoder_layers",
                          "encoder_attention_heads", "decoder_attention_heads", "encoder_ffn_dim",
                          "decoder_ffn_dim", "max_position_embeddings"}) {
    const std::string where = std::string("config.json: ") + key + ": is ";
    EXPECT_INPUT_ERROR(load({{key, 0}}), where + "0, expected 1 to");
    EXPECT_INPUT_ERROR(load({{key, -1}}), where + "-1, expected 1 to");
    EXPECT_INPUT_ERROR(load({{key, 2'000'000'000}}), where + "2000000000");
    EXPECT_INPUT_ERROR(load({{key, INT64_MIN}}), where + "-9223372036854775808");
    EXPECT_INPUT_ERROR(load({{key, UINT64_MAX}}), where + "18446744073709551615");
    EXPECT_INPUT_ERROR(load({{key, 16.0}}), where + "16.0, expected an integer");
    EXPECT_INPUT_ERROR(load({{key, "16"}}), where + "\"16\", expected an integer");
    EXPECT_INPUT_ERROR(load({{key, true}}), where + "true, expected an integer");
    EXPECT_INPUT_ERROR(load({{key, json::array({16})}}), where + "[16], expected an integer");
    EXPECT_INPUT_ERROR(load_null(key), where + "null, expected an integer");
  }
  EXPECT_INPUT_ERROR(load({{"d_model", 1'000'001}}), "d_model: is 1000001");
  EXPECT_INPUT_ERROR(load({{"d_model", 18}}),
                     "encoder_attention_heads: is 4, which does not divide d_model (18)");
  EXPECT_INPUT_ERROR(load({{"decoder_attention_heads", 3}}), "decoder_attention_heads: is 3");
}

TEST(ModelConfigErrors, FlagsAndNames) {
  EXPECT_INPUT_ERROR(load({{"activation_function", "swoosh"}}),
                     "config.json: activation_function: activation \"swoosh\" is not known");
  EXPECT_INPUT_ERROR(load({{"activation_function", "prelu"}}), "\"prelu\" has weights of its own");
  EXPECT_INPUT_ERROR(load({{"activation_function", 1}}), "activation_function: is 1");
  EXPECT_INPUT_ERROR(load({{"scale_embedding", 1}}), "config.json: scale_embedding: is 1");
  EXPECT_INPUT_ERROR(load({{"tie_word_embeddings", "yes"}}), "tie_word_embeddings: is \"yes\"");
  EXPECT_INPUT_ERROR(load({{"torch_dtype", "float8"}}), "config.json: torch_dtype: is \"float8\"");
  EXPECT_INPUT_ERROR(load({{"dtype", 32}}), "dtype: is 32");
}

TEST(ModelConfigErrors, T5) {
  EXPECT_INPUT_ERROR(load_t5({{"d_kv", 0}}), "config.json: d_kv: is 0");
  EXPECT_INPUT_ERROR(load_t5({{"feed_forward_proj", "gated-swoosh"}}),
                     "config.json: feed_forward_proj: activation \"swoosh\" is not known");
  for (const json& wrong : {json("small"), json(0), json(-1e-6), json(1e300)})
    EXPECT_INPUT_ERROR(load_t5({{"layer_norm_epsilon", wrong}}),
                       "config.json: layer_norm_epsilon: is ");
  EXPECT_INPUT_ERROR(load_t5({{"relative_attention_num_buckets", -1}}),
                     "relative_attention_num_buckets: is -1");
}

TEST(ModelConfigErrors, SpecialTokens) {
  for (const char* key :
       {"bos_token_id", "pad_token_id", "eos_token_id", "decoder_start_token_id"}) {
    const std::string where = std::string("config.json: ") + key + ": is ";
    EXPECT_INPUT_ERROR(load({{key, 100}}), where + "100", "below vocab_size (100)");
    EXPECT_INPUT_ERROR(load({{key, -1}}), where + "-1");
    EXPECT_INPUT_ERROR(load({{key, UINT64_MAX}}), where + "18446744073709551615");
    EXPECT_INPUT_ERROR(load({{key, "2"}}), where + "\"2\"");
    EXPECT_INPUT_ERROR(load({{key, 2.5}}), where + "2.5");
    const std::string file = std::string("{\"") + key + "\": 100}";
    EXPECT_INPUT_ERROR(load(json::object(), file.c_str()),
                       std::string("generation_config.json: ") + key);
    EXPECT_NO_THROW(load_null(key));
  }
  EXPECT_INPUT_ERROR(load({{"eos_token_id", {2, 100}}}), "eos_token_id: is 100");
  EXPECT_INPUT_ERROR(load({{"bos_token_id", {2, 3}}}), "bos_token_id: is [2,3]");
}

TEST(ModelConfigErrors, HugeValuesAreNotPrinted) {
  try {
    load({{"d_model", std::string(1'000'000, 'x')}});
    FAIL() << "no error";
  } catch (const InputError& e) {
    EXPECT_LT(std::string(e.what()).size(), 400u);
    EXPECT_EQ(e.param(), "d_model");
    EXPECT_EQ(e.kind(), ErrorKind::kInvalidModel);
  }
}

}  // namespace
}  // namespace tandem
