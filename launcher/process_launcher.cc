// One thread forks, waits and kills: the parent-death signal of a child is tied to the thread that
// made it, so that thread lives as long as the launcher.

#include "launcher/process_launcher.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "kernels/core/error.h"
#include "launcher/run_directory.h"

extern char** environ;

namespace tandem::launcher {
namespace {

using Key = std::pair<int, uint64_t>;  // replica, generation
using Clock = std::chrono::steady_clock;

std::string describe(int status) {
  if (WIFSIGNALED(status)) return "ended by signal " + std::to_string(WTERMSIG(status));
  return "ended with status " + std::to_string(WEXITSTATUS(status));
}

// Ours, without what an outer mpirun set for this process alone.
std::vector<std::string> inherited_environment() {
  std::vector<std::string> out;
  for (char** e = environ; *e; ++e) {
    const std::string entry = *e;
    const auto starts = [&](const char* p) { return entry.compare(0, std::strlen(p), p) == 0; };
    if (starts("OMPI_COMM_WORLD") || starts("OMPI_UNIVERSE") || starts("PMIX_") || starts("PMI_") ||
        starts("OMPI_MCA_ess") || starts("OMPI_MCA_orte_ess") || starts("TMPDIR="))
      continue;
    out.push_back(entry);
  }
  return out;
}

// Only async-signal-safe calls: other threads may have held locks at the fork.
[[noreturn]] void exec_child(char* const* argv, char* const* env, pid_t parent,
                             const sigset_t& signals) {
  setpgid(0, 0);  // a Ctrl-C at the terminal is the engine's to handle
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  const int null = open("/dev/null", O_RDONLY);
  dup2(null, 0);  // mpirun would read the engine's input
  dup2(2, 1);     // standard output is for results
  syscall(SYS_close_range, 3u, ~0u, 0u);
  sigprocmask(SIG_SETMASK, &signals, nullptr);
  execve(argv[0], argv, env);
  _exit(127);
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> out;
  for (std::string& s : strings) out.push_back(s.data());
  out.push_back(nullptr);
  return out;
}

constexpr std::chrono::seconds kLongestAlone(1), kLongestStart(20);

// Where the kernel does not tell, it has.
bool has_children(pid_t pid) {
  std::error_code failed;
  bool told = false;
  for (const auto& task :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task", failed)) {
    std::ifstream in(task.path() / "children");
    told = told || in.is_open();
    pid_t child = 0;
    if (in >> child) return true;
  }
  return !told;
}

std::string find_mpirun() {
  const char* path = getenv("PATH");
  std::string paths = path ? path : "/usr/bin:/bin";
  for (size_t at = 0; at <= paths.size();) {
    const size_t end = std::min(paths.find(':', at), paths.size());
    const std::string file = paths.substr(at, end - at) + "/mpirun";
    if (access(file.c_str(), X_OK) == 0) return file;
    at = end + 1;
  }
  throw InputError(ErrorKind::kUnavailable,
                   "mpirun: not found in PATH (Debian: openmpi-bin); "
                   "--distributed-executor-backend threads needs none");
}

}  // namespace

struct ProcessLauncher::Impl {
  struct Child {
    pid_t pid = 0;
    int pidfd = -1;
    bool had_ranks = false;
    Clock::time_point alone_since = Clock::now();
  };

  ProcessLauncherOptions options;
  RunDirectory directory;
  std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  std::string mpirun;
  std::vector<std::string> environment;
  Exited exited;
  int wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  std::mutex mutex;
  std::deque<std::function<void()>> orders;  // for the thread
  bool ending = false;
  std::map<Key, Child> children;  // the thread's
  std::thread thread;

  void order(std::function<void()> what) {
    {
      const std::lock_guard lock(mutex);
      orders.push_back(std::move(what));
    }
    const uint64_t one = 1;
    [[maybe_unused]] const auto n = write(wake, &one, sizeof(one));
  }

  std::vector<std::string> command_line(int replica, uint64_t generation, int size) const {
    std::vector<std::string> line;
    const bool mpi = size > 1 || !options.hostfile.empty();
    if (mpi) {
      line = {mpirun, "--oversubscribe", "--bind-to", "none"};
      if (geteuid() == 0) line.push_back("--allow-run-as-root");
      if (!options.hostfile.empty())
        line.insert(line.end(), {"--hostfile", options.hostfile, "-x", kEndpointVariable});
      line.insert(line.end(), {"-n", std::to_string(size)});
    }
    line.insert(line.end(), {self, "worker", "--replica", std::to_string(replica), "--generation",
                             std::to_string(generation)});
    if (mpi) line.push_back("--mpi");
    if (options.hostfile.empty())
      line.insert(line.end(), {"--crash-directory", directory.path().string()});
    line.insert(line.end(), options.worker_flags.begin(), options.worker_flags.end());
    return line;
  }

  void start(int replica, uint64_t generation, int size) {
    auto line = command_line(replica, generation, size);
    auto env = environment;
    const std::string scratch = directory.path().string() + "/" + std::to_string(replica) + "." +
                                std::to_string(generation);
    std::error_code failed;
    std::filesystem::create_directories(scratch, failed);
    if (failed) {
      exited(replica, generation, scratch + ": " + failed.message());
      return;
    }
    env.push_back("TMPDIR=" + scratch);
    if (options.hostfile.empty()) env.push_back("OMPI_MCA_btl_vader_backing_directory=" + scratch);
    auto argv = pointers(line), envp = pointers(env);
    sigset_t none;
    sigemptyset(&none);
    const pid_t parent = getpid(), pid = fork();
    if (pid == 0) exec_child(argv.data(), envp.data(), parent, none);
    if (pid < 0) {
      exited(replica, generation, std::string("fork: ") + std::strerror(errno));
      return;
    }
    Child& child = children[{replica, generation}];
    child.pid = pid;
    child.pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0u));
  }

  // Ranks first: mpirun would take its time to end them.
  void kill_group(const Key& key, const std::vector<int64_t>& pids) {
    for (const int64_t pid : pids)
      if (pid > 1) kill(static_cast<pid_t>(pid), SIGKILL);
    const auto it = children.find(key);
    if (it == children.end()) return;
    // With remote hosts mpirun has to tell them; their ranks end anyway when the engine lets go.
    kill(it->second.pid, options.hostfile.empty() ? SIGKILL : SIGTERM);
  }

  // Open MPI's mpirun may wait for ever for a rank that died while it was being started.
  void end_those_without_ranks() {
    for (auto& [key, child] : children) {
      if (!options.several_ranks || !options.hostfile.empty()) continue;
      const auto time = Clock::now();
      if (has_children(child.pid)) {
        child.had_ranks = true;
        child.alone_since = time;
      } else if (time - child.alone_since > (child.had_ranks ? kLongestAlone : kLongestStart)) {
        spdlog::debug("mpirun {} has no ranks: ending it", child.pid);
        kill(child.pid, SIGKILL);
      }
    }
  }

  void reap() {
    for (auto it = children.begin(); it != children.end();) {
      int status = 0;
      if (waitpid(it->second.pid, &status, WNOHANG) != it->second.pid) {
        ++it;
        continue;
      }
      const Key key = it->first;
      if (it->second.pidfd >= 0) close(it->second.pidfd);
      it = children.erase(it);
      std::error_code ignored;
      std::filesystem::remove_all(
          directory.path() / (std::to_string(key.first) + "." + std::to_string(key.second)),
          ignored);
      exited(key.first, key.second, describe(status));
    }
  }

  void run() {
    while (true) {
      std::deque<std::function<void()>> now;
      {
        const std::lock_guard lock(mutex);
        now.swap(orders);
        if (ending && now.empty() && children.empty()) return;
      }
      for (auto& what : now) what();
      reap();
      end_those_without_ranks();
      std::vector<pollfd> fds{{wake, POLLIN, 0}};
      for (const auto& [key, child] : children)
        if (child.pidfd >= 0) fds.push_back({child.pidfd, POLLIN, 0});
      poll(fds.data(), fds.size(), 200);
      uint64_t count = 0;
      [[maybe_unused]] const auto n = read(wake, &count, sizeof(count));
    }
  }
};

ProcessLauncher::ProcessLauncher(ProcessLauncherOptions options) : impl_(new Impl) {
  impl_->options = std::move(options);
  if (!impl_->options.worker_program.empty()) impl_->self = impl_->options.worker_program;
}

ProcessLauncher::~ProcessLauncher() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->ending = true;
  }
  if (impl_->thread.joinable()) {
    impl_->order([this] {
      for (const auto& [key, child] : impl_->children) kill(child.pid, SIGKILL);
    });
    impl_->thread.join();
  }
  close(impl_->wake);
}

void ProcessLauncher::open(const actors::WorkerEndpoint& endpoint, Exited exited) {
  // Here, where it still is the user's error, not a fault.
  if (impl_->options.several_ranks || !impl_->options.hostfile.empty())
    impl_->mpirun = find_mpirun();
  impl_->exited = std::move(exited);
  impl_->environment = inherited_environment();
  auto& env = impl_->environment;
  env.push_back(std::string(kEndpointVariable) + "=" + encode_endpoint(endpoint));
  // On one host nobody else needs to reach the ranks, so MPI must not listen; nor leave anything in
  // /dev/shm: its files go to the run's directory, and it does not try out the other ways (the file
  // of a trial stays if a rank is killed just then). Tensors do not travel through it.
  if (impl_->options.hostfile.empty())
    for (const char* setting :
         {"OMPI_MCA_pml=ob1", "OMPI_MCA_btl=self,vader", "OMPI_MCA_shmem=mmap",
          "OMPI_MCA_btl_vader_single_copy_mechanism=none", "OMPI_MCA_oob_tcp_if_include=lo",
          "PRTE_MCA_oob_tcp_if_include=lo", "OMPI_MCA_mpi_yield_when_idle=0"})
      env.push_back(setting);
  impl_->thread = std::thread([impl = impl_.get()] { impl->run(); });
}

void ProcessLauncher::launch(int replica, uint64_t generation, int size) {
  impl_->order([=, impl = impl_.get()] { impl->start(replica, generation, size); });
}

void ProcessLauncher::stop(int replica, uint64_t generation, const std::vector<int64_t>& pids) {
  impl_->order([=, impl = impl_.get()] { impl->kill_group({replica, generation}, pids); });
}

// Other hosts are reached through their own ways of logging in.
std::optional<double> ProcessLauncher::longest_hello() const {
  return impl_->options.hostfile.empty() ? 10 : 60;
}

std::string encode_endpoint(const actors::WorkerEndpoint& endpoint) {
  return endpoint.address + " " + endpoint.credentials.encode();
}

actors::WorkerEndpoint decode_endpoint(const std::string& text) {
  const size_t space = text.find(' ');
  if (space == std::string::npos)
    throw invalid_request(kEndpointVariable, "is not an address and credentials");
  return {text.substr(0, space), actors::Credentials::decode(text.substr(space + 1))};
}

}  // namespace tandem::launcher
