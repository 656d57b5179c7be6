// seccomp and limits (docs/design/decoder.md).
#include "runtime/media/decoder/sandbox.h"

#include <fcntl.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>

namespace tandem::decoder {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitizer = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool kSanitizer = true;
#else
constexpr bool kSanitizer = false;
#endif
#else
constexpr bool kSanitizer = false;
#endif

constexpr int kDescriptors = 16;

struct ReleaseFilter {
  void operator()(void* filter) const { seccomp_release(filter); }
};

void limit(int what, rlim_t most) {
  rlimit now = {};
  if (getrlimit(static_cast<__rlimit_resource_t>(what), &now) != 0) return;
  if (now.rlim_max != RLIM_INFINITY && now.rlim_max < most) return;
  now = {most, most};
  setrlimit(static_cast<__rlimit_resource_t>(what), &now);
}

// Bytes of address space that the program has, with all its libraries.
size_t address_space() {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> in(std::fopen("/proc/self/statm", "r"),
                                                           std::fclose);
  unsigned long pages = 0;
  if (!in || std::fscanf(in.get(), "%lu", &pages) != 1) return size_t{1} << 30;
  return pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

// Calls that allocate, read what is given, answer, wait and end. A negative one is unknown here.
constexpr int kCalls[] = {
    SCMP_SYS(read),           SCMP_SYS(pread64),      SCMP_SYS(recvmsg),
    SCMP_SYS(sendto),         SCMP_SYS(close),        SCMP_SYS(brk),
    SCMP_SYS(munmap),         SCMP_SYS(mremap),       SCMP_SYS(madvise),
    SCMP_SYS(futex),          SCMP_SYS(futex_time64), SCMP_SYS(clock_gettime),
    SCMP_SYS(gettimeofday),   SCMP_SYS(getrandom),    SCMP_SYS(sched_yield),
    SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigreturn), SCMP_SYS(restart_syscall),
    SCMP_SYS(getpid),         SCMP_SYS(gettid),       SCMP_SYS(exit),
    SCMP_SYS(exit_group),
};

// Returns 0, or what is wrong as an error number.
int load_filter() {
  const std::unique_ptr<void, ReleaseFilter> filter(seccomp_init(SCMP_ACT_ERRNO(EPERM)));
  if (!filter) return ENOMEM;
  int code = 0;
  for (const int call : kCalls)
    if (code == 0) code = seccomp_rule_add(filter.get(), SCMP_ACT_ALLOW, call, 0);
  // Memory, but none that is run.
  for (const int call : {SCMP_SYS(mmap), SCMP_SYS(mprotect)})
    if (code == 0)
      code = seccomp_rule_add(filter.get(), SCMP_ACT_ALLOW, call, 1,
                              SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
  // abort() raises a signal, in this process alone.
  if (code == 0)
    code = seccomp_rule_add(filter.get(), SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1,
                            SCMP_A0(SCMP_CMP_EQ, static_cast<scmp_datum_t>(getpid())));
  // (It sets no_new_privs.)
  if (code == 0) code = seccomp_load(filter.get());
  return -code;
}

}  // namespace

bool end_with_parent(int parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  return getppid() == parent;
}

SandboxState enter_sandbox() {
  limit(RLIMIT_CORE, 0);
  if (kSanitizer) return {Sandbox::kSanitizer, "it is built with a sanitizer"};
  prctl(PR_SET_DUMPABLE, 0);
  limit(RLIMIT_FSIZE, 0);
  limit(RLIMIT_NOFILE, kDescriptors);
  limit(RLIMIT_NPROC, 0);
  limit(RLIMIT_MEMLOCK, 0);
  limit(RLIMIT_AS, address_space() + kMostMemory);
  if (const int error = load_filter(); error != 0)
    return {Sandbox::kNone, std::string("seccomp: ") + std::strerror(error)};
  // An emulator may take a filter, and do without it.
  if (const int fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC); fd >= 0) {
    close(fd);
    return {Sandbox::kNone, "seccomp: the kernel does not apply its filter"};
  }
  return {Sandbox::kOn, ""};
}

}  // namespace tandem::decoder
