// What users are told to do: misspelt names, empty texts, checkpoints that are not what they seem.
#include <gtest/gtest.h>

#include "base/json.h"
#include "tests/support/processes/command_line.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::DamagedCheckpoint;
using testing::kTiny;
using testing::ProcessResult;
using testing::tandem;

void expect_contains(const std::string& text, const std::vector<std::string>& words) {
  for (const std::string& word : words) EXPECT_NE(text.find(word), std::string::npos) << text;
}

// One line without control characters, of a length that a person reads.
void expect_readable(const std::string& message) {
  EXPECT_LT(message.size(), 2200u) << message.substr(0, 300);
  ASSERT_FALSE(message.empty());
  EXPECT_EQ(message.back(), '\n');
  for (size_t i = 0; i + 1 < message.size(); ++i)
    EXPECT_GE(static_cast<unsigned char>(message[i]), 0x20u) << i << ": " << message;
}

TEST(CliErrors, DidYouMean) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"generat"}, "did you mean generate?"},
      {{"sreve", kTiny}, "did you mean serve?"},
      {{"bench", "latncy"}, "did you mean latency?"},
      {{"generate", "--modle", kTiny, "text"}, "--modle; did you mean --model?"},
      {{"generate", "--modle=" + kTiny, "text"}, "--modle; did you mean --model?"},
      {{"tokenize", "--modle", kTiny, "text"}, "--modle; did you mean --model?"},
      {{"inspect", kTiny, "--jsn"}, "--jsn; did you mean --json?"},
      {{"serve", kTiny, "--tensor-paralel-size", "2"}, "did you mean --tensor-parallel-size?"},
  };
  for (const auto& [args, words] : cases) {
    const ProcessResult r = tandem(args);
    EXPECT_EQ(r.status, 2) << r.err;
    EXPECT_EQ(r.out, "");
    expect_contains(r.err, {words, "--help"});
    expect_readable(r.err);
  }
  expect_contains(tandem({"xyzzyplugh"}).err,
                  {"there is no command \"xyzzyplugh\"", "generate", "serve"});
  expect_contains(tandem({}).err, {"a command is missing", "generate", "serve"});
  expect_contains(tandem({"bench"}).err, {"a command is missing", "throughput"});
  expect_contains(tandem({"tokenize", "text", "--connect", "x"}).err, {"--connect"});
}

TEST(CliErrors, ValuesOfOtherPrograms) {
  for (const auto& [name, same] : {std::pair{"fp32", "float32"}, std::pair{"bf16", "bfloat16"},
                                   std::pair{"int8_float16", "int8"}}) {
    const ProcessResult r = tandem({"generate", kTiny, "a text", "--dtype", name});
    EXPECT_EQ(r.status, 0) << r.err;
    EXPECT_EQ(r.out, tandem({"generate", kTiny, "a text", "--dtype", same}).out);
  }
  expect_contains(tandem({"generate", kTiny, "a text", "--dtype", "int3"}).err,
                  {"--dtype", "\"int3\" is not one of auto, float32"});
  expect_contains(tandem({"generate", kTiny, "a text", "--threads", "many"}).err,
                  {"--threads: \"many\" is not a number"});
  EXPECT_EQ(tandem({"-V"}).out, tandem({"--version"}).out);
}

// The name of a file is a text of its own, which is seldom meant.
TEST(CliErrors, ATextThatIsAFileIsPointedOut) {
  const ProcessResult r = tandem({"generate", kTiny, kTiny + "/config.json"});
  EXPECT_EQ(r.status, 0) << r.err;
  expect_contains(r.err, {"config.json", "--input"});
  EXPECT_EQ(tandem({"generate", kTiny, "a text"}).err.find("--input"), std::string::npos);
}

// From nothing a model invents a sentence.
TEST(CliErrors, AnEmptyTextIsRefusedUnlessAllowed) {
  for (const char* text : {"", " \n\t"}) {
    const ProcessResult r = tandem({"generate", "--model", kTiny, text});
    EXPECT_EQ(r.status, 1);
    EXPECT_EQ(r.out, "");
    expect_contains(r.err, {"prompt", "--allow-empty-prompt"});
    EXPECT_EQ(tandem({"generate", "--model", kTiny, "--allow-empty-prompt", text}).status, 0);
    EXPECT_EQ(tandem({"tokenize", "--model", kTiny, text}).status, 0);
    EXPECT_EQ(tandem({"encode", "--model", kTiny, text}).status, 0);
  }
  const std::vector<std::string> jsonl{"generate", "--jsonl", "--model", kTiny};
  const ProcessResult refused = tandem(jsonl, "{\"id\": 1, \"prompt\": \"\"}\n");
  EXPECT_EQ(refused.status, 1);
  const json error = json_from<json>(refused.out)["error"];
  EXPECT_EQ(error["type"], "invalid_request_error");
  EXPECT_EQ(error["param"], "prompt");
  for (const char* line : {R"({"prompt": "", "params": {"allow_empty_prompt": true}})",
                           R"({"prompt": {"encoder_prompt": "", "decoder_prompt": [2]}})",
                           R"({"prompt": {"prompt_token_ids": [0, 2]}})"})
    EXPECT_EQ(tandem(jsonl, std::string(line) + "\n").status, 0) << line;
}

TEST(CliErrors, ATextThatIsTooLongNamesTheFlagThatCutsIt) {
  const std::vector<std::string> args{"generate", "--model", kTiny, std::string(3000, 'x')};
  const ProcessResult r = tandem(args);
  EXPECT_EQ(r.status, 1);
  expect_contains(r.err, {"maximum context length is 128 tokens", "truncate_prompt_tokens: -1",
                          "--truncate-prompt-tokens -1"});
  auto cut = args;
  cut.insert(cut.end(), {"--truncate-prompt-tokens", "-1"});
  EXPECT_EQ(tandem(cut).status, 0);
}

TEST(CliErrors, QuantizationOnACpuNamesWhatToUse) {
  const auto generate = [](const char* kind) {
    return tandem(
        {"generate", "--model", kTiny, "--device", "cpu", "--quantization", kind, "text"});
  };
  const ProcessResult fp8 = generate("fp8");
  EXPECT_EQ(fp8.status, 2);
  expect_contains(fp8.err, {"--quantization", "fp8", "--dtype int8 or --dtype int4"});
  for (const std::string kind : {"int8", "int4"}) {
    const ProcessResult r = generate(kind.c_str());
    EXPECT_EQ(r.status, 0) << r.err;
    expect_contains(r.err, {"--quantization " + kind, "--dtype " + kind});
    EXPECT_EQ(r.out, tandem({"generate", "--model", kTiny, "--dtype", kind, "text"}).out);
  }
  const ProcessResult unknown = tandem({"generate", "--model", kTiny, "--dtype", "int3", "text"});
  EXPECT_EQ(unknown.status, 2);
  expect_contains(unknown.err, {"--dtype", "int3", "int8", "int4"});
}

TEST(CliErrors, CertificatesAreNamedWithTheReason) {
  const auto serve = [](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"serve", kTiny, "--port", "0", "--client-port", "0"});
    const ProcessResult r = tandem(flags);
    EXPECT_EQ(r.status, 2);
    EXPECT_EQ(r.err.find("asio.ssl"), std::string::npos) << r.err;
    return r.err;
  };
  const std::string config = kTiny + "/config.json";
  expect_contains(serve({"--ssl-certfile", "/no/such.pem"}),
                  {"--ssl-certfile", "/no/such.pem", "No such file or directory"});
  expect_contains(serve({"--ssl-certfile", "/tmp"}), {"--ssl-certfile", "directory"});
  expect_contains(serve({"--ssl-certfile", config}), {"--ssl-certfile", config, "PEM"});
}

TEST_F(DamagedCheckpoint, GitLfsPointersAreRecognised) {
  const std::string pointer =
      "version https://git-lfs.github.com/spec/v1\n"
      "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n";
  for (const char* file : {"model.safetensors", "tokenizer.json", "config.json"}) {
    const fs::path kept = dir_ / "kept";
    fs::copy_file(dir_ / file, kept, fs::copy_options::overwrite_existing);
    write(file, pointer);
    expect_error({file, "git-lfs pointer", "git lfs pull", dir_.string()});
    fs::copy_file(kept, dir_ / file, fs::copy_options::overwrite_existing);
  }
  fs::remove(dir_ / "tokenizer.json");
  write("vocab.json", pointer);
  expect_error({"vocab.json", "git lfs pull"});
  fs::remove(dir_ / "model.safetensors");
  write("pytorch_model.bin", pointer);
  fs::remove(dir_ / "vocab.json");
  fs::copy_file(fs::path(kTiny) / "vocab.json", dir_ / "vocab.json");
  expect_error({"pytorch_model.bin", "git lfs pull"});
}

TEST_F(DamagedCheckpoint, AnUnsupportedModelIsInspectedAndRefused) {
  write("config.json", R"({"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2",
      "bos_token_id": 50256, "eos_token_id": 50256, "n_embd": 768, "n_layer": 12,
      "pad_token_id": -1, "torch_dtype": "int3", "num_attention_heads": [1]})");
  const std::string told =
      expect_error({"config.json", "GPT2LMHeadModel (gpt2)", "not an encoder/decoder model",
                    "decoder alone", " bart,"});
  EXPECT_LT(told.size(), 1000u) << "a list of classes is none that a person reads";
  const ProcessResult text = tandem({"inspect", dir_.string()});
  EXPECT_EQ(text.status, 2);
  expect_contains(text.out, {"GPT2LMHeadModel (gpt2)", "supported     no", "parameters"});
  expect_contains(text.err, {"GPT2LMHeadModel (gpt2)", "supported, by model_type: "});
  const ProcessResult as_json = tandem({"inspect", dir_.string(), "--json"});
  EXPECT_EQ(as_json.status, 2);
  EXPECT_EQ(json_from<json>(as_json.out)["supported"], false);
  EXPECT_EQ(json_from<json>(as_json.out)["parameters"],
            json_from<json>(tandem({"inspect", kTiny, "--json"}).out)["parameters"]);
  // Even without weights that can be read.
  fs::remove(dir_ / "model.safetensors");
  const ProcessResult bare = tandem({"inspect", dir_.string()});
  EXPECT_EQ(bare.status, 2);
  expect_contains(bare.out, {"GPT2LMHeadModel", "not read"});
}

// --- Hostile files: a message is short, and what it quotes cannot steer a terminal --------------

TEST_F(DamagedCheckpoint, EndlessMerges) {
  json tokenizer = read_json("tokenizer.json");
  for (const std::string& merge :
       {std::string(5'000'000, 'x'), std::string(5'000'000, 'x') + " y"}) {
    tokenizer["model"]["merges"] = json::array({merge});
    write("tokenizer.json", tokenizer.dump());
    expect_readable(expect_error({"tokenizer.json", "merges[0]", "characters)"}));
  }
  tokenizer["model"]["merges"] = json::array({"\x1b[2J\x1b[31m x y"});
  write("tokenizer.json", tokenizer.dump());
  expect_readable(expect_error({"merges[0]", "\\x1b[2J"}));
}

TEST_F(DamagedCheckpoint, EndlessNamesInAnIndex) {
  fs::remove(dir_ / "model.safetensors");
  const auto write_index = [&](const std::string& tensor, const std::string& shard) {
    write("model.safetensors.index.json", json({{"weight_map", {{tensor, shard}}}}).dump());
  };
  write_index("a", std::string(100'000, 's'));
  expect_readable(expect_error({"characters)"}));
  write_index(std::string(100'000, 't'), "missing.safetensors");
  expect_readable(expect_error({"missing.safetensors", "characters)"}));
  write_index("a", "\x1b]0;title\x07\r\n.safetensors");
  expect_readable(expect_error({"\\x1b]0;title\\x07"}));
}

TEST_F(DamagedCheckpoint, EndlessNamesElsewhere) {
  const std::string endless(100'000, 'k');
  edit_config("model_type", endless);
  expect_readable(expect_error({"config.json"}));
  edit_config("model_type", "bart");
  // (The type decides, whatever the class is called.)
  edit_config("architectures", json::array({endless}));
  const ProcessResult named = tandem({"generate", "--model", dir_.string(), "some text"});
  EXPECT_EQ(named.status, 0) << named.err;
  EXPECT_LT(named.err.size(), 2200u);
  edit_config("architectures", json::array({"BartForConditionalGeneration"}));
  json tokenizer = read_json("tokenizer.json");
  tokenizer["model"]["vocab"][endless] = "no id";
  write("tokenizer.json", tokenizer.dump());
  expect_readable(expect_error({"tokenizer.json"}));
  write("tokenizer.json", "{\"model\": \"" + endless + "\x01\"");
  expect_readable(expect_error({"tokenizer.json"}));
}

TEST(CliErrors, NamesOfFilesCannotSteerATerminal) {
  const fs::path dir =
      fs::temp_directory_path() / ("tandem-\x1b[31m\r\n" + std::to_string(getpid()));
  for (const bool exists : {false, true}) {
    if (exists) fs::create_directories(dir);
    for (const char* command : {"generate", "serve", "inspect"}) {
      std::vector<std::string> args{command, "--model", dir.string()};
      if (std::string(command) == "generate") args.emplace_back("text");
      const ProcessResult r = tandem(args);
      EXPECT_EQ(r.status, 2);
      expect_contains(r.err, {"\\x1b[31m\\x0d\\x0a"});
      expect_readable(r.err);
    }
  }
  fs::remove_all(dir);
}

}  // namespace
}  // namespace tandem
