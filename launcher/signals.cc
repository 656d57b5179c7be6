// Handlers, not a blocked mask: a program that hangs where nobody waits for signals still ends, and
// without a thread for it, which might be just what cannot be had.
#include "launcher/signals.h"

#include <poll.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>

namespace tandem::launcher {
namespace {

constexpr int64_t kAtOnce = 500;  // ms; two signals as close as this are one (timeout(1) sends two)

// The one that nobody has taken yet, and when it came. Lock-free, so a handler may use them.
std::atomic<int> pending{0};
std::atomic<int64_t> since{0};
static_assert(std::atomic<int64_t>::is_always_lock_free);

int64_t milliseconds_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<int64_t>(now.tv_sec) * 1000 + now.tv_nsec / 1000000;
}

[[noreturn]] void end_at_once(const char* line, size_t size, int status) {
  [[maybe_unused]] const auto n = write(STDERR_FILENO, line, size);
  _exit(status);
}

extern "C" void on_signal(int signal) {
  const int saved = errno;
  int none = 0;
  if (pending.compare_exchange_strong(none, signal)) {
    since = milliseconds_now();
    alarm(kPatience);
  } else if (milliseconds_now() - since > kAtOnce) {
    constexpr char kLine[] = "tandem: a second signal: ending at once\n";
    end_at_once(kLine, sizeof(kLine) - 1, 128 + signal);
  }
  errno = saved;
}

extern "C" void on_alarm(int) {
  constexpr char kLine[] = "tandem: not ended in time: ending at once\n";
  const int signal = pending;
  end_at_once(kLine, sizeof(kLine) - 1, signal != 0 ? 128 + signal : 70);
}

sigset_t ending_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, signal);
  return set;
}

int take() {
  const int signal = pending.exchange(0);
  if (signal != 0) alarm(0);
  return signal;
}

}  // namespace

void catch_signals() {
  struct sigaction action = {};
  action.sa_flags = SA_RESTART;
  action.sa_mask = ending_signals();
  action.sa_handler = on_signal;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaction(signal, &action, nullptr);
  action.sa_handler = on_alarm;
  sigaction(SIGALRM, &action, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

int wait_for_signal(int milliseconds) {
  // Blocked but for the wait, so that none comes between the look and the sleep. One that another
  // thread is given is seen when the time is over.
  sigset_t before;
  const sigset_t set = ending_signals();
  pthread_sigmask(SIG_BLOCK, &set, &before);
  int signal = take();
  if (signal == 0 && milliseconds > 0) {
    const timespec most{milliseconds / 1000, (milliseconds % 1000) * 1000000L};
    ppoll(nullptr, 0, &most, &before);
    signal = take();
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return signal;
}

void end_within(unsigned seconds) { alarm(seconds); }

SignalGuard::SignalGuard(std::function<void()> clean_up)
    : thread_([this, clean_up = std::move(clean_up)] {
        while (!done_) {
          const int signal = wait_for_signal(100);
          if (signal == 0) continue;
          end_within(40);
          clean_up();
          _exit(128 + signal);
        }
      }) {}

SignalGuard::~SignalGuard() {
  done_ = true;
  thread_.join();
}

}  // namespace tandem::launcher
