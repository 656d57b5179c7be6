#include "models/checkpoint/checkpoint.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>

#include "tests/support/files/checkpoint_writer.h"
#include "tests/support/files/expect_error.h"
#include "tests/support/files/files.h"
#include "tests/support/goldens/golden_twins.h"

namespace tandem {
namespace {

using test::golden;
using test::golden_or_twin;
using test::read_file;
using test::safetensors;
using test::TempDir;

// A file with tensors of one byte each.
std::string shard(const std::vector<std::string>& names, char value = 'x') {
  std::string header = "{";
  for (size_t i = 0; i < names.size(); ++i)
    header += (i ? ",\"" : "\"") + names[i] +
              "\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[" + std::to_string(i) + "," +
              std::to_string(i + 1) + "]}";
  return safetensors(header + "}", std::string(names.size(), value));
}

std::string pickle_of(const std::string& name) {
  namespace p = test::pickled;
  return test::torch_archive(
      p::program(p::dict({{name, p::tensor(p::storage("ByteStorage", "0", 1), 0, {1}, {1})}})),
      {"x"});
}

// Every float tensor of `a` is in `b` with the same values, whatever its type there.
void expect_same_values(const Checkpoint& a, const Checkpoint& b) {
  for (const auto& [name, tensor] : a.tensors()) {
    const auto it = b.tensors().find(name);
    ASSERT_NE(it, b.tensors().end()) << name;
    EXPECT_EQ(it->second.shape, tensor.shape) << name;
    const Tensor x = to_float(tensor), y = to_float(it->second);
    ASSERT_EQ(x.bytes(), y.bytes()) << name;
    EXPECT_EQ(std::memcmp(x.raw(), y.raw(), x.bytes()), 0) << name;
  }
}

TEST(Checkpoint, ShardsAndPicklesHoldTheSameValues) {
  const Checkpoint base = Checkpoint::open(golden("bart-base-shape"));
  const Checkpoint sharded = Checkpoint::open(golden_or_twin("bart-sharded"));
  const Checkpoint pickle = Checkpoint::open(golden_or_twin("bart-pickle"));
  EXPECT_EQ(base.format(), "safetensors");
  EXPECT_EQ(sharded.format(), "sharded safetensors");
  EXPECT_EQ(pickle.format(), "pickle");
  EXPECT_EQ(base.files().size(), 1u);
  EXPECT_EQ(sharded.files().size(), 3u);
  EXPECT_EQ(base.tensors().at("model.decoder.embed_tokens.weight").dtype, DType::kF32);
  EXPECT_EQ(sharded.tensors().at("model.decoder.embed_tokens.weight").dtype, DType::kBF16);
  EXPECT_EQ(pickle.tensors().at("model.decoder.embed_tokens.weight").dtype, DType::kF16);
  EXPECT_EQ(base.tensors().size(), sharded.tensors().size());
  EXPECT_EQ(base.bytes(), 2 * sharded.bytes());
  expect_same_values(base, sharded);
  expect_same_values(base, pickle);
  // The pickle has the tied names too, over the same bytes.
  const HostTensor& shared = pickle.tensors().at("model.shared.weight");
  for (const char* tied :
       {"model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight"})
    EXPECT_EQ(pickle.tensors().at(tied).data, shared.data) << tied;
}

// Its weights are torch's own bytes; what they compute is compared with HuggingFace elsewhere.
TEST(Checkpoint, PickleThatTorchWrote) {
  const Checkpoint pickle = Checkpoint::open(golden("bart-model-only"));
  EXPECT_EQ(pickle.format(), "pickle");
  EXPECT_EQ(pickle.tensors().size(), 77u);
  const HostTensor& shared = pickle.tensors().at("shared.weight");
  EXPECT_EQ(shared.dtype, DType::kF32);
  EXPECT_EQ(shared.shape, (Shape{600, 48}));
  for (const char* tied : {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight"})
    EXPECT_EQ(pickle.tensors().at(tied).data, shared.data) << tied;
}

TEST(Checkpoint, TensorsOutliveIt) {
  HostTensor kept;
  {
    Checkpoint c = Checkpoint::open(golden("bart-tiny"));
    const HostTensor* found = c.find("model.decoder.embed_positions.weight");
    ASSERT_NE(found, nullptr);
    kept = *found;
  }
  EXPECT_EQ(kept.shape, (Shape{130, 64}));
  EXPECT_EQ(to_float(kept).size(), 130 * 64);  // reads the mapping
}

TEST(Checkpoint, RemembersWhatWasRead) {
  TempDir dir;
  dir.write("model.safetensors", shard({"b", "a", "c"}));
  Checkpoint c = Checkpoint::open(dir.path());
  EXPECT_EQ(c.unread(), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(c.find("none"), nullptr);
  ASSERT_NE(c.find("b"), nullptr);
  EXPECT_EQ(c.find("b")->name, "b");
  EXPECT_EQ(c.unread(), (std::vector<std::string>{"a", "c"}));
  EXPECT_EQ(c.location(), dir.path().string());
}

TEST(Checkpoint, WhatIsSkippedCountsAsRead) {
  TempDir dir;
  dir.write("model.safetensors", shard({"eye.a", "eye.b.c", "eyes.a", "a"}));
  Checkpoint c = Checkpoint::open(dir.path());
  (Weights(c) / "eye").skip();
  EXPECT_EQ(c.unread(), (std::vector<std::string>{"a", "eyes.a"}));
}

TEST(Checkpoint, PrefersSafetensorsToPickles) {
  TempDir dir;
  dir.write("pytorch_model.bin", "broken");
  dir.write("model.safetensors.index.json", R"({"weight_map": {"s": "s.safetensors"}})");
  dir.write("s.safetensors", shard({"s"}));
  EXPECT_EQ(Checkpoint::open(dir.path()).format(), "sharded safetensors");
  dir.write("model.safetensors", shard({"w"}));
  EXPECT_EQ(Checkpoint::open(dir.path()).format(), "safetensors");
}

TEST(Checkpoint, FollowsLinksAsInTheHubsCache) {
  TempDir dir;
  dir.write("blob", shard({"w"}));
  std::filesystem::create_symlink("blob", dir / "model.safetensors");
  EXPECT_EQ(Checkpoint::open(dir.path()).tensors().size(), 1u);
  std::filesystem::remove(dir / "blob");
  EXPECT_INPUT_ERROR(Checkpoint::open(dir.path()), "model.safetensors", "No such file");
}

TEST(Checkpoint, ShardedPickles) {
  TempDir dir;
  dir.write("1.bin", pickle_of("a"));
  dir.write("2.bin", pickle_of("b"));
  dir.write("pytorch_model.bin.index.json", R"({"weight_map": {"a": "1.bin", "b": "2.bin"}})");
  const Checkpoint c = Checkpoint::open(dir.path());
  EXPECT_EQ(c.format(), "sharded pickle");
  EXPECT_EQ(c.tensors().size(), 2u);
}

// As HuggingFace reads it: all that is in the shards, whatever the index says of it.
TEST(Checkpoint, AnIndexOnlyNamesShards) {
  TempDir dir;
  std::filesystem::create_directory(dir / "parts");
  dir.write("parts/a.safetensors", shard({"a", "a2"}, '1'));
  dir.write("z.safetensors", shard({"b", "a"}, '2'));
  dir.write("model.safetensors.index.json",
            R"({"metadata": {"total_size": NaN}, "weight_map": {
            "a": "parts/a.safetensors", "b": "z.safetensors", "tied": "z.safetensors"}})");
  Checkpoint c = Checkpoint::open(dir.path());
  EXPECT_EQ(c.tensors().size(), 3u);
  EXPECT_EQ(c.find("tied"), nullptr);
  ASSERT_NE(c.find("a2"), nullptr);
  // Of a tensor that is in two of them the last one counts.
  EXPECT_EQ(*c.find("a")->data, std::byte{'2'});
}

// --- Errors ------------------------------------------------------------------------------------

TEST(CheckpointErrors, NoWeights) {
  TempDir dir;
  EXPECT_INPUT_ERROR(Checkpoint::open(dir / "none"), (dir / "none").string(), "is not a directory");
  EXPECT_INPUT_ERROR(Checkpoint::open(dir.path()), dir.path().string(), "no weights",
                     "model.safetensors", "pytorch_model.bin");
  dir.write("tf_model.h5", "x");
  EXPECT_INPUT_ERROR(Checkpoint::open(dir.path()), "TensorFlow (tf_model.h5)");
}

TEST(CheckpointErrors, OtherFormatsSayWhatTheyAre) {
  const std::pair<const char*, const char*> formats[] = {
      {"tf_model.h5", "TensorFlow"},         {"flax_model.msgpack", "Flax"},
      {"adapter_model.safetensors", "PEFT"}, {"model-Q4_K_M.gguf", "GGUF"},
      {"model.bin", "CTranslate2"},          {"decoder_model.onnx", "ONNX"},
      {"rust_model.ot", "rust-bert"},        {"model.fp16.safetensors", "variant (fp16)"},
      {"openvino_model.xml", "OpenVINO"},    {"saved_model.pb", "SavedModel"}};
  for (const auto& [file, what] : formats) {
    TempDir dir;
    dir.write(file, "x");
    EXPECT_INPUT_ERROR(Checkpoint::open(dir.path()), dir.path().string(), file, what);
  }
  TempDir dir;
  dir.write("adapter_config.json", R"({"base_model_name_or_path": "google/flan-t5-base"})");
  EXPECT_INPUT_ERROR(Checkpoint::open(dir.path()), "an adapter of PEFT", "google/flan-t5-base",
                     "merge");
}

TEST(CheckpointErrors, TruncatedFilesOfARealCheckpoint) {
  TempDir dir;
  const std::string good = read_file(golden("bart-tiny") / "model.safetensors");
  for (size_t n :
       {size_t{1}, size_t{7}, size_t{8}, size_t{4000}, good.size() / 2, good.size() - 1}) {
    dir.write("model.safetensors", std::string_view(good).substr(0, n));
    EXPECT_INPUT_ERROR(Checkpoint::open(dir.path()), (dir / "model.safetensors").string());
  }
  // The last one names the tensor that is cut off.
  EXPECT_INPUT_ERROR(Checkpoint::open(dir.path()), "tensor \"", "outside of the data");
  dir.write("model.safetensors", "");
  EXPECT_INPUT_ERROR(Checkpoint::open(dir.path()), "model.safetensors", "is empty");
  std::filesystem::remove(dir / "model.safetensors");
  const std::string pickle = read_file(golden("bart-model-only") / "pytorch_model.bin");
  for (size_t n : {size_t{3}, pickle.size() / 2, pickle.size() - 1}) {
    dir.write("pytorch_model.bin", std::string_view(pickle).substr(0, n));
    EXPECT_INPUT_ERROR(Checkpoint::open(dir.path()), (dir / "pytorch_model.bin").string());
  }
}

TEST(CheckpointErrors, Index) {
  TempDir dir;
  dir.write("a.safetensors", shard({"a", "a2"}));
  dir.write("b.safetensors", shard({"b"}));
  const auto refused = [&](const std::string& index, const std::vector<std::string>& texts) {
    dir.write("model.safetensors.index.json", index);
    try {
      Checkpoint::open(dir.path());
    } catch (const InputError& e) {
      for (const std::string& text : texts)
        EXPECT_NE(std::string(e.what()).find(text), std::string::npos) << e.what();
      return;
    }
    ADD_FAILURE() << "no error for " << index;
  };
  const std::string file = "model.safetensors.index.json: ";
  refused("{", {"model.safetensors.index.json", "line 1"});
  refused("[]", {file + "is not a JSON object"});
  refused("{}", {file + "weight_map is missing"});
  refused(R"({"weight_map": {}})", {file + "weight_map is not an object with"});
  refused(R"({"weight_map": ["a"]})", {file + "weight_map is not an object"});
  refused(R"({"weight_map": {"a": 1}})", {file + "weight_map: tensor \"a\""});
  for (const char* path : {"../a.safetensors", "/etc/passwd", "x/../../a.safetensors", "..", ".",
                           "", "x/", "a\\\\b", "a\\u0000b"})
    refused(std::string(R"({"weight_map": {"a": ")") + path + "\"}}",
            {file + "weight_map: ", "is not the name of a file in the same directory"});
  refused(R"({"weight_map": {"a": "a.safetensors", "c": "c.safetensors"}})",
          {"c.safetensors: is missing", "model.safetensors.index.json", "tensor \"c\""});
  dir.write("b.safetensors", "1234");
  refused(R"({"weight_map": {"a": "a.safetensors", "b": "b.safetensors"}})",
          {(dir / "b.safetensors").string(), "4 bytes"});
}

}  // namespace
}  // namespace tandem
