// MODEL as the first argument, beside --model; flags of other programs; variables.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>

#include "launcher/usage/foreign_flags.h"
#include "tests/support/files/files.h"
#include "tests/support/processes/command_line.h"

namespace tandem {
namespace {

using testing::kTiny;
using testing::ProcessResult;
using testing::tandem;
using Words = std::vector<std::string>;

TEST(ModelArgument, IsTheFirstOneOrAFlag) {
  const std::pair<Words, Words> same[] = {
      {{"generate", kTiny, "one text", "--max-new-tokens", "5"},
       {"generate", "--model", kTiny, "one text", "--max-new-tokens", "5"}},
      {{"generate", "--max-new-tokens", "5", kTiny, "one text", "two"},
       {"generate", "one text", "two", "--max-new-tokens", "5", "--model", kTiny}},
      {{"tokenize", kTiny, "one text"}, {"tokenize", "--model", kTiny, "one text"}},
      {{"score", kTiny, "source", "target"}, {"score", "--model", kTiny, "source", "target"}},
      {{"encode", kTiny, "one text"}, {"encode", "--model", kTiny, "one text"}},
      {{"inspect", kTiny}, {"inspect", "--model", kTiny}}};
  for (const auto& [by_place, by_flag] : same) {
    const ProcessResult place = tandem(by_place), flag = tandem(by_flag);
    EXPECT_EQ(place.status, 0) << place.err;
    EXPECT_EQ(place.out, flag.out) << by_place[0];
    EXPECT_NE(place.out, "");
  }
}

// With --model every argument is a text, also one that is the name of a folder.
TEST(ModelArgument, IsNeverGuessed) {
  const ProcessResult two = tandem({"tokenize", "--model", kTiny, kTiny, "text"});
  EXPECT_EQ(two.status, 0) << two.err;
  EXPECT_EQ(std::count(two.out.begin(), two.out.end(), '\n'), 2);
  const ProcessResult empty = tandem({"tokenize", "--model", kTiny, ""});
  EXPECT_EQ(empty.out, "[0,2]\n");
  const ProcessResult none = tandem({"generate", "a text"});
  EXPECT_EQ(none.status, 2);
  EXPECT_NE(none.err.find("the first argument, \"a text\", is the model"), std::string::npos)
      << none.err;
  for (const Words& twice :
       {Words{"serve", kTiny, "--model", "/other"}, Words{"inspect", kTiny, "--model", "/other"},
        Words{"bench", "throughput", kTiny, "--model", "/other"}})
    EXPECT_EQ(tandem(twice).status, 2) << twice[0];
  for (const Words& missing :
       {Words{"generate"}, Words{"tokenize"}, Words{"encode"}, Words{"score"}, Words{"read"},
        Words{"transcribe"}, Words{"serve"}, Words{"bench", "latency"}}) {
    const ProcessResult r = tandem(missing);
    EXPECT_EQ(r.status, 2) << r.err;
    EXPECT_TRUE(r.err.find("MODEL") != std::string::npos || r.err.find("FILE") != std::string::npos)
        << r.err;
  }
}

// The model is called as another place calls it, or what is there is not all of it.
TEST(ModelArgument, WhatWasMeantIsSaid) {
  const std::string file = kTiny + "/model.safetensors";
  const std::pair<std::string, std::string> names[] = {
      {file, "the model is its directory, " + kTiny},
      {"https://huggingface.co/facebook/bart-large-cnn/tree/main",
       "its id is facebook/bart-large-cnn"},
      {"hf://facebook/bart-large-cnn", "its id is facebook/bart-large-cnn"},
      {"facebook/bart-large-cnn:v2", "facebook/bart-large-cnn --revision v2"},
      {"/no/such/model", "there is no such directory"}};
  for (const auto& [name, words] : names) {
    const ProcessResult r = tandem({"generate", name, "a text"});
    EXPECT_EQ(r.status, 2);
    EXPECT_NE(r.err.find(words), std::string::npos) << r.err;
  }
  const test::TempDir dir;
  const std::string gguf = dir.write("small.gguf", "GGUF").string();
  EXPECT_NE(tandem({"inspect", gguf}).err.find("this is a GGUF file"), std::string::npos);
}

TEST(ModelArgument, WhatADirectoryLacksIsSaid) {
  namespace fs = std::filesystem;
  const test::TempDir cache, half, part, without;
  const fs::path snapshot = cache / "snapshots" / "0123";
  fs::create_directories(snapshot);
  for (const char* name : {"config.json", "tokenizer.json"}) {
    fs::copy_file(fs::path(kTiny) / name, snapshot / name);
    fs::copy_file(fs::path(kTiny) / name, half / name);
    fs::copy_file(fs::path(kTiny) / name, part / name);
  }
  const std::string weights = test::read_file(fs::path(kTiny) / "model.safetensors");
  half.write("model.safetensors", weights.substr(0, weights.size() / 2));
  part.write("model.safetensors.incomplete", "");
  without.write("model.safetensors", weights);
  const std::pair<fs::path, std::string> cases[] = {
      {cache.path(), "the checkpoint is in " + snapshot.string()},
      {half.path(), "is truncated: it has " + std::to_string(weights.size() / 2) + " of " +
                        std::to_string(weights.size()) + " bytes"},
      {part.path(), "a download that has not ended (model.safetensors.incomplete)"},
      {without.path(), "no config.json, which belongs to model.safetensors"}};
  for (const auto& [directory, words] : cases) {
    const ProcessResult r = tandem({"generate", directory.string(), "a text"});
    EXPECT_EQ(r.status, 2);
    EXPECT_NE(r.err.find(words), std::string::npos) << r.err;
  }
}

// --- Flags of other programs ---------------------------------------------------------------------

TEST(ForeignFlags, AreAnsweredWithOurs) {
  const std::pair<Words, std::string> cases[] = {
      {{"generate", kTiny, "x", "--tgt-lang", "fr"}, "--target-lang"},
      {{"generate", kTiny, "x", "--tgt_lang=fr"}, "--target-lang"},
      {{"generate", kTiny, "x", "--target_lang", "fr"}, "did you mean --target-lang?"},
      {{"generate", kTiny, "x", "--beam-size", "4"}, "here it is --num-beams"},
      {{"generate", kTiny, "x", "--beam_size", "4"}, "here it is --num-beams"},
      {{"generate", kTiny, "x", "--diversity-penalty", "1"}, "not built"},
      {{"serve", kTiny, "--enable-lora"}, "needs no flag"},
      {{"serve", kTiny, "--lora-paths", "a=b"}, "here it is --lora-modules"},
      {{"serve", kTiny, "--enable-deterministic-inference"}, "here it is --batch-invariant"},
      {{"generate", kTiny, "x", "--guided-json", "{}"}, "a request asks for it"},
      {{"serve", kTiny, "--guided-decoding-backend", "auto"}, "needs no flag"},
      {{"transcribe", kTiny, "x.wav", "--initial-prompt", "Names"}, "here it is --prompt"},
      {{"transcribe", kTiny, "x.wav", "--vad-onset", "0.4"}, "here it is --vad-threshold"},
      {{"transcribe", kTiny, "x.wav", "--vad_filter", "True"}, "did you mean --vad-filter?"},
      {{"transcribe", kTiny, "x.wav", "--max_line_width", "40"}, "--highlight-words"},
      {{"transcribe", kTiny, "x.wav", "-osrt"}, "--format srt"},
      {{"transcribe", kTiny, "x.wav", "--compute_type", "int8"}, "here it is --dtype"},
      {{"serve", kTiny, "--trust-remote-code"}, "never run"},
      {{"serve", kTiny, "--max-model-len", "512"}, "truncate_prompt_tokens"},
      {{"serve", kTiny, "--beam-size", "4"}, "as num_beams"},
      {{"serve", kTiny, "--num-beams", "4"}, "as num_beams"},
      {{"serve", kTiny, "--batch-size", "4"}, "here it is --max-num-seqs"},
      {{"tokenize", kTiny, "x", "--num-beams", "4"}, "tandem generate"}};
  for (const auto& [command, words] : cases) {
    const ProcessResult r = tandem(command);
    EXPECT_EQ(r.status, 2) << r.err;
    EXPECT_EQ(r.out, "");
    EXPECT_NE(r.err.find(words), std::string::npos) << r.err;
    EXPECT_NE(r.err.find("there is no option"), std::string::npos) << r.err;
  }
}

TEST(ForeignCommands, AreAnsweredWithOurs) {
  const std::pair<const char*, const char*> cases[] = {{"run", "tandem generate MODEL TEXT"},
                                                       {"pull", "tandem inspect MODEL"},
                                                       {"summary", "did you mean summarize?"},
                                                       {"quantize", "--dtype int8"},
                                                       {"whisper", "did you mean transcribe?"}};
  for (const auto& [name, words] : cases) {
    const ProcessResult r = tandem({name, kTiny});
    EXPECT_EQ(r.status, 2);
    EXPECT_NE(r.err.find(words), std::string::npos) << r.err;
  }
  // None is a command by now.
  const std::string help = tandem({"--help"}).out;
  for (const char* name : {"run", "chat", "pull", "convert", "asr", "ocr", "start", "show"})
    EXPECT_EQ(help.find("\n  " + std::string(name) + " "), std::string::npos) << name;
}

// What the table calls ours is.
TEST(ForeignFlags, NameFlagsThatThereAre) {
  const std::string help = tandem({"--help=all"}).out;
  for (const launcher::ForeignFlag& flag : launcher::foreign_flags()) {
    EXPECT_FALSE(flag.ours.empty() && flag.note.empty()) << flag.names;
    std::istringstream ours{std::string(flag.ours)};
    for (std::string name; ours >> name;)
      EXPECT_TRUE(help.find(name + " ") != std::string::npos ||
                  help.find(name + ",") != std::string::npos)
          << name << " of " << flag.names;
    std::istringstream names{std::string(flag.names)};
    for (std::string name; names >> name;)
      EXPECT_EQ(launcher::find_foreign_flag(name), &flag) << name << " is there twice";
    if (flag.note.find("not built") == flag.note.npos &&
        flag.note.find("no flag") == flag.note.npos)
      continue;
    std::istringstream refused{std::string(flag.names)};
    for (std::string name; refused >> name;)
      EXPECT_EQ(help.find(" " + name + " "), std::string::npos) << name << " is there by now";
  }
}

// --- Variables -----------------------------------------------------------------------------------

ProcessResult serve_with(const std::string& variable, Words flags = {}) {
  Words command{"/usr/bin/env", variable, TANDEM_BINARY, "serve", "/no/such/model"};
  command.insert(command.end(), flags.begin(), flags.end());
  return testing::run_process(command, "", 20);
}

TEST(Variables, ThatMeanNothingAreNamed) {
  const ProcessResult near = serve_with("TANDEM_MAX_NUM_SEQ=4");
  EXPECT_NE(near.err.find("TANDEM_MAX_NUM_SEQ means nothing to serve; did you mean "
                          "TANDEM_MAX_NUM_SEQS?"),
            std::string::npos)
      << near.err;
  EXPECT_NE(serve_with("TANDEM_XYZZY=4").err.find("TANDEM_XYZZY"), std::string::npos);
  for (const char* known :
       {"TANDEM_MAX_NUM_SEQS=4", "TANDEM_CPU_ISA=generic", "TANDEM_SERVICE_HOST=10.0.0.1",
        "TANDEM_PORT_8000_TCP=tcp://10.0.0.1:8000", "TANDEM_PYTHON=/usr/bin/python3",
        "TANDEM_PAGE_DECODER=/usr/libexec/tandem/tandem-page-decoder", "TANDEM_DIRECT_ROWS=1"})
    EXPECT_EQ(serve_with(known).err.find("means nothing"), std::string::npos) << known;
  // In a pod beside a service "tandem".
  EXPECT_NE(serve_with("TANDEM_PORT=tcp://10.0.0.1:8000").err.find("/no/such/model"),
            std::string::npos);
}

// The argument wins over the variable, and that over the file.
TEST(Variables, TheModelIsTakenFromTheNearestPlace) {
  const test::TempDir dir;
  std::ofstream(dir.path() / "file.toml") << "model = \"/of/the/file\"\n";
  const Words config{"--config", (dir.path() / "file.toml").string()};
  EXPECT_NE(serve_with("TANDEM_MODEL=/of/the/variable", config).err.find("/no/such/model"),
            std::string::npos);
  Words without{"/usr/bin/env", "TANDEM_MODEL=/of/the/variable", TANDEM_BINARY, "serve"};
  without.insert(without.end(), config.begin(), config.end());
  EXPECT_NE(testing::run_process(without, "", 20).err.find("/of/the/variable"), std::string::npos);
  without[1] = "A=b";
  EXPECT_NE(testing::run_process(without, "", 20).err.find("/of/the/file"), std::string::npos);
}

}  // namespace
}  // namespace tandem
