// However a run ends, and at whatever moment, nothing of it stays: no process, file or segment.
#include <gtest/gtest.h>

#include <random>

#include "tests/support/cluster_cases.h"

namespace tandem::test {
namespace {

// How ranks run as processes that the server starts.
constexpr const char* kBackends[] = {"processes", "mpi"};

void kill_under_load(const std::string& backend) {
  SCOPED_TRACE(backend);
  Server server({"--tp", "2", "--dp", "2", "--distributed-executor-backend", backend});
  {
    client::ClientOptions options = server.client_options();
    options.reconnect_timeout = 0ms;
    auto client = client::Client::connect(options);
    Load load(client, sound_cases(), 50);
    load.allow_error("connection_error");
    EXPECT_TRUE(load.progress(20));
    EXPECT_EQ(server.workers().size(), 4u);
    server.signal(SIGKILL);
    EXPECT_EQ(server.wait(5s).value_or(-1), 128 + SIGKILL);
    EXPECT_TRUE(eventually(2s, [&] { return server.processes().empty(); }));
    load.expect_all_well();
  }
  for (const pid_t pid : server.processes()) ADD_FAILURE() << pid << " is left";
  // A killed process removes nothing; the next one of the user does.
  Server next({"--distributed-executor-backend", "mpi"}, {"TMPDIR=" + server.tmp().string()});
  next.signal(SIGTERM);
  EXPECT_EQ(next.wait(30s).value_or(-1), 0);
  EXPECT_EQ(files_in(server.tmp()), std::set<std::string>());
}

TEST(Killed, EngineUnderLoadLeavesNoProcess) {
  for (const char* backend : kBackends) kill_under_load(backend);
}

TEST(Killed, EngineLeavesNoStoppedWorker) {
  for (const char* backend : kBackends) {
    SCOPED_TRACE(backend);
    Server server({"--tp", "2", "--distributed-executor-backend", backend});
    const auto workers = server.workers();
    ASSERT_EQ(workers.size(), 2u);
    kill(workers[1], SIGSTOP);
    server.signal(SIGKILL);
    EXPECT_EQ(server.wait(5s).value_or(-1), 128 + SIGKILL);
    EXPECT_TRUE(eventually(2s, [&] { return server.processes().empty(); }));
  }
}

// Stopped before anybody has heard of them.
TEST(Killed, WorkersThatAreStoppedWhileTheyLoad) {
  for (const char* backend : kBackends) {
    SCOPED_TRACE(backend);
    Server server(
        {"--tp", "2", "--startup-timeout", "3", "--distributed-executor-backend", backend}, {},
        /*wait=*/false);
    ASSERT_TRUE(eventually(10s, [&] { return !server.workers().empty(); }));
    const pid_t victim = server.workers().front();
    kill(victim, SIGSTOP);
    ASSERT_TRUE(server.logged("] ready\n", 30s));
    // If it was quicker than the signal, it is missed after --worker-timeout only.
    EXPECT_TRUE(eventually(15s, [&] { return !is_alive(victim); }));
    server.expect_clean_end();
  }
}

// A worker program may be one that stays beside the rank which it starts.
TEST(Killed, WrappersEndWithTheirRanks) {
  TempDir dir;
  const std::string wrapper = (dir / "wrapper").string();
  dir.write("wrapper", "#!/bin/sh\n" TANDEM_BINARY " \"$@\" &\nwait $!\n");
  std::filesystem::permissions(wrapper, std::filesystem::perms::owner_all);
  Server server({"--tp", "2", "--worker-program", wrapper});
  const auto workers = server.workers();
  ASSERT_EQ(workers.size(), 2u);
  EXPECT_EQ(server.processes().size(), 5u);
  kill(workers[1], SIGKILL);
  ASSERT_TRUE(server.logged(": up, generation", 20s, 2)) << server.log();
  for (const pid_t pid : workers) EXPECT_FALSE(is_alive(pid));
  EXPECT_EQ(server.processes().size(), 5u);
  server.expect_clean_end();
}

// At moments from the first milliseconds to the end of loading.
TEST(Interrupted, WhileLoading) {
  std::mt19937 random(7);
  for (const char* backend : kBackends) {
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGINT, SIGKILL, SIGKILL, SIGKILL, SIGINT}) {
      SCOPED_TRACE(backend + std::string(", signal ") + std::to_string(number));
      Server server({"--tp", "2", "--dp", "2", "--distributed-executor-backend", backend}, {},
                    /*wait=*/false);
      ASSERT_TRUE(server.logged("starting", 10s));
      std::this_thread::sleep_for(std::chrono::milliseconds(random() % 400));
      server.signal_group(number);
      const auto status = server.wait(10s);
      EXPECT_EQ(status.value_or(-1), number == SIGKILL ? 128 + SIGKILL : 0);
      EXPECT_TRUE(eventually(2s, [&] { return server.processes().empty(); }));
      if (number != SIGKILL) server.expect_nothing_left();
    }
  }
}

TEST(Interrupted, GenerateInAClusterOfItsOwn) {
  std::string lines;
  for (int i = 0; i < 20000; ++i)
    lines += R"({"prompt": "text", "params": {"max_new_tokens": 100, "ignore_eos": true}})"
             "\n";
  for (const int number : {SIGINT, SIGTERM}) {
    Program generate({TANDEM_BINARY, "generate", "--jsonl", "--model", golden("bart-tiny").string(),
                      "--tp", "2", "--kv-cache-memory", "16MiB"},
                     {}, lines);
    ASSERT_TRUE(eventually(30s, [&] { return !generate.out().empty(); })) << generate.log();
    generate.signal(number);
    EXPECT_EQ(generate.wait(10s).value_or(-1), 128 + number);
    generate.expect_nothing_left();
  }
}

}  // namespace
}  // namespace tandem::test
