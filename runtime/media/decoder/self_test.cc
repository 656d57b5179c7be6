// Each attempt as a program that was taken over might make it: by system calls, past the C library.
#include "runtime/media/decoder/self_test.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "runtime/media/decoder/sandbox.h"

namespace tandem::decoder {
namespace {

struct Attempt {
  const char* what;
  long result;  // of the system call; what fails is negative
};

template <class... Arguments>
long call(long number, Arguments... arguments) {
  return syscall(number, arguments...);
}

std::vector<Attempt> attempts() {
  const char* const arguments[] = {"/bin/true", nullptr};
  int pipe_ends[2] = {-1, -1};
  return {
      {"open a file", call(SYS_openat, AT_FDCWD, "/etc/passwd", O_RDONLY)},
      {"open a device", call(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR)},
      {"make a file",
       call(SYS_openat, AT_FDCWD, "/tmp/tandem-decoder-was-here", O_CREAT | O_WRONLY, 0600)},
      {"open a socket of a network", call(SYS_socket, AF_INET, SOCK_STREAM, 0)},
      {"open a socket of this host", call(SYS_socket, AF_UNIX, SOCK_STREAM, 0)},
      {"make a pair of sockets", call(SYS_socketpair, AF_UNIX, SOCK_STREAM, 0, pipe_ends)},
      {"make a pipe", call(SYS_pipe2, pipe_ends, 0)},
      {"run a program", call(SYS_execve, arguments[0], arguments, nullptr)},
      {"start a process", call(SYS_clone, SIGCHLD, 0, 0, 0, 0)},
      {"send a signal to its parent", call(SYS_kill, getppid(), 0)},
      {"send a signal to its parent's thread", call(SYS_tgkill, getppid(), getppid(), 0)},
      {"look into its parent", call(SYS_ptrace, PTRACE_ATTACH, getppid(), 0, 0)},
      {"write to a descriptor", call(SYS_write, STDERR_FILENO, "", 0)},
      {"have memory that is run",
       call(SYS_mmap, nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)},
      {"raise its limits", call(SYS_prlimit64, 0, RLIMIT_AS, nullptr, nullptr)},
      {"have other rights", call(SYS_setuid, getuid())},
      {"have a directory", call(SYS_chdir, "/")},
      {"know of a file", call(SYS_faccessat, AT_FDCWD, "/etc/passwd", F_OK)},
  };
}

// More than it may have, in pieces that are used.
bool has_endless_memory() {
  constexpr size_t kPiece = size_t{64} << 20;
  for (size_t had = 0; had < 2 * kMostMemory; had += kPiece)
    if (mmap(nullptr, kPiece, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
        MAP_FAILED)
      return false;
  return true;
}

}  // namespace

int self_test() {
  // (What is printed goes to memory until the end: the sandbox lets nothing be written.)
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return 1;
  const pid_t parent = getpid(), child = fork();
  if (child < 0) return 1;
  if (child != 0) {
    close(ends[1]);
    char text[4096];
    int status = kExitUnavailable;
    std::string all;
    for (ssize_t got = 0; (got = read(ends[0], text, sizeof text)) > 0;)
      all.append(text, static_cast<size_t>(got));
    std::fputs(all.c_str(), stdout);
    return all.ends_with("locked in\n") ? 0 : all.find("no sandbox") == 0 ? status : 1;
  }
  close(ends[0]);
  std::string said;
  const SandboxState state = enter_sandbox();
  if (state.sandbox != Sandbox::kOn) {
    said = "no sandbox: " + state.why + "\n";
  } else {
    size_t open = 0;
    for (const Attempt& attempt : attempts())
      if (getpid() != parent && attempt.result >= 0) {
        said += std::string("it can ") + attempt.what + "\n";
        ++open;
      }
    if (has_endless_memory()) {
      said += "it can have memory without end\n";
      ++open;
    }
    if (open == 0) said += "locked in\n";
  }
  [[maybe_unused]] const ssize_t sent = send(ends[1], said.data(), said.size(), MSG_NOSIGNAL);
  _exit(0);
}

}  // namespace tandem::decoder
