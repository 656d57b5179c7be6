// One thread forks, waits and kills: the parent-death signal of a child is tied to the thread that
// made it, so that thread lives as long as the object.

#include "launcher/cluster/child_processes.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>

#include "base/log/log.h"
#include "base/mutex.h"

namespace tandem::launcher {
namespace {

constexpr int kCannotRun = 127;
constexpr int kLookAround = 200;  // milliseconds, where somebody must be looked after

std::string describe(const siginfo_t& info) {
  if (info.si_code != CLD_EXITED) return "ended by signal " + std::to_string(info.si_status);
  const std::string text = "ended with status " + std::to_string(info.si_status);
  return info.si_status == kCannotRun ? text + " (it cannot be run)" : text;
}

// Only async-signal-safe calls: other threads may have held locks at the fork.
[[noreturn]] void exec_child(char* const* argv, char* const* env, pid_t parent,
                             const sigset_t& signals) {
  setpgid(0, 0);  // a Ctrl-C at the terminal is the engine's to handle
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kCannotRun);
  const int null = open("/dev/null", O_RDONLY);
  dup2(null, 0);  // the engine's input is not theirs
  dup2(2, 1);     // standard output is for results
  syscall(SYS_close_range, 3u, ~0u, 0u);
  sigprocmask(SIG_SETMASK, &signals, nullptr);
  execve(argv[0], argv, env);
  _exit(kCannotRun);
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> out;
  for (std::string& s : strings) out.push_back(s.data());
  out.push_back(nullptr);
  return out;
}

// Whether it is on its way out. It closes its connections, and so is missed by others, a little
// before it can be waited for.
bool is_ending(pid_t pid) {
  constexpr unsigned kExiting = 0x4;  // the kernel's PF_EXITING
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  std::string stat, skip;
  std::getline(in, stat, '\0');
  std::istringstream fields(stat.substr(std::min(stat.rfind(')'), stat.size() - 1) + 1));
  for (int i = 0; i < 6; ++i) fields >> skip;  // state, parent, group, session, terminal, its group
  unsigned flags = 0;
  fields >> flags;
  return (flags & kExiting) != 0;
}

struct Child {
  std::string name;
  std::function<bool(pid_t)> is_stuck;
  pid_t pid = 0;
  int pidfd = -1;
  bool was_ending = false;  // before it was told to
};

struct Group {
  std::vector<Child> running;
  std::string how;
  bool told_to_end = false;
  bool failed = false;  // one has ended by itself; that is `how`
};

// Its whole process group: a wrapper may have started more.
void kill_all(const Group& group) {
  for (const Child& child : group.running) kill(-child.pid, SIGKILL);
}

}  // namespace

struct ChildProcesses::Impl {
  GroupEnded ended;
  int wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  Mutex mutex;
  std::deque<std::function<void()>> orders GUARDED_BY(mutex);  // for the thread
  bool ending GUARDED_BY(mutex) = false;
  std::map<Key, Group> groups;  // the thread's
  std::thread thread;

  void order(std::function<void()> what, bool last = false) {
    {
      const MutexLock lock(mutex);
      orders.push_back(std::move(what));
      ending = ending || last;
    }
    const uint64_t one = 1;
    [[maybe_unused]] const auto n = write(wake, &one, sizeof(one));
  }

  void start(const Key& key, std::vector<ChildProgram>& programs) {
    Group& group = groups[key];
    sigset_t none;
    sigemptyset(&none);
    const pid_t parent = getpid();
    for (ChildProgram& program : programs) {
      auto argv = pointers(program.command), envp = pointers(program.environment);
      const pid_t pid = fork();
      if (pid == 0) exec_child(argv.data(), envp.data(), parent, none);
      if (pid < 0) {
        group.how = program.name + ": fork: " + std::strerror(errno);
        group.failed = true;
        kill_all(group);
        break;
      }
      setpgid(pid, pid);  // whoever is first
      const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0u));
      log_debug("replica {}: {} is process {}", key.first, program.name, pid);
      group.running.push_back({program.name, std::move(program.is_stuck), pid, pidfd});
    }
  }

  void end(const Key& key, int signal) {
    const auto it = groups.find(key);
    if (it == groups.end()) return;
    Group& group = it->second;
    if (!group.told_to_end)
      for (Child& child : group.running) child.was_ending = is_ending(child.pid);
    group.told_to_end = true;
    if (signal == SIGKILL) return kill_all(group);
    for (const Child& child : group.running) kill(child.pid, signal);
  }

  // Whether it has ended. Until waitpid() nobody else can have its process group.
  bool reap(const Key& key, Group& group, const Child& child) {
    siginfo_t info = {};
    if (waitid(P_PID, static_cast<id_t>(child.pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        info.si_pid != child.pid)
      return false;
    kill(-child.pid, SIGKILL);
    waitpid(child.pid, nullptr, 0);
    if (child.pidfd >= 0) close(child.pidfd);
    const std::string how = child.name + " " + describe(info);
    // A worker that was told to end by its supervisor may be faster than the order to end it.
    const bool as_told = info.si_code == CLD_EXITED && info.si_status == 0;
    const bool by_itself = !group.told_to_end || (child.was_ending && !as_told);
    if (by_itself && !group.failed) {
      log_at(as_told ? LogLevel::kDebug : LogLevel::kWarning, "replica {}: {} (process {})",
             key.first, how, child.pid);
      group.failed = true;
      group.how = how;
    } else if (group.how.empty()) {
      group.how = how;
    }
    return true;
  }

  void reap() {
    for (auto it = groups.begin(); it != groups.end();) {
      auto& [key, group] = *it;
      const size_t before = group.running.size();
      std::erase_if(group.running, [&](const Child& child) { return reap(key, group, child); });
      if (!group.running.empty()) {
        if (group.running.size() < before) kill_all(group);
        ++it;
        continue;
      }
      const auto [gone, how] = std::pair(it->first, it->second.how);
      it = groups.erase(it);
      ended(gone, how);
    }
  }

  // Returns for how long poll() may sleep.
  int look_after() {
    int most = -1;
    for (auto& [key, group] : groups)
      for (Child& child : group.running) {
        if (child.is_stuck || child.pidfd < 0) most = kLookAround;
        if (child.is_stuck && child.is_stuck(child.pid)) kill(-child.pid, SIGKILL);
      }
    return most;
  }

  void run() {
    while (true) {
      std::deque<std::function<void()>> now;
      {
        const MutexLock lock(mutex);
        now.swap(orders);
      }
      for (auto& what : now) what();
      reap();
      {
        const MutexLock lock(mutex);
        if (ending && orders.empty() && groups.empty()) return;
      }
      std::vector<pollfd> fds{{wake, POLLIN, 0}};
      for (const auto& [key, group] : groups)
        for (const Child& child : group.running)
          if (child.pidfd >= 0) fds.push_back({child.pidfd, POLLIN, 0});
      poll(fds.data(), fds.size(), look_after());
      uint64_t count = 0;
      [[maybe_unused]] const auto n = read(wake, &count, sizeof(count));
    }
  }
};

ChildProcesses::ChildProcesses(GroupEnded ended) : impl_(new Impl) {
  impl_->ended = std::move(ended);
  impl_->thread = std::thread([impl = impl_.get()] { impl->run(); });
}

ChildProcesses::~ChildProcesses() {
  impl_->order(
      [impl = impl_.get()] {
        for (auto& [key, group] : impl->groups) {
          group.told_to_end = true;
          kill_all(group);
        }
      },
      /*last=*/true);
  impl_->thread.join();
  close(impl_->wake);
}

void ChildProcesses::start(const Key& key, std::vector<ChildProgram> programs) {
  impl_->order([impl = impl_.get(), key, programs = std::move(programs)]() mutable {
    impl->start(key, programs);
  });
}

void ChildProcesses::end(const Key& key, int signal) {
  impl_->order([=, impl = impl_.get()] { impl->end(key, signal); });
}

}  // namespace tandem::launcher
