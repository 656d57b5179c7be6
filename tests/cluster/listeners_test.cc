// What the server and everything that it starts listen on, in every way in which ranks run: the
// addresses that were told, the ports that were announced, and nothing else at any time.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/processes/cluster_cases.h"

namespace tandem::test::listeners_test {
namespace {

using Names = std::set<std::string>;  // address:port

// All that it says it listens on.
Names announced(const Program& server) {
  const std::string log = server.log();
  const std::regex words("(?:listening on|workers connect to|HTTP at http://) ?([0-9.]+:[0-9]+)");
  Names out;
  for (std::sregex_iterator it(log.begin(), log.end(), words), end; it != end; ++it)
    out.insert((*it)[1]);
  return out;
}

Names open_ports(const std::vector<pid_t>& pids) {
  Names out;
  for (const Listener& l : listeners(pids)) out.insert(l.name());
  return out;
}

// Adds what is open until that has been logged and all is seen that was announced: what is open for
// a while only is not missed, and the kernel's table may lack a line while others' sockets come and
// go.
void watch_until(const Program& server, const std::string& logged, int times, Names& seen) {
  const auto all = [&] {
    const bool there = server.count_in_log(logged) >= times;
    const Names told = announced(server);
    seen.merge(open_ports(server.processes()));
    return there && std::includes(seen.begin(), seen.end(), told.begin(), told.end());
  };
  EXPECT_TRUE(eventually(60s, all)) << logged << "\n" << server.log();
}

std::vector<std::string> serve_command(std::vector<std::string> flags) {
  const std::vector<std::string> start{TANDEM_BINARY,
                                       "serve",
                                       golden("bart-tiny").string(),
                                       "--threads",
                                       "1",
                                       "--port",
                                       "0",
                                       "--client-port",
                                       "0",
                                       "--kv-cache-memory",
                                       "16MiB",
                                       "--cluster-port",
                                       "0"};
  flags.insert(flags.begin(), start.begin(), start.end());
  return flags;
}

// The server and its workers from the start until they are ready, and once more after a rank was
// lost, where one can be.
void expect_announced_only(const std::vector<std::string>& flags, size_t ports,
                           const std::string& host = "127.0.0.1",
                           const std::string& cluster_host = "127.0.0.1") {
  SCOPED_TRACE(flags.empty() ? "defaults" : flags[0] + " " + flags[1]);
  // Without a mpirun, none can be started.
  Program server(serve_command(flags), {"PATH=/nowhere"});
  Names seen;
  watch_until(server, "] ready\n", 1, seen);
  const auto workers = [&] {
    std::vector<pid_t> out;
    for (const pid_t pid : server.processes())
      if (pid != server.pid()) out.push_back(pid);
    return out;
  };
  if (!workers().empty()) {
    const int ups = server.count_in_log(": up, generation");
    kill(workers().front(), SIGKILL);
    watch_until(server, ": up, generation", ups + 1, seen);
  }
  const Names told = announced(server);
  EXPECT_EQ(seen, told);
  EXPECT_EQ(told.size(), ports) << server.log();
  EXPECT_EQ(open_ports(workers()), Names());
  for (const std::string& name : told)
    EXPECT_TRUE(name.rfind(host + ":", 0) == 0 || name.rfind(cluster_host + ":", 0) == 0) << name;
  server.signal(SIGTERM);
  EXPECT_EQ(server.wait(30s).value_or(-1), 0) << server.log();
  server.expect_nothing_left();
}

TEST(Listeners, OfThreads) {
  expect_announced_only({}, 2);
  expect_announced_only({"--tp", "2", "--distributed-executor-backend", "threads"}, 2);
}

TEST(Listeners, OfProcesses) {
  expect_announced_only({"--tensor-parallel-size", "2"}, 3);
  expect_announced_only({"--data-parallel-size", "2"}, 3);
  expect_announced_only({"--distributed-executor-backend", "mp"}, 3);
}

TEST(Listeners, AreWhereTheyAreTold) {
  expect_announced_only({"--tp", "2", "--host", "127.0.0.2", "--cluster-host", "127.0.0.3"}, 3,
                        "127.0.0.2", "127.0.0.3");
}

TEST(Listeners, OfWorkersThatJoin) {
  Server server({"--tp", "2", "--distributed-executor-backend", "join"}, {}, /*wait=*/false);
  ASSERT_TRUE(server.logged("workers connect to", 10s));
  const std::vector<std::string> command{
      TANDEM_BINARY,   "worker",
      "--connect",     "127.0.0.1:" + std::to_string(server.cluster_port()),
      "--access-file", server.access_file(server.cluster_port())};
  Program one(command), other(command);
  Names seen, of_workers;
  EXPECT_TRUE(eventually(20s, [&] {
    for (const Program* worker : {&one, &other}) of_workers.merge(open_ports(worker->processes()));
    return server.count_in_log("] ready\n") > 0;
  })) << server.log();
  watch_until(server, "] ready\n", 1, seen);
  EXPECT_EQ(seen, announced(server));
  EXPECT_EQ(seen.size(), 2u);
  EXPECT_EQ(of_workers, Names());
  server.signal(SIGTERM);
  EXPECT_EQ(server.wait(20s).value_or(-1), 0);
}

}  // namespace
}  // namespace tandem::test::listeners_test
