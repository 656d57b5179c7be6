// Want of threads, memory, descriptors or stack: one line that says so, and an exit; or it serves.
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/support/processes/server.h"

namespace tandem::test::resources_test {
namespace {

// A user without any processes, each time another: those of an earlier test may still be ending.
uid_t poor_user() {
  static unsigned count = 0;
  return 100'000 + (static_cast<unsigned>(getpid()) * 64 + count++) % 900'000;
}

struct Scarcity {
  const char* name;
  std::vector<std::string> limit;  // for prlimit(1)
  std::vector<std::string> flags = {};
  bool as_user = false;  // root's processes are not counted
};

class Want : public ::testing::TestWithParam<Scarcity> {
 protected:
  void SetUp() override {
    if (!GetParam().as_user) return;
    if (getuid() != 0) GTEST_SKIP() << "needs root, to be another user";
    for (const auto& dir : {tmp_ / "tmp", tmp_ / "run"}) {
      std::filesystem::create_directory(dir);
      ASSERT_EQ(chown(dir.c_str(), user_, user_), 0);
      ASSERT_EQ(chmod(dir.c_str(), 0700), 0);
    }
    ASSERT_EQ(chmod(tmp_.path().c_str(), 0755), 0);
    Program look(as_user({"test", "-x", TANDEM_BINARY, "-a", "-r", model() + "/config.json"}));
    if (look.wait(30s).value_or(-1) != 0)
      GTEST_SKIP() << "another user cannot read " << TANDEM_BINARY;
  }

  static std::string model() { return golden("bart-tiny").string(); }
  std::vector<std::string> as_user(std::vector<std::string> command) const {
    const std::string id = std::to_string(user_);
    command.insert(command.begin(),
                   {"setpriv", "--reuid", id, "--regid", id, "--clear-groups", "--"});
    return command;
  }
  std::vector<std::string> limited(std::vector<std::string> command) const {
    const Scarcity& s = GetParam();
    command.insert(command.end(), s.flags.begin(), s.flags.end());
    if (s.as_user) command = as_user(command);
    std::vector<std::string> out{"prlimit"};
    out.insert(out.end(), s.limit.begin(), s.limit.end());
    out.push_back("--");
    out.insert(out.end(), command.begin(), command.end());
    return out;
  }
  Program::Environment environment() const {
    if (!GetParam().as_user) return {};
    return {"TMPDIR=" + (tmp_ / "tmp").string(), "XDG_RUNTIME_DIR=" + (tmp_ / "run").string()};
  }

  // Ends by itself, unless it is `ready`; then at SIGTERM.
  void expect_good_end(Program& program, const std::function<bool()>& ready) {
    ASSERT_TRUE(eventually(60s, [&] { return ready() || program.wait(0ms).has_value(); }))
        << "it hangs\n"
        << program.log();
    const bool up = ready();
    if (up) program.signal(SIGTERM);
    const auto status = program.wait(60s);
    ASSERT_TRUE(status.has_value()) << "it ignores SIGTERM\n" << program.log();
    EXPECT_LT(*status, 128) << program.log();
    for (const char* noise : {"terminate called", "unhandled exception", "[FATAL]"})
      EXPECT_EQ(program.count_in_log(noise), 0) << program.log();
    if (!up && *status == 0) return;  // a command that has done its work
    EXPECT_EQ(*status == 0, up) << program.log();
    if (up || *status == 127) return;  // not even its libraries could be loaded: the loader says so
    if (GetParam().limit.front() == "--fsize=0") return;  // the log is a file
    EXPECT_GE(program.count_in_log("tandem: "), 1) << program.log();
  }

  TempDir tmp_;
  const uid_t user_ = poor_user();
};

TEST_P(Want, ServeSaysWhatIsWantingOrServes) {
  Program server(limited({TANDEM_BINARY, "serve", model(), "--dtype", "float32", "--threads", "1",
                          "--kv-cache-memory", "16MiB", "--swap-space", "4MiB", "--port", "0",
                          "--client-port", "0"}),
                 environment());
  expect_good_end(server, [&] { return server.count_in_log("] ready\n") > 0; });
}

TEST_P(Want, GenerateSaysWhatIsWantingOrGenerates) {
  Program generate(
      limited({TANDEM_BINARY, "generate", "--model", model(), "--dtype", "float32", "--threads",
               "2", "--kv-cache-memory", "16MiB", "--max-new-tokens", "3", "a text"}),
      environment());
  expect_good_end(generate, [] { return false; });
}

// Those that ended by a signal, hung or ignored SIGTERM before there was a check.
INSTANTIATE_TEST_SUITE_P(
    Limits, Want,
    ::testing::Values(
        Scarcity{"AddressSpace128", {"--as=134217728"}},
        Scarcity{"AddressSpace200", {"--as=209715200"}},
        Scarcity{"AddressSpace256", {"--as=268435456"}},
        Scarcity{"AddressSpace320", {"--as=335544320"}},
        Scarcity{"AddressSpace400", {"--as=419430400"}},
        Scarcity{"AddressSpace600", {"--as=629145600"}},
        Scarcity{"AddressSpace800", {"--as=838860800"}},
        Scarcity{"AddressSpace400Process",
                 {"--as=419430400"},
                 {"--distributed-executor-backend", "mpi"}},
        Scarcity{"Data64", {"--data=67108864"}},  //
        Scarcity{"Processes1", {"--nproc=1"}, {}, true},
        Scarcity{"Processes3", {"--nproc=3"}, {}, true},
        Scarcity{"Processes6", {"--nproc=6"}, {}, true},
        Scarcity{"Processes8", {"--nproc=8"}, {}, true},
        Scarcity{"Processes10", {"--nproc=10"}, {}, true},
        Scarcity{
            "Processes20Process", {"--nproc=20"}, {"--distributed-executor-backend", "mpi"}, true},
        Scarcity{"Files6", {"--nofile=6"}},  //
        Scarcity{"Files12", {"--nofile=12"}},
        Scarcity{"Files16Process", {"--nofile=16"}, {"--distributed-executor-backend", "mpi"}},
        Scarcity{"Files32TwoRanks", {"--nofile=32"}, {"--tp", "2"}},
        Scarcity{"Stack64", {"--stack=65536"}},  //
        Scarcity{"FileSize0", {"--fsize=0"}}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tandem::test::resources_test
