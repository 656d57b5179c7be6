#include "models/inspect.h"

#include <gtest/gtest.h>

#include <string>

#include "models/family.h"
#include "tests/support/files/checkpoint_writer.h"
#include "tests/support/files/files.h"
#include "tests/support/goldens/golden_twins.h"

namespace tandem {
namespace {

using test::golden;
using test::golden_or_twin;
using test::TempDir;

InspectReport inspect_directory(const std::filesystem::path& directory) {
  return inspect(ModelConfig::load(directory), Checkpoint::open(directory));
}

TEST(Inspect, BartTiny) {
  const InspectReport r = inspect_directory(golden("bart-tiny"));
  EXPECT_EQ(r.architecture, "BartForConditionalGeneration");
  EXPECT_EQ(r.model_type, "bart");
  EXPECT_EQ(r.format, "safetensors");
  ASSERT_EQ(r.files.size(), 1u);
  EXPECT_EQ(r.files[0].name, "model.safetensors");
  EXPECT_EQ(r.files[0].bytes, 1267280u);
  ASSERT_EQ(r.types.size(), 1u);
  EXPECT_EQ(r.types[0].name, "float32");
  EXPECT_EQ(r.types[0].tensors, 92u);
  EXPECT_EQ(r.types[0].bytes, 1257280u);
  // By hand: d = 64, ffn = 128, 2 + 2 layers, 2000 tokens, 128 + 2 positions.
  const uint64_t d = 64, attention = 4 * (d * d + d), norm = 2 * d;
  const uint64_t feed_forward = 2 * d * 128 + 128 + d;
  const uint64_t encoder = 2 * (attention + feed_forward + 2 * norm) + 130 * d + norm;
  const uint64_t decoder = 2 * (2 * attention + feed_forward + 3 * norm) + 130 * d + norm;
  EXPECT_EQ(r.parameters, 2000 * d + 2000 + encoder + decoder);
  EXPECT_EQ(r.tied_tensors, 0u);
  ASSERT_EQ(r.memory.size(), 4u);
  EXPECT_EQ(r.memory[0].weight_bytes, r.parameters * 4);
  EXPECT_EQ(r.memory[0].self_bytes_per_token, 2u * 2 * 64 * 4);  // K and V, 2 layers
  EXPECT_EQ(r.memory[1].dtype, "bfloat16");
  EXPECT_EQ(r.memory[1].cross_bytes_per_token, 2u * 2 * 64 * 2);
  EXPECT_EQ(r.memory[1].cache_bytes(32, 128, 128), 32u * 128 * (512 + 512));
  EXPECT_EQ(r.memory[2].dtype, "int8");
  EXPECT_EQ(r.memory[2].weight_bytes, r.parameters);
  EXPECT_EQ(r.memory[2].self_bytes_per_token, r.memory[1].self_bytes_per_token);  // in bfloat16
  EXPECT_EQ(r.encoder_parameters, encoder);
  EXPECT_EQ(r.memory[3].dtype, "int4");  // the encoder's are int8
  EXPECT_EQ(r.memory[3].weight_bytes, encoder + (r.parameters - encoder) * 17 / 32);
  EXPECT_EQ(r.memory[3].self_bytes_per_token, r.memory[2].self_bytes_per_token);
  EXPECT_EQ(r.int8_self_bytes_per_token, 2u * 2 * (64 + 4 * sizeof(float)));  // 4 heads
  EXPECT_EQ(r.int8_cross_bytes_per_token, r.int8_self_bytes_per_token);
  EXPECT_EQ(r.generation["max_length"], 60);
}

TEST(Inspect, TiedTensorsCountOnce) {
  const InspectReport base = inspect_directory(golden("bart-base-shape"));
  const InspectReport pickle = inspect_directory(golden_or_twin("bart-pickle"));
  const InspectReport sharded = inspect_directory(golden_or_twin("bart-sharded"));
  EXPECT_EQ(pickle.tied_tensors, 3u);
  EXPECT_EQ(pickle.tensors, base.tensors + 3);
  EXPECT_EQ(pickle.parameters, base.parameters);
  EXPECT_EQ(sharded.parameters, base.parameters);
  EXPECT_EQ(sharded.files.size(), 3u);
  EXPECT_EQ(pickle.types[0].name, "float16");
  EXPECT_EQ(pickle.types[0].bytes, sharded.types[0].bytes);
}

// A vocabulary of 2 and a width of 1, so that an embedding has two elements.
InspectReport inspect_tiny(const std::string& header, const std::string& data, bool tie) {
  TempDir dir;
  dir.write("config.json", std::string(R"({"architectures": ["BartModel"], "model_type": "bart",
      "vocab_size": 2, "d_model": 1, "encoder_attention_heads": 1, "decoder_attention_heads": 1,
      "bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 1, "decoder_start_token_id": 1,
      "tie_word_embeddings": )") +
                               (tie ? "true}" : "false}"));
  dir.write("model.safetensors", test::safetensors(header, data));
  return inspect_directory(dir.path());
}

TEST(Inspect, CopiesOfTheEmbeddingAndOtherTypes) {
  const std::string header =
      R"({"a":{"dtype":"F16","shape":[2,1],"data_offsets":[0,4]},
          "b":{"dtype":"F16","shape":[2,1],"data_offsets":[4,8]},
          "c":{"dtype":"F16","shape":[2,1],"data_offsets":[8,12]},
          "d":{"dtype":"F64","shape":[1],"data_offsets":[12,20]},
          "i":{"dtype":"I64","shape":[1],"data_offsets":[20,28]}})";
  const std::string data = "wwwwwwwwWWWW" + std::string(16, 'x');
  const InspectReport r = inspect_tiny(header, data, true);
  EXPECT_EQ(r.tied_tensors, 1u);
  EXPECT_EQ(r.parameters, 5u);
  EXPECT_EQ(r.types.size(), 3u);
  EXPECT_EQ(r.types[1].name, "float64");
  const InspectReport untied = inspect_tiny(header, data, false);
  EXPECT_EQ(untied.tied_tensors, 0u);
  EXPECT_EQ(untied.parameters, 7u);
}

TEST(Inspect, NoMemoryOfAModelThatIsNotKnown) {
  TempDir dir;
  dir.write("config.json", R"({"architectures": ["UnheardOfModel"], "model_type": "unheard_of"})");
  dir.write("model.safetensors",
            test::safetensors(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "wwww"));
  const InspectReport r = inspect_directory(dir.path());
  EXPECT_FALSE(r.supported);
  EXPECT_TRUE(r.memory.empty());
  EXPECT_FALSE(to_json(r).contains("int8_cache"));
  EXPECT_EQ(to_text(r).find("--kv-cache-dtype int8"), std::string::npos) << to_text(r);
}

// The cache is as wide as the heads are, whatever the model's width; positions may differ, or have
// no end.
TEST(Inspect, HeadsOfAnotherWidthThanTheModel) {
  ModelFamily family;
  family.model_type = "wide_heads";
  family.architectures = {"WideHeadsModel"};
  family.read_config = [](const ConfigReader& in, ModelConfig& out) {
    out.head_dim = in.size("d_kv", ConfigReader::kMaxWidth).value_or(0);
    read_encoder_decoder(in, {}, out);
  };
  family.limits = [](const ModelConfig& c) {
    ModelLimits out = encoder_decoder_limits(c);
    out.encoder_positions = 10;
    return out;
  };
  family.make = [](const ModelConfig&, const Weights&, const Build&) {
    return std::unique_ptr<Model>();
  };
  register_family(family);
  TempDir dir;
  dir.write("config.json", R"({"architectures": ["WideHeadsModel"], "model_type": "wide_heads",
      "vocab_size": 4, "d_model": 8, "d_kv": 3, "decoder_layers": 5, "encoder_attention_heads": 4,
      "decoder_attention_heads": 6})");
  dir.write("model.safetensors",
            test::safetensors(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "wwww"));
  const InspectReport r = inspect_directory(dir.path());
  ASSERT_EQ(r.memory.size(), 4u);
  EXPECT_EQ(r.memory[0].self_bytes_per_token, 2u * 5 * 6 * 3 * 4);
  EXPECT_EQ(r.memory[0].cross_bytes_per_token, 2u * 5 * 6 * 3 * 4);
  EXPECT_EQ(r.encoder_positions, 10);
  EXPECT_EQ(r.decoder_positions, 0);
  EXPECT_NE(to_text(r).find("positions     10 + any number\n"), std::string::npos) << to_text(r);
}

// By hand, of bart-tiny. Its table is stored once: a stage looks rows up in it for both sides, and
// the last one has it as the head as well.
TEST(Inspect, WhatRanksOfAPipelineHold) {
  const auto config = ModelConfig::load(golden("bart-tiny"));
  const auto checkpoint = Checkpoint::open(golden("bart-tiny"));
  InspectReport r = inspect(config, checkpoint);
  r.stages = plan_stages(layer_sizes(config, checkpoint), {.stages = 2});
  r.ranks_of_stage = 2;
  const uint64_t d = 64, attention = 4 * (d * d + d), norm = 2 * d, table = 2000 * d;
  const uint64_t feed_forward = 2 * d * 128 + 128 + d;
  const uint64_t encoder = 2 * (attention + feed_forward + 2 * norm);
  const uint64_t layer = 2 * attention + feed_forward + 3 * norm;  // of the decoder
  EXPECT_EQ(r.stages[0].parameters, encoder + layer + table);
  EXPECT_EQ(r.stages[1].parameters, layer + table);
  const auto json = to_json(r)["stages"];
  EXPECT_EQ(json[0]["ranks"], (std::vector<int>{0, 1}));
  EXPECT_EQ(json[1]["ranks"], (std::vector<int>{2, 3}));
  EXPECT_EQ(json[0]["encoder_layers"], (std::vector<int>{0, 2}));
  EXPECT_EQ(json[0]["decoder_layers"], (std::vector<int>{0, 1}));
  EXPECT_EQ(json[1]["encoder_layers"], (std::vector<int>{2, 2}));
  EXPECT_EQ(json[1]["decoder_layers"], (std::vector<int>{1, 2}));
  EXPECT_EQ(json[0]["weight_bytes_of_rank"]["float32"], (encoder + layer + table) * 4 / 2);
  EXPECT_EQ(json[0]["weight_bytes_of_rank"]["int4"], (encoder + (layer + table) * 17 / 32) / 2);
  EXPECT_EQ(json[1]["weight_bytes_of_rank"]["int8"], (layer + table) / 2);
  const std::string text = to_text(r);
  for (const char* line :
       {"stage 0       ranks 0 to 1: encoder layers 0 to 1, decoder layer 0, 245184 parameters\n",
        "stage 1       ranks 2 to 3: decoder layer 1, 178240 parameters\n",
        "weights on each rank: 348.1 KiB in float32, 174.1 KiB in bfloat16"})
    EXPECT_NE(text.find(line), std::string::npos) << line << "\nis not in\n" << text;
}

TEST(Inspect, WhatRanksOfEncodersHold) {
  const auto config = ModelConfig::load(golden("bart-tiny"));
  const auto checkpoint = Checkpoint::open(golden("bart-tiny"));
  InspectReport r = inspect(config, checkpoint);
  const LayerSizes sizes = layer_sizes(config, checkpoint);
  r.stages = plan_stages(sizes, {.encoder = false});
  r.encoder_alone = encoder_alone(sizes);
  r.encoder_ranks = 2;
  const auto json = to_json(r)["stages"];
  ASSERT_EQ(json.size(), 2u);
  EXPECT_EQ(json[0]["ranks"], (std::vector<int>{0}));
  EXPECT_EQ(json[0]["encoder_layers"], (std::vector<int>{0, 0}));
  EXPECT_EQ(json[0]["decoder_layers"], (std::vector<int>{0, 2}));
  EXPECT_EQ(json[1]["ranks"], (std::vector<int>{1, 2}));
  EXPECT_EQ(json[1]["encoder_layers"], (std::vector<int>{0, 2}));
  EXPECT_EQ(json[1]["weight_bytes_of_rank"]["float32"], r.encoder_alone->parameters * 4);
  EXPECT_NE(to_text(r).find("encoders      ranks 1 to 2: encoder layers 0 to 1, "),
            std::string::npos)
      << to_text(r);
}

TEST(Inspect, Text) {
  const std::string text = to_text(inspect_directory(golden_or_twin("bart-pickle")));
  for (const char* line :
       {"architecture  BartForConditionalGeneration (bart)\n", "format        pickle\n",
        "file          pytorch_model.bin, 4.6 MiB\n", "tied          3 further names\n",
        "parameters    2.4 million\n", "encoder       3 layers, 4 heads, feed-forward 128\n",
        "in float32    weights 9.1 MiB\n", "in bfloat16   weights 4.5 MiB\n",
        "cache 4.0 KiB for each decoder token, 4.0 KiB for each encoder token\n",
        "cache of 32 requests of full length (80 + 80 tokens): 20.0 MiB\n",
        "--kv-cache-dtype int8: cache 1.1 KiB for each decoder token, 1.1 KiB for each encoder",
        "default       num_beams = 4\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << "\nis not in\n" << text;
}

TEST(Inspect, Json) {
  const auto json = to_json(inspect_directory(golden_or_twin("bart-sharded")));
  EXPECT_EQ(json["format"], "sharded safetensors");
  EXPECT_EQ(json["files"].size(), 3u);
  EXPECT_EQ(json["files"][0]["name"], "model-00001-of-00003.safetensors");
  EXPECT_EQ(json["dtypes"]["bfloat16"]["tensors"], 108);
  EXPECT_EQ(json["parameters"], 2385408);
  EXPECT_EQ(json["shapes"]["d_model"], 256);
  EXPECT_EQ(json["generation"]["num_beams"], 4);
  EXPECT_EQ(json["memory"]["float32"]["weight_bytes"], 2385408 * 4);
  EXPECT_EQ(json["memory"]["float32"]["cache_bytes_32_requests"], 32 * 80 * 8192);
  EXPECT_EQ(json["int8_cache"]["cross_cache_bytes_per_token"], 1024 + 2 * 2 * 4 * 4);
  EXPECT_FALSE(json.dump().empty());  // throws where a string is not UTF-8
}

}  // namespace
}  // namespace tandem
