#include "models/load_model.h"

#include <gtest/gtest.h>

#include <string>

#include "parallel/communicators/communicator.h"
#include "tests/support/files/expect_error.h"
#include "tests/support/files/files.h"
#include "tests/support/goldens/draft_checkpoint.h"
#include "tests/support/goldens/golden_twins.h"

namespace tandem {
namespace {

using test::golden;
using test::golden_or_twin;

// Loads the model of the directory; the line that the log gets, "" if there is none.
std::string note_of(const std::filesystem::path& directory, const LoadProgress& progress = {}) {
  Context ctx(1);
  const auto comm = make_local_communicator();
  const ModelConfig config = ModelConfig::load(directory);
  Checkpoint checkpoint = Checkpoint::open(directory);
  load_model(config, checkpoint, {ctx, *comm, DType::kF32}, progress);
  const std::vector<std::string> lines = load_warnings(config, checkpoint);
  EXPECT_LE(lines.size(), 1u);
  return lines.empty() ? "" : lines[0];
}

TEST(LoadModel, NamesWhatNoLayerReads) {
  EXPECT_EQ(note_of(golden("bart-tiny")), "");
  EXPECT_EQ(note_of(golden("bart-model-only")), "");
  const std::string note = note_of(golden_or_twin("bart-odd"));
  EXPECT_NE(note.find("2 tensor(s) that BartForConditionalGeneration does not have are ignored: "
                      "classification_head.dense.bias, model.encoder.layers.9.fc1.bias"),
            std::string::npos)
      << note;
}

TEST(LoadModel, CountsMoreThanItNames) {
  test::TempDir dir;
  for (const char* file : {"config.json", "generation_config.json"})
    if (std::filesystem::exists(golden("bart-tiny") / file))
      dir.write(file, test::read_file(golden("bart-tiny") / file));
  const std::string file = test::read_file(golden("bart-tiny") / "model.safetensors");
  const size_t header =
      static_cast<unsigned char>(file[0]) + 256u * static_cast<unsigned char>(file[1]);
  std::string more = "{";
  for (int i = 0; i < 9; ++i)
    more += "\"extra." + std::to_string(i) +
            "\":{\"dtype\":\"C64\",\"shape\":[0],\"data_offsets\":[0,0]},";
  dir.write("model.safetensors",
            test::safetensors(more + file.substr(9, header - 1), file.substr(8 + header)));
  const std::string note = note_of(dir.path());
  EXPECT_NE(note.find(": 9 tensor(s) that"), std::string::npos) << note;
  EXPECT_NE(note.find("extra.0, extra.1, extra.2, extra.3, …"), std::string::npos) << note;
}

TEST(LoadModel, AMissingTensorIsNamed) {
  test::TempDir dir;
  dir.write("config.json", test::read_file(golden("bart-tiny") / "config.json"));
  std::string file = test::read_file(golden("bart-tiny") / "model.safetensors");
  const std::string name = "model.encoder.layers.0.fc2.bias";
  file.replace(file.find(name), 5, "MODEL");
  dir.write("model.safetensors", file);
  EXPECT_INPUT_ERROR(note_of(dir.path()), dir.path().string(), "tensor " + name + " is missing");
}

// Tables that config.json ties, but that are stored with other values.
TEST(LoadModel, NamesTablesThatAreNotTied) {
  const auto note_with = [](const std::string& name, bool turned, const nlohmann::json& config) {
    test::TempDir dir;
    testing::DraftCheckpoint checkpoint;
    checkpoint.copies[name] = {"model.decoder.embed_tokens.weight", turned};
    checkpoint.config = config;
    checkpoint.write("bart-tiny", dir);
    return note_of(dir.path());
  };
  const nlohmann::json tied = {{"tie_word_embeddings", true}};
  for (const char* name :
       {"lm_head.weight", "model.encoder.embed_tokens.weight", "model.shared.weight"}) {
    EXPECT_EQ(note_with(name, /*turned=*/false, tied), "") << name;
    const std::string note = note_with(name, /*turned=*/true, tied);
    EXPECT_NE(note.find(name), std::string::npos) << note;
    EXPECT_NE(note.find("model.decoder.embed_tokens.weight"), std::string::npos) << note;
    EXPECT_NE(note.find("tie_word_embeddings"), std::string::npos) << note;
  }
  EXPECT_EQ(note_with("lm_head.weight", /*turned=*/true, {{"tie_word_embeddings", false}}), "");
}

// All bytes are reported, also those that no layer reads.
TEST(LoadModel, ReportsItsProgress) {
  size_t last = 0, all = 0;
  note_of(golden_or_twin("bart-odd"), [&](size_t done, size_t total) {
    EXPECT_GE(done, last);
    last = done;
    all = total;
  });
  EXPECT_GT(all, 0u);
  EXPECT_EQ(last, all);
}

}  // namespace
}  // namespace tandem
