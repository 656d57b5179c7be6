#include "actors/network/process_limits.h"

#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "base/mutex.h"

namespace tandem {
namespace {

constexpr rlim_t kStack = rlim_t{8} << 20;        // bytes, of the main thread
constexpr size_t kThreadStack = size_t{2} << 20;  // at least

constexpr char kOfThreads[] = "limits of processes, of address space or of memory: ulimit -u, -v";
constexpr char kOfFiles[] = "limit of open files: ulimit -n";
constexpr char kOfMemory[] = "limits of address space or of memory: ulimit -v";

// Without memory, and from any thread.
void write_line(const char* a, const char* b) {
  char line[512];
  size_t size = 0;
  for (const char* part : {"tandem: ", a, b, "\n"})
    for (; *part != '\0' && size < sizeof(line); ++part) line[size++] = *part;
  if (size == sizeof(line)) line[size - 1] = '\n';
  [[maybe_unused]] const auto n = ::write(STDERR_FILENO, line, size);
}

[[noreturn]] void end_of_unhandled(const char* what) {
  struct sigaction action = {};
  ::sigaction(SIGABRT, nullptr, &action);
  write_line("internal error: ", what);
  if (action.sa_handler != SIG_DFL) std::abort();
  ::_exit(kInternalError);
}

[[noreturn]] void on_terminate() {
  try {
    if (const std::exception_ptr e = std::current_exception()) std::rethrow_exception(e);
  } catch (const std::bad_alloc&) {  // not a byte may be asked for
    write_line("out of memory ", "(limits of address space or of memory: ulimit -v)");
    ::_exit(kWantsResources);
  } catch (const std::exception& e) {
    const std::string want = want_of_resources(e);
    if (!want.empty()) end_for_want(want);
    end_of_unhandled(e.what());
  } catch (...) {
  }
  end_of_unhandled("an exception of an unknown kind, or a thread that was left running");
}

}  // namespace

std::string want_of_resources(const std::exception& e) {
  if (dynamic_cast<const std::bad_alloc*>(&e) != nullptr)
    return std::string("out of memory (") + kOfMemory + ")";
  if (dynamic_cast<const WantOfResources*>(&e) != nullptr) return e.what();
  const auto* system = dynamic_cast<const std::system_error*>(&e);
  if (system == nullptr || (system->code().category() != std::generic_category() &&
                            system->code().category() != std::system_category()))
    return "";
  switch (system->code().value()) {
    case EAGAIN: return std::string("cannot start a thread: ") + e.what() + " (" + kOfThreads + ")";
    case ENOMEM: return std::string("out of memory: ") + e.what() + " (" + kOfMemory + ")";
    case EMFILE:
    case ENFILE: return std::string("cannot open a file: ") + e.what() + " (" + kOfFiles + ")";
    default: return "";
  }
}

void end_for_want(const std::string& what) {
  write_line(what.c_str(), "");
  ::_exit(kWantsResources);
}

void install_terminate_handler() { std::set_terminate(on_terminate); }

void raise_file_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

size_t file_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return SIZE_MAX;
  return limit.rlim_cur;
}

void adapt_to_limits() {
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  // Each of malloc's arenas reserves 64 MiB and more.
  if (::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    ::mallopt(M_ARENA_MAX, 1);
  if (::getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur < kStack) {
    limit.rlim_cur = std::min(kStack, limit.rlim_max);
    ::setrlimit(RLIMIT_STACK, &limit);
  }
  pthread_attr_t attributes;
  size_t size = 0;
  if (::pthread_getattr_default_np(&attributes) != 0) return;
  if (::pthread_attr_getstacksize(&attributes, &size) == 0 && size < kThreadStack &&
      ::pthread_attr_setstacksize(&attributes, kThreadStack) == 0)
    ::pthread_setattr_default_np(&attributes);
  ::pthread_attr_destroy(&attributes);
}

void check_threads(int count) {
  Mutex mutex;
  CondVar changed;
  bool over = false;
  std::vector<std::thread> threads;
  std::string failure;
  try {
    threads.reserve(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i)
      threads.emplace_back([&] {
        const MutexLock lock(mutex);
        while (!over) changed.wait(mutex);
      });
  } catch (const std::system_error& e) {
    failure = e.code().message();
  } catch (const std::bad_alloc&) {
    failure = std::strerror(ENOMEM);
  }
  {
    const MutexLock lock(mutex);
    over = true;
  }
  changed.notify_all();
  const size_t made = threads.size();
  for (std::thread& thread : threads) thread.join();
  if (!failure.empty())
    throw WantOfResources("cannot start a thread: " + failure + ", after " + std::to_string(made) +
                          " of " + std::to_string(count) + " (" + kOfThreads + ")");
}

void check_files(int count) {
  std::vector<int> files;
  files.reserve(static_cast<size_t>(count));
  int error = 0;
  while (error == 0 && files.size() < static_cast<size_t>(count)) {
    const int fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
      files.push_back(fd);
    else
      error = errno;
  }
  for (const int fd : files) ::close(fd);
  if (error != 0)
    throw WantOfResources(std::string("cannot open a file: ") + std::strerror(error) + ", after " +
                          std::to_string(files.size()) + " of " + std::to_string(count) +
                          " that are needed to begin with (" + kOfFiles + ")");
}

}  // namespace tandem
