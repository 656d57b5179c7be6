// The binary as its users meet it: output, exit status, and what it says about bad input.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "tests/support/files/json_lines.h"
#include "tests/support/processes/command_line.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::DamagedCheckpoint;
using testing::kTiny;
using testing::ProcessResult;
using testing::tandem;

ProcessResult generate(const std::string& input, std::vector<std::string> flags = {}) {
  std::vector<std::string> args{"generate", "--jsonl", "--model", kTiny, "--dtype", "float32"};
  args.insert(args.end(), flags.begin(), flags.end());
  return tandem(args, input);
}

TEST(Cli, HelpAndVersionExitWithZero) {
  EXPECT_EQ(tandem({"--help"}).status, 0);
  EXPECT_NE(tandem({"--version"}).out.find("tandem "), std::string::npos);
  for (const char* command : {"generate", "tokenize", "encode", "inspect"}) {
    const ProcessResult r = tandem({command, "--help"});
    EXPECT_EQ(r.status, 0);
    if (std::string(command) != "inspect") {
      EXPECT_NE(r.out.find("--model"), std::string::npos) << command;
    }
  }
}

TEST(Cli, WrongUsageExitsWithTwo) {
  EXPECT_EQ(tandem({}).status, 2);
  EXPECT_EQ(tandem({"frobnicate"}).status, 2);
  EXPECT_EQ(tandem({"generate", "--no-such-flag"}).status, 2);
  EXPECT_EQ(tandem({"generate", "text without a model"}).status, 2);
  EXPECT_EQ(tandem({"generate", "--model", kTiny, "--threads", "many", "x"}).status, 2);
}

TEST(Cli, BadFlagValuesNameTheFlag) {
  for (const auto& [flag, value] :
       std::vector<std::pair<std::string, std::string>>{{"--dtype", "float8"},
                                                        {"--kv-cache-memory", "much"},
                                                        {"--swap-space", "-1"},
                                                        {"--block-size", "0"},
                                                        {"--max-num-seqs", "0"},
                                                        {"--max-num-batched-tokens", "-5"},
                                                        {"--num-gpu-blocks-override", "0"},
                                                        {"--preemption-mode", "never"},
                                                        {"--threads", "-2"}}) {
    const ProcessResult r = tandem({"generate", "--model", kTiny, flag, value, "text"});
    EXPECT_EQ(r.status, 2) << flag;
    EXPECT_NE(r.err.find(flag), std::string::npos) << r.err;
    EXPECT_EQ(r.out, "");
  }
}

// Before anything is started; nothing is left of it.
TEST(Cli, ServeChecksItsFlags) {
  const fs::path dir = fs::temp_directory_path() / ("tandem-serve-" + std::to_string(getpid()));
  fs::create_directories(dir);
  fs::permissions(dir, fs::perms::owner_all);
  const int busy = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(::bind(busy, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(busy, 1), 0);
  ASSERT_EQ(::getsockname(busy, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const std::string port = std::to_string(ntohs(address.sin_port));
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--client-port", "99999"}, "--client-port"},
      {{"--client-port", port}, port},
      {{"--port", port}, port},
      {{"--api-key-file", "/no/such/file"}, "--api-key-file"},
      {{"--api-key", ""}, "--api-key"},
      {{"--ssl-certfile", "/no/such/file"}, "--ssl-certfile"},
      {{"--ssl-keyfile", "/no/such/file"}, "--ssl-keyfile"},
      {{"--prompt-template", "summarize:"}, "--prompt-template"},
      {{"--tp", "2", "--cluster-port", port}, port},
      {{"--host", "203.0.113.7"}, "203.0.113.7"},
      {{"--tp", "0"}, "--tensor-parallel-size"},
      {{"--dp", "-1"}, "--data-parallel-size"},
      {{"--pp", "0"}, "--pipeline-parallel-size"},
      {{"--encoder-ranks", "-1"}, "--encoder-ranks"},
      {{"--pp", "5", "--distributed-executor-backend", "threads"}, "--pipeline-parallel-size"},
      {{"--pp", "2", "--pipeline-layers", "1,2,1"}, "--pipeline-layers"},
      {{"--pp", "2", "--draft-model", kTiny}, "--draft-model"},
      {{"--draft-model", kTiny, "--draft-dtype", "float8"}, "--draft-dtype"},
      {{"--distributed-executor-backend", "ray"}, "--distributed-executor-backend"},
      {{"--run-ahead", "99"}, "--run-ahead"},
      {{"--cpu-binding", "all"}, "--cpu-binding"},
      {{"--step-timeout", "-1"}, "--step-timeout"},
      {{"--worker-timeout", "0"}, "--worker-timeout"},
      {{"--startup-timeout", "nan"}, "--startup-timeout"},
      {{"--orphan-timeout", "-1"}, "--orphan-timeout"},
      {{"--max-requests", "0"}, "--max-requests"},
      {{"--tp", "2", "--hostfile", "/no/such/file"}, "--hostfile"},
      {{"--tp", "2", "--hostfile", "/dev/null", "--distributed-executor-backend", "processes"},
       "--hostfile"},
      {{"--tp", "2", "--worker-program", "/no/such/file"}, "--worker-program"},
      {{"--tp", "2", "--worker-program", "/dev/null"}, "--worker-program"},
      {{"--log-level", "loud"}, "--log-level"},
  };
  const auto serve = [&](const std::vector<std::string>& settings,
                         const std::vector<std::string>& flags, const std::string& word) {
    std::vector<std::string> command{"/usr/bin/env", "TMPDIR=" + dir.string(),
                                     "XDG_RUNTIME_DIR=" + dir.string()};
    command.insert(command.end(), settings.begin(), settings.end());
    command.insert(command.end(), {TANDEM_BINARY, "serve", kTiny});
    for (const char* flag : {"--port", "--client-port"})
      if (std::count(flags.begin(), flags.end(), flag) == 0)
        command.insert(command.end(), {flag, "0"});
    command.insert(command.end(), flags.begin(), flags.end());
    const ProcessResult r = testing::run_process(command, "", 20);
    // A port may be free the next time; nothing else mends itself.
    EXPECT_EQ(r.status, word == port ? 1 : 2) << word << r.err;
    EXPECT_NE(r.err.find(word), std::string::npos) << r.err;
    for (const auto& file : fs::recursive_directory_iterator(dir))
      EXPECT_TRUE(file.is_directory() && file.path().filename() == "tandem") << file.path();
  };
  for (const auto& [flags, word] : cases) serve({}, flags, word);
  serve({"PATH=/nowhere"}, {"--tp", "2", "--distributed-executor-backend", "mpi"}, "mpirun");
  serve({"TMPDIR=/no/such/directory"}, {"--tp", "2"}, "TMPDIR");
  EXPECT_EQ(tandem({"serve"}).status, 2);
  EXPECT_EQ(tandem({"serve", "/no/such/model", "--port", "0", "--client-port", "0"}).status, 2);
  EXPECT_EQ(tandem({"serve", kTiny, "--port", "many"}).status, 2);
  EXPECT_EQ(tandem({"serve", kTiny, "--max-body-size", "many"}).status, 2);
  ::close(busy);
  fs::remove_all(dir);
}

TEST(Cli, GeneratesPlainTextInOrder) {
  const std::vector<std::string> base{"generate", "--model",          kTiny, "--dtype",
                                      "float32",  "--max-new-tokens", "8"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), base.begin(), base.end());
    return tandem(more);
  };
  const ProcessResult a = with({"a lighthouse"}), b = with({"another text"});
  const ProcessResult both = with({"a lighthouse", "another text"});
  ASSERT_EQ(both.status, 0) << both.err;
  EXPECT_EQ(both.out, a.out + b.out);
  EXPECT_EQ(both.err, "");  // no progress bar where there is no terminal
}

TEST(Cli, EveryBadLineFailsAloneAndInOrder) {
  const std::string good = R"({"id": "good", "prompt": "text", "params": {"max_new_tokens": 4}})";
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"{", "JSON"},
      {"[1]", "object"},
      {R"({"id": 1})", "prompt"},
      {R"({"id": 1, "prompt": 5})", "prompt"},
      {R"({"id": 1, "prompt": "x", "promt": 1})", "promt"},
      {R"({"id": 1, "prompt": "x", "params": []})", "params"},
      {R"({"id": 1, "prompt": "x", "priority": "high"})", "priority"},
      {R"({"id": 1, "prompt": "x", "params": {"max_tokens": 0}})", "max_tokens"},
      {R"({"id": 1, "prompt": "x", "params": {"max_tokens": -1}})", "max_tokens"},
      {R"({"id": 1, "prompt": "x", "params": {"max_tokens": "many"}})", "max_tokens"},
      {R"({"id": 1, "prompt": "x", "params": {"n": 0}})", "n"},
      {R"({"id": 1, "prompt": "x", "params": {"n": -3, "do_sample": true}})", "n"},
      {R"({"id": 1, "prompt": "x", "params": {"n": 1000000000, "do_sample": true}})", "n"},
      {R"({"id": 1, "prompt": "x", "params": {"temprature": 1}})", "temprature"},
      {R"({"id": 1, "prompt": "x", "params": {"temperature": "hot", "do_sample": true}})",
       "temperature"},
      {R"({"id": 1, "prompt": {"prompt_token_ids": [0, 99999, 2]}})", "99999"},
      {R"({"id": 1, "prompt": {"prompt_token_ids": [0, -1, 2]}})", "-1"},
      {R"({"id": 1, "prompt": {"prompt_token_ids": []}})", "empty"},
      {"{\"id\": 1, \"prompt\": \"\xff\xfe\"}", "UTF-8"},
      {std::string(R"({"id": 1, "prompt": ")") + std::string(3000, 'x') + "\"}", "context length"},
      {std::string(5000, '[') + std::string(5000, ']'), "deep"},
  };
  std::string input = good + "\n";
  for (const auto& [line, word] : bad) input += line + "\n" + good + "\n";
  const ProcessResult r = generate(input);
  EXPECT_EQ(r.status, 1);
  const auto rows = test::json_lines(r.out);
  ASSERT_EQ(rows.size(), 2 * bad.size() + 1);
  for (size_t i = 0; i < bad.size(); ++i) {
    const json& row = rows[2 * i + 1];
    ASSERT_TRUE(row.contains("error")) << row;
    EXPECT_NE(row["error"]["message"].get<std::string>().find(bad[i].second), std::string::npos)
        << bad[i].first.substr(0, 80) << " → " << row;
    EXPECT_TRUE(row["error"].contains("type") && row["error"].contains("param"));
    EXPECT_EQ(rows[2 * i + 2]["outputs"], rows[0]["outputs"])
        << "a bad line disturbed its neighbour";
  }
}

TEST(Cli, ARequestThatCanNeverFitIsRefusedWithTheNumbers) {
  const ProcessResult r =
      generate(R"({"id": 1, "prompt": "one two three four five six seven eight"})"
               "\n",
               {"--block-size", "1", "--num-gpu-blocks-override", "4"});
  EXPECT_EQ(r.status, 1);
  const auto rows = test::json_lines(r.out);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0]["error"]["type"], "resource_error");
  EXPECT_NE(rows[0]["error"]["message"].get<std::string>().find("4"), std::string::npos);
}

TEST(Cli, CachesAndPrioritiesChangeNoResult) {
  std::string input;
  for (const int priority : {1, 0, -1})
    for (int i = 0; i < 2; ++i)
      input += json({{"prompt", "a text that comes again"},
                     {"priority", priority},
                     {"params", {{"max_new_tokens", 4}}}})
                   .dump() +
               "\n";
  std::vector<std::string> all;
  for (const auto& flags : std::vector<std::vector<std::string>>{
           {},
           {"--no-enable-encoder-cache", "--no-enable-prefix-caching"},
           {"--enable-encoder-cache", "--enable-prefix-caching", "--max-num-seqs", "1"}}) {
    const ProcessResult r = generate(input, flags);
    ASSERT_EQ(r.status, 0) << r.err;
    for (const json& row : test::json_lines(r.out)) all.push_back(row.at("outputs").dump());
  }
  ASSERT_EQ(all.size(), 18u);
  for (const std::string& outputs : all) EXPECT_EQ(outputs, all[0]);
}

TEST(Cli, TruncatesLongPromptsOnRequestAndKeepsTheEndToken) {
  const std::string text(3000, 'x');
  const ProcessResult r =
      generate(json({{"id", 1},
                     {"prompt", text},
                     {"params", {{"truncate_prompt_tokens", 20}, {"max_new_tokens", 3}}}})
                   .dump() +
               "\n");
  ASSERT_EQ(r.status, 0) << r.out;
  const auto ids = test::json_lines(r.out)[0]["encoder_prompt_token_ids"].get<std::vector<int>>();
  EXPECT_EQ(ids.size(), 20u);
  EXPECT_EQ(ids.front(), 0);
  EXPECT_EQ(ids.back(), 2);
}

TEST(Cli, EmptyInputs) {
  EXPECT_EQ(generate("").status, 0);
  EXPECT_EQ(generate("\n\n").status, 0);
  EXPECT_EQ(tandem({"generate", "--model", kTiny}).status, 2);
  EXPECT_EQ(tandem({"generate", "--model", kTiny, "--input", "/no/such/file"}).status, 2);
  EXPECT_EQ(tandem({"generate", "--model", kTiny, "--input", "/tmp"}).status, 2);
}

TEST(Cli, EncodeWritesJsonAndNpy) {
  const ProcessResult r =
      tandem({"encode", "--model", kTiny, "--dtype", "float32", "one text", "two"});
  ASSERT_EQ(r.status, 0) << r.err;
  const auto rows = test::json_lines(r.out);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["embedding"].size(), 64u);
  const fs::path file = fs::temp_directory_path() / ("tandem-" + std::to_string(getpid()) + ".npy");
  EXPECT_EQ(
      tandem({"encode", "--model", kTiny, "--format", "npy", "--output", file.string(), "a", "b"})
          .status,
      0);
  std::ifstream in(file, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  EXPECT_EQ(bytes.substr(0, 6), "\x93NUMPY");
  EXPECT_NE(bytes.find("'shape': (2, 64)"), std::string::npos);
  EXPECT_EQ(bytes.size() % 64, 2 * 64 * 4 % 64u);
  fs::remove(file);
  // A failure leaves nothing behind.
  EXPECT_EQ(tandem({"encode", "--model", kTiny, "--output", "/no/such/dir/x.json", "a"}).status, 2);
}

TEST(Cli, InspectTellsWhatACheckpointIs) {
  const ProcessResult r = tandem({"inspect", kTiny});
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_NE(r.out.find("BartForConditionalGeneration"), std::string::npos);
  EXPECT_EQ(tandem({"inspect", "/no/such/dir"}).status, 2);
}

// Also where they would make a number of ranks that needs no cluster.
TEST(Cli, GenerateChecksRanks) {
  for (const auto& [flag, value] :
       {std::pair{"--pp", "0"}, {"--encoder-ranks", "-1"}, {"--encoder-ranks", "-3"}}) {
    const ProcessResult r = tandem({"generate", "--model", kTiny, flag, value, "A text."});
    EXPECT_EQ(r.status, 2) << flag << r.out;
    EXPECT_NE(r.err.find("out of range"), std::string::npos) << r.err;
  }
}

TEST(Cli, InspectTellsWhatEachRankHolds) {
  const ProcessResult r = tandem({"inspect", kTiny, "--pp", "3", "--pipeline-layers", "2,1,1"});
  ASSERT_EQ(r.status, 0) << r.err;
  for (const char* line : {"rank 0: encoder layers 0 to 1, ", "rank 1: decoder layer 0, ",
                           "rank 2: decoder layer 1, ", "weights on each rank: "})
    EXPECT_NE(r.out.find(line), std::string::npos) << line << "\n" << r.out;
  EXPECT_EQ(tandem({"inspect", kTiny}).out.find("stage"), std::string::npos);
  const ProcessResult json = tandem({"inspect", kTiny, "--pp", "2", "--tp", "2", "--json"});
  ASSERT_EQ(json.status, 0) << json.err;
  const auto stages = json_from<nlohmann::json>(json.out).at("stages");
  ASSERT_EQ(stages.size(), 2u);
  EXPECT_EQ(stages[1].at("ranks"), (std::vector<int>{2, 3}));
  const ProcessResult many = tandem({"inspect", kTiny, "--pp", "5"});
  EXPECT_EQ(many.status, 2);
  EXPECT_NE(many.err.find("--pipeline-parallel-size"), std::string::npos) << many.err;
}

TEST_F(DamagedCheckpoint, TruncatedWeights) {
  fs::resize_file(dir_ / "model.safetensors", 5000);
  expect_error({"model.safetensors"});
}

TEST_F(DamagedCheckpoint, MissingFiles) {
  fs::remove(dir_ / "model.safetensors");
  expect_error({"model.safetensors"});
  fs::remove(dir_ / "config.json");
  expect_error({"config.json"});
}

TEST_F(DamagedCheckpoint, MissingTokenizer) {
  fs::remove(dir_ / "tokenizer.json");
  fs::remove(dir_ / "vocab.json");
  expect_error({"tokenizer.json"});
}

TEST_F(DamagedCheckpoint, MalformedConfig) {
  write("config.json", "{\"architectures\": [");
  expect_error({"config.json"});
}

TEST_F(DamagedCheckpoint, UnknownArchitecture) {
  edit_config("architectures", json::array({"GptForever"}));
  edit_config("model_type", "gpt-forever");
  expect_error({"GptForever", "by model_type: bart, "});
}

TEST_F(DamagedCheckpoint, WrongShapeNamesTheTensor) {
  edit_config("encoder_ffn_dim", 96);
  expect_error({"fc1", "[128, 64]", "[96, 64]"});
}

TEST_F(DamagedCheckpoint, MissingAndUnreadTensorsAreNamed) {
  edit_config("encoder_layers", 3);
  expect_error({"encoder.layers.2."});
  edit_config("encoder_layers", 1);
  const ProcessResult r = tandem({"generate", "--model", dir_.string(), "some text"});
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_NE(r.err.find("16 tensor(s)"), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("encoder.layers.1."), std::string::npos) << r.err;
}

TEST_F(DamagedCheckpoint, MalformedTokenizer) {
  write("tokenizer.json", "{\"model\": {\"type\": \"BPE\"");
  expect_error({"tokenizer.json"});
}

}  // namespace
}  // namespace tandem
