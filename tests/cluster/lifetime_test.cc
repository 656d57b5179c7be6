// However a run ends, and at whatever moment, nothing of it stays: no process, file or segment.
#include <gtest/gtest.h>

#include <random>

#include "tests/support/processes/cluster_cases.h"

namespace tandem::test::lifetime_test {
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

// With one rank or two, in a process of its own or not; the next one has one rank, a thread.
TEST(Killed, ServersFilesAreSweptByTheNext) {
  Server living({});
  const Program::Environment same = {"TMPDIR=" + living.tmp().string(),
                                     "XDG_RUNTIME_DIR=" + living.run().string()};
  const auto files = [&] {
    std::set<std::string> out = files_in(living.run());
    for (const auto& entry : std::filesystem::directory_iterator(living.tmp()))
      out.insert(entry.path().string());
    return out;
  };
  const auto of_the_living = files();
  EXPECT_EQ(of_the_living.size(), 1u);
  for (const char* ranks : {"1", "2"}) {
    Server killed({"--tp", ranks, "--distributed-executor-backend", "processes"}, same);
    EXPECT_GE(files().size(), 4u);  // two access files, a run's directory
    killed.signal(SIGKILL);
    EXPECT_EQ(killed.wait(5s).value_or(-1), 128 + SIGKILL);
  }
  EXPECT_GE(files().size(), 3u);
  {
    Server next({}, same);
    auto expected = of_the_living;
    expected.insert(
        (living.run() / "tandem" / ("client-" + std::to_string(next.port()) + ".json")).string());
    EXPECT_EQ(files(), expected);
    next.signal(SIGTERM);
    EXPECT_EQ(next.wait(30s).value_or(-1), 0);
  }
  EXPECT_EQ(files(), of_the_living);
  auto client = client::Client::connect(living.client_options());
  EXPECT_EQ(client.server_info().replicas_size(), 1);
  client.close();
  living.expect_clean_end();
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

// A worker that freezes before it is ready is replaced long before --startup-timeout (600 s).
TEST(Frozen, BeforeItHasSaidHello) {
  Server server({"--distributed-executor-backend", "mpi", "--worker-timeout", "1"}, {},
                /*wait=*/false);
  ASSERT_TRUE(eventually(10s, [&] { return !server.workers().empty(); }));
  const pid_t victim = server.workers().front();
  kill(victim, SIGSTOP);
  ASSERT_TRUE(server.logged("] ready\n", 40s));
  EXPECT_EQ(server.ups(), 1);
  EXPECT_TRUE(eventually(2s, [&] { return !is_alive(victim); }));
  server.expect_clean_end();
}

// The signal finds each of them where it hangs by itself, but for its connection.
TEST(Frozen, WhileItLoadsOrStarts) {
  for (const char* where : {"hang-loading", "hang-starting"}) {
    SCOPED_TRACE(where);
    TempDir marks;
    Server server({"--tp", "2", "--worker-timeout", "2", "--worker-program", FAULTY_WORKER_BINARY},
                  {"TANDEM_FAULT=" + std::string(where), "TANDEM_FAULT_RANK=1",
                   "TANDEM_FAULT_MARKS=" + marks.path().string()},
                  /*wait=*/false);
    ASSERT_TRUE(eventually(30s, [&] { return !files_in(marks.path()).empty(); })) << server.log();
    // It hangs, but lives: its time is the startup's.
    std::this_thread::sleep_for(4s);
    EXPECT_EQ(server.count_in_log("did not come up"), 0);
    const auto start = Clock::now();
    for (const pid_t pid : server.workers()) kill(pid, SIGSTOP);
    ASSERT_TRUE(server.logged("did not come up", 10s)) << server.log();
    EXPECT_LT(Clock::now() - start, 8s);
    ASSERT_TRUE(server.logged("] ready\n", 30s));
    server.expect_clean_end();
  }
}

// Loading that takes longer than --worker-timeout is waited for.
TEST(Frozen, IsNotWhoLoadsForLong) {
  TempDir marks;
  Server server({"--tp", "2", "--worker-timeout", "1", "--worker-program", FAULTY_WORKER_BINARY},
                {"TANDEM_FAULT=slow-loading", "TANDEM_FAULT_MARKS=" + marks.path().string()});
  EXPECT_EQ(files_in(marks.path()).size(), 1u);
  EXPECT_EQ(server.count_in_log("did not come up"), 0);
  EXPECT_EQ(server.count_in_log("generation 1, "), 1);
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
}  // namespace tandem::test::lifetime_test
