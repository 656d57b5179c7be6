// Workers that misbehave in every way that is known: the group is replaced and every request ends
// as if nothing had been.
#include <gtest/gtest.h>

#include "tests/support/processes/cluster_cases.h"

namespace tandem::test::worker_faults_test {
namespace {

constexpr int kFaultStreams = 50;

// A server whose workers have that fault; `times` of them, then they are sound.
struct FaultyServer {
  TempDir marks;
  Server server;

  FaultyServer(const std::string& fault, const std::vector<std::string>& more_flags = {},
               std::vector<std::string> environment = {}, bool wait = true)
      : server(flags(more_flags), with(environment, fault, marks.path().string()), wait) {}

  static std::vector<std::string> flags(std::vector<std::string> more) {
    more.insert(more.end(), {"--tp", "2", "--worker-program", FAULTY_WORKER_BINARY});
    return more;
  }
  static std::vector<std::string> with(std::vector<std::string> environment,
                                       const std::string& fault, const std::string& marks) {
    environment.insert(environment.begin(),
                       {"TANDEM_FAULT=" + fault, "TANDEM_FAULT_MARKS=" + marks});
    return environment;
  }
  int faults() const { return static_cast<int>(files_in(marks.path()).size()); }
};

void run_load_until(FaultyServer& faulty, int faults) {
  auto client = client::Client::connect(faulty.server.client_options());
  Load load(client, sound_cases(), kFaultStreams);
  EXPECT_TRUE(eventually(30s, [&] { return faulty.faults() >= faults; }));
  EXPECT_TRUE(faulty.server.logged(": up, generation", 30s, faults + 1));
  EXPECT_TRUE(load.progress(kFaultStreams));
  load.expect_all_well();
}

class FaultInAStep : public ::testing::TestWithParam<const char*> {};

TEST_P(FaultInAStep, NothingOfItReachesAStream) {
  sound_cases();
  // After two crashes a request that was there both times would be refused, rightly.
  const std::string fault = GetParam();
  const int times = fault == "segv" || fault == "throw" ? 1 : 2;
  FaultyServer faulty(GetParam(), {"--step-timeout", "1"},
                      {"TANDEM_FAULT_TIMES=" + std::to_string(times)});
  run_load_until(faulty, times);
  faulty.server.report_recovery(GetParam());
  faulty.server.expect_clean_end();
}

INSTANTIATE_TEST_SUITE_P(Faults, FaultInAStep,
                         ::testing::Values("garbage-token", "garbage-negative", "garbage-step",
                                           "garbage-empty", "garbage-twice", "garbage-sequence",
                                           "garbage-request", "garbage-bytes", "hang", "throw",
                                           "segv", "exit"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// Rank 1 answers nothing; what it does wrong shows at rank 0 only.
TEST(FaultOfAnotherRank, IsNoticedToo) {
  sound_cases();
  for (const char* fault : {"hang", "throw", "segv"}) {
    SCOPED_TRACE(fault);
    FaultyServer faulty(fault, {"--step-timeout", "1"}, {"TANDEM_FAULT_RANK=1"});
    run_load_until(faulty, 1);
    faulty.server.report_recovery(std::string("rank 1: ") + fault);
    faulty.server.expect_clean_end();
  }
}

TEST(SlowWorker, IsWaitedFor) {
  sound_cases();
  FaultyServer faulty("slow", {"--step-timeout", "2", "--worker-timeout", "1"},
                      {"TANDEM_FAULT_RANK=1"});
  auto client = client::Client::connect(faulty.server.client_options());
  Load load(client, sound_cases(), kFaultStreams);
  EXPECT_TRUE(load.progress(2 * kFaultStreams));
  load.expect_all_well();
  EXPECT_EQ(faulty.server.ups(), 1);
  faulty.server.expect_clean_end();
}

TEST(WorkerThatFailsWhileLoading, IsTriedAgain) {
  sound_cases();
  for (const char* fault : {"fail-loading", "hang-loading"}) {
    SCOPED_TRACE(fault);
    FaultyServer faulty(fault, {"--startup-timeout", "2"}, {"TANDEM_FAULT_TIMES=2"});
    EXPECT_EQ(faulty.faults(), 2);
    auto client = client::Client::connect(faulty.server.client_options());
    Load load(client, sound_cases(), kFaultStreams);
    EXPECT_TRUE(load.progress(kFaultStreams));
    load.expect_all_well();
    faulty.server.expect_clean_end();
  }
}

// It ends before anybody has heard of it.
TEST(WorkerThatCannotStart, IsNoticedAtOnce) {
  TempDir dir;
  dir.write("broken", "#!/bin/sh\ncase \"$*\" in *'--rank 1'*) exit 3 ;; esac\nsleep 60\n");
  dir.write("unreadable", "#!/no/such/interpreter\n");
  for (const auto& [program, how] : {std::pair("broken", "rank 1 ended with status 3"),
                                     std::pair("unreadable", "ended with status 127")}) {
    SCOPED_TRACE(program);
    std::filesystem::permissions(dir / program, std::filesystem::perms::owner_all);
    const auto start = Clock::now();
    Server server(
        {"--tp", "2", "--max-restarts", "2", "--worker-program", (dir / program).string()}, {},
        /*wait=*/false);
    EXPECT_NE(server.wait(20s).value_or(0), 0);
    EXPECT_LT(Clock::now() - start, 10s);
    EXPECT_GE(server.count_in_log(how), 3) << server.log();
    server.expect_nothing_left();
  }
}

TEST(WorkerThatRefusesTheModel, EndsTheServer) {
  FaultyServer faulty("bad-model", {}, {}, /*wait=*/false);
  EXPECT_EQ(faulty.server.wait(20s).value_or(-1), 2);
  EXPECT_NE(faulty.server.log().find("made to refuse"), std::string::npos);
  faulty.server.expect_nothing_left();
}

TEST(TooManyRestarts, EndTheServer) {
  sound_cases();
  FaultyServer faulty("exit", {"--max-restarts", "2"},
                      {"TANDEM_FAULT_TIMES=1000", "TANDEM_FAULT_STEP=3"});
  auto client = client::Client::connect(faulty.server.client_options());
  Load load(client, sound_cases(), kFaultStreams);
  load.allow_error("unavailable_error");
  load.allow_error("connection_error");  // the server is gone
  EXPECT_EQ(faulty.server.wait(20s).value_or(-1), 70);
  faulty.server.expect_nothing_left();
  client.close();
  load.expect_all_well();
  EXPECT_GT(load.errors("unavailable_error"), 0);
}

// Workers die by their own doing whenever they see a certain request: that one is refused, after
// the second time, and the others, which were in its steps, are not.
TEST(PoisonousRequest, IsRefusedAndTheOthersGoOn) {
  const int poison = 1999;
  sound_cases();
  for (const auto& [fault, rank] :
       {std::pair("poison", "0"), std::pair("poison", "1"), std::pair("poison-overflow", "1")}) {
    SCOPED_TRACE(std::string(fault) + ", rank " + rank);
    FaultyServer faulty(
        fault, {"--max-restarts", "100"},
        {"TANDEM_FAULT_TOKEN=" + std::to_string(poison), std::string("TANDEM_FAULT_RANK=") + rank});
    auto client = client::Client::connect(faulty.server.client_options());
    Load load(client, sound_cases(), kFaultStreams);
    EXPECT_TRUE(load.progress(kFaultStreams));
    client::Request request;
    request.prompt = client::Prompt::token_ids({0, 5, poison, 7, 2});
    const auto handle = client.submit(request);
    ASSERT_TRUE(handle.wait_for(30s));
    try {
      handle.get();
      ADD_FAILURE() << "it was served";
    } catch (const client::ClientError& e) {
      EXPECT_EQ(e.type(), "internal_error") << e.what();
    }
    EXPECT_TRUE(load.progress(2 * kFaultStreams));
    load.expect_all_well();
    EXPECT_EQ(faulty.server.ups(), 3) << "two crashes";
    faulty.server.report_recovery(fault);
    faulty.server.expect_clean_end();
  }
}

}  // namespace
}  // namespace tandem::test::worker_faults_test
