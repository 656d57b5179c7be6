// `tandem serve` as a process of its own, in directories of its own, and what it leaves behind.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <chrono>
#include <functional>
#include <optional>
#include <regex>
#include <thread>

#include "client/tandem_client.h"
#include "tests/support/files/files.h"
#include "tests/support/processes/proc_fs.h"

namespace tandem::test {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// Whether it came true in time.
inline bool eventually(std::chrono::milliseconds most, const std::function<bool()>& what) {
  const auto deadline = Clock::now() + most;
  while (!what()) {
    if (Clock::now() > deadline) return false;
    std::this_thread::sleep_for(20ms);
  }
  return true;
}

// A program in a process group of its own, with a fresh TMPDIR and XDG_RUNTIME_DIR. Everything that
// it started is killed with the object.
class Program {
 public:
  using Environment = std::vector<std::string>;

  explicit Program(std::vector<std::string> command, const Environment& environment = {},
                   const std::string& input = {}) {
    std::filesystem::create_directory(tmp());
    std::filesystem::create_directory(run());
    std::filesystem::permissions(run(), std::filesystem::perms::owner_all);
    dir_.write("in", input);
    pid_ = fork();
    if (pid_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpgid(0, 0);
    setenv("TMPDIR", tmp().c_str(), 1);
    setenv("XDG_RUNTIME_DIR", run().c_str(), 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    for (const std::string& entry : environment) {
      const size_t equals = entry.find('=');
      setenv(entry.substr(0, equals).c_str(), entry.substr(equals + 1).c_str(), 1);
    }
    dup2(open((dir_ / "in").c_str(), O_RDONLY), 0);
    dup2(open((dir_ / "out").c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600), 1);
    dup2(open((dir_ / "log").c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600), 2);
    for (int fd = 3; fd < 1024; ++fd) close(fd);
    std::vector<char*> argv;
    for (std::string& word : command) argv.push_back(word.data());
    argv.push_back(nullptr);
    execvp(argv[0], argv.data());
    _exit(127);
  }
  Program(const Program&) = delete;
  ~Program() {
    if (::testing::Test::HasFailure()) std::fprintf(stderr, "--- log\n%s---\n", log().c_str());
    for (const pid_t pid : processes()) kill(pid, SIGKILL);
    if (!status_) {
      kill(pid_, SIGKILL);
      wait(10s);
    }
  }

  pid_t pid() const { return pid_; }
  std::filesystem::path tmp() const { return dir_ / "tmp"; }
  std::filesystem::path run() const { return dir_ / "run"; }
  std::string log() const { return text("log"); }
  std::string out() const { return text("out"); }
  void signal(int number) const { kill(pid_, number); }
  void signal_group(int number) const { kill(-pid_, number); }

  // The exit status, 128 + n for signal n; nothing if it still runs then.
  std::optional<int> wait(std::chrono::milliseconds most) {
    eventually(most, [&] {
      int status = 0;
      if (!status_ && waitpid(pid_, &status, WNOHANG) == pid_)
        status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      return status_.has_value();
    });
    return status_;
  }

  // Everything that it has started and that lives, itself included, orphans too.
  std::vector<pid_t> processes() const { return with_environment("TMPDIR=" + tmp().string()); }
  std::vector<pid_t> named(const std::string& program, const std::string& command) const {
    std::vector<pid_t> out;
    for (const pid_t pid : processes()) {
      const auto line = command_line(pid);
      if (line.empty() || std::filesystem::path(line[0]).filename() != program) continue;
      if (command.empty() || (line.size() > 1 && line[1] == command)) out.push_back(pid);
    }
    std::sort(out.begin(), out.end());
    return out;
  }

  bool logged(const std::string& what, std::chrono::milliseconds most, int times = 1) const {
    return eventually(most, [&] { return count_in_log(what) >= times; });
  }
  int count_in_log(const std::string& what) const {
    const std::string all = log();
    int count = 0;
    for (size_t at = all.find(what); at != std::string::npos; at = all.find(what, at + 1)) ++count;
    return count;
  }

  // No process, file or segment of it is left.
  void expect_nothing_left(std::chrono::milliseconds most = 2s) {
    EXPECT_TRUE(eventually(most, [&] { return processes().empty(); }));
    for (const pid_t pid : processes()) {
      std::string line;
      for (const auto& word : command_line(pid)) line += word + " ";
      ADD_FAILURE() << "process " << pid << " (" << process_info(pid).state
                    << ") is left: " << line;
    }
    for (const auto& dir : {tmp(), run()})
      for (const std::string& file : files_in(dir)) ADD_FAILURE() << file << " is left";
    for (const std::string& file : abandoned_shared_memory())
      EXPECT_TRUE(shared_memory_before_.count(file) > 0) << file << " is left";
  }

 private:
  std::string text(const std::string& name) const {
    std::ifstream in(dir_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }

  TempDir dir_;
  std::set<std::string> shared_memory_before_ = abandoned_shared_memory();
  pid_t pid_ = 0;
  std::optional<int> status_;
};

class Server : public Program {
 public:
  // Waits until it is ready, if `wait`.
  explicit Server(const std::vector<std::string>& flags, const Environment& environment = {},
                  bool wait = true, const std::filesystem::path& model = golden("bart-tiny"))
      : Program(command(flags, model), environment) {
    if (wait) {
      EXPECT_TRUE(logged("] ready\n", 60s)) << log();
    }
  }

  uint16_t port() const { return port_after("listening on 127.0.0.1:"); }
  uint16_t cluster_port() const { return port_after("workers connect to 127.0.0.1:"); }
  std::string access_file(uint16_t port) const {
    return (run() / "tandem" / ("client-" + std::to_string(port) + ".json")).string();
  }
  client::ClientOptions client_options(uint16_t through = 0) const {
    client::ClientOptions options;
    options.address = "127.0.0.1:" + std::to_string(through != 0 ? through : port());
    options.access_file = access_file(port());
    return options;
  }
  std::vector<pid_t> workers() const { return named_worker(); }
  pid_t worker_of(int rank) const {  // 0: there is none
    for (const pid_t pid : workers()) {
      const auto line = command_line(pid);
      const auto flag = std::find(line.begin(), line.end(), "--rank");
      if (flag != line.end() && flag + 1 != line.end() && *(flag + 1) == std::to_string(rank))
        return pid;
    }
    return 0;
  }
  std::vector<pid_t> mpiruns() const {
    const auto found = named("mpirun", "");
    return found.empty() ? named("prterun", "") : found;  // Open MPI 5's has another name
  }
  int ups() const { return count_in_log(": up, generation"); }

  // Of all restarts so far.
  std::vector<int> recovery_ms() const {
    std::vector<int> out;
    const std::string all = log();
    const std::regex back("back after ([0-9]+) ms");
    for (std::sregex_iterator it(all.begin(), all.end(), back), end; it != end; ++it)
      out.push_back(std::stoi((*it)[1]));
    return out;
  }
  void report_recovery(const std::string& what) const {
    auto times = recovery_ms();
    if (times.empty()) return;
    std::sort(times.begin(), times.end());
    const std::string text = std::to_string(times.size()) + " recoveries, median " +
                             std::to_string(times[times.size() / 2]) + " ms, longest " +
                             std::to_string(times.back()) + " ms";
    std::printf("%s: %s\n", what.c_str(), text.c_str());
    ::testing::Test::RecordProperty("recovery", text);
  }

  // Drains, and leaves nothing.
  void expect_clean_end() {
    signal(SIGTERM);
    const auto status = Program::wait(30s);
    EXPECT_EQ(status.value_or(-1), 0) << log();
    expect_nothing_left();
  }

 private:
  static std::vector<std::string> command(std::vector<std::string> flags,
                                          const std::filesystem::path& model) {
    const std::vector<std::string> start{TANDEM_BINARY, "serve", model.string(), "--dtype",
                                         "float32", "--threads", "1", "--kv-cache-memory", "16MiB",
                                         "--swap-space", "4MiB", "--no-http", "--client-port", "0",
                                         // Faults make a server slow; loads are to go through.
                                         "--max-queue-time", "0"};
    flags.insert(flags.begin(), start.begin(), start.end());
    return flags;
  }
  std::vector<pid_t> named_worker() const {
    std::vector<pid_t> out;
    for (const pid_t pid : processes()) {
      const auto line = command_line(pid);
      if (line.size() > 1 && line[1] == "worker") out.push_back(pid);
    }
    std::sort(out.begin(), out.end());
    return out;
  }
  uint16_t port_after(const std::string& words) const {
    const std::string all = log();
    const size_t at = all.find(words);
    if (at == std::string::npos) return 0;
    return static_cast<uint16_t>(std::atoi(all.c_str() + at + words.size()));
  }
};

}  // namespace tandem::test
