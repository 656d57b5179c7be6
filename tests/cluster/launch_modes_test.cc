// The ways in which ranks come to be: threads, processes of the launcher, a mpirun inside or
// outside, workers that join. One set of tokens.
#include <gtest/gtest.h>

#include "base/json.h"
#include "tests/support/processes/cluster_cases.h"

namespace tandem::test::launch_modes_test {
namespace {

using nlohmann::json;

json ids_of(const proto::PromptPart& part) {
  return std::vector<int32_t>(part.token_ids().ids().begin(), part.token_ids().ids().end());
}

std::string golden_lines() {
  std::string out;
  for (const LoadCase& c : sound_cases())
    out += json{{"id", c.name},
                {"prompt",
                 {{"encoder_prompt", ids_of(c.request.prompt.message().encoder())},
                  {"decoder_prompt", ids_of(c.request.prompt.message().decoder())}}},
                {"params", json_from<json>(c.request.params_json)}}
               .dump() +
           "\n";
  return out;
}

// The lines of results, in the order of the cases.
void expect_tokens(const std::string& out) {
  std::istringstream in(out);
  std::string line;
  for (const LoadCase& c : sound_cases()) {
    ASSERT_TRUE(std::getline(in, line)) << c.name;
    const json result = json_from<json>(line);
    ASSERT_TRUE(result.contains("outputs")) << line;
    std::vector<std::vector<int32_t>> tokens;
    for (const json& o : result["outputs"]) tokens.push_back(o["token_ids"]);
    EXPECT_EQ(tokens, c.expected) << c.name;
  }
}

std::vector<std::string> generate_command(const std::vector<std::string>& flags) {
  std::vector<std::string> out{TANDEM_BINARY,
                               "generate",
                               "--jsonl",
                               "--model",
                               golden("bart-tiny").string(),
                               "--dtype",
                               "float32",
                               "--kv-cache-memory",
                               "16MiB",
                               "--threads",
                               "1"};
  out.insert(out.end(), flags.begin(), flags.end());
  return out;
}

void expect_run(std::vector<std::string> command) {
  Program program(std::move(command), {}, golden_lines());
  EXPECT_EQ(program.wait(60s).value_or(-1), 0) << program.log();
  expect_tokens(program.out());
  program.expect_nothing_left();
}

TEST(LaunchModes, Threads) {
  expect_run(generate_command({}));
  expect_run(generate_command({"--tp", "4", "--distributed-executor-backend", "threads"}));
}

TEST(LaunchModes, OwnProcesses) { expect_run(generate_command({"--tp", "2", "--dp", "2"})); }

TEST(LaunchModes, ThroughMpirun) {
  expect_run(generate_command({"--tp", "2", "--dp", "2", "--distributed-executor-backend", "mpi"}));
}

TEST(LaunchModes, HostFile) {
  TempDir dir;
  dir.write("hosts", "localhost slots=2\n");
  const std::string hosts = (dir / "hosts").string();
  for (const char* ranks : {"1", "2"}) {
    Program program(generate_command({"--tp", ranks, "--hostfile", hosts}), {}, golden_lines());
    EXPECT_EQ(program.wait(60s).value_or(-1), 0) << program.log();
    expect_tokens(program.out());
    EXPECT_NE(program.log().find("mpirun listens on every address"), std::string::npos);
    program.expect_nothing_left();
  }
}

TEST(LaunchModes, UnderAnOuterMpirun) {
  for (const auto& [ranks, flags] : std::vector<std::pair<std::string, std::vector<std::string>>>{
           {"2", {}}, {"4", {"--dp", "2"}}}) {
    SCOPED_TRACE(ranks);
    std::vector<std::string> command{MPIEXEC, "--oversubscribe", "--bind-to", "none", "-n", ranks};
    const auto inner = generate_command(flags);
    command.insert(command.end(), inner.begin(), inner.end());
    expect_run(std::move(command));
  }
}

TEST(LaunchModes, AnOuterMpirunWithABadFlagEnds) {
  std::vector<std::string> command{MPIEXEC, "--oversubscribe", "--bind-to", "none", "-n", "2"};
  for (const std::string& word : generate_command({"--dp", "3"})) command.push_back(word);
  Program program(std::move(command));
  EXPECT_GT(program.wait(20s).value_or(-1), 0) << program.log();  // that of either rank
  EXPECT_NE(program.log().find("--tensor-parallel-size"), std::string::npos) << program.log();
  program.expect_nothing_left();
}

TEST(LaunchModes, WorkersThatJoin) {
  Server server({"--tp", "2", "--distributed-executor-backend", "join", "--max-restarts", "100"},
                {}, /*wait=*/false);
  ASSERT_TRUE(server.logged("workers connect to", 10s));
  const std::vector<std::string> command{
      TANDEM_BINARY,   "worker",
      "--connect",     "127.0.0.1:" + std::to_string(server.cluster_port()),
      "--access-file", server.access_file(server.cluster_port())};
  std::vector<std::unique_ptr<Program>> workers;
  const auto add = [&] { workers.push_back(std::make_unique<Program>(command)); };
  add();
  add();
  ASSERT_TRUE(server.logged("] ready\n", 20s)) << server.log();
  auto client = client::Client::connect(server.client_options());
  Load load(client, sound_cases(), 50);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(load.progress(20));
    workers.front()->signal(SIGKILL);
    workers.front()->wait(5s);
    workers.erase(workers.begin());
    add();  // the other one comes back by itself
    ASSERT_TRUE(server.logged(": up, generation", 20s, i + 2)) << server.log();
  }
  load.expect_all_well();
  expect_idle(client);
  client.close();
  server.signal(SIGTERM);
  EXPECT_EQ(server.wait(20s).value_or(-1), 0);
  for (auto& worker : workers) {
    EXPECT_TRUE(worker->wait(10s).has_value());
    worker->expect_nothing_left();
  }
  server.expect_nothing_left();
}

}  // namespace
}  // namespace tandem::test::launch_modes_test
