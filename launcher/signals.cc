#include "launcher/signals.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

namespace tandem::launcher {
namespace {

sigset_t ending_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGHUP);
  return set;
}

}  // namespace

void block_signals() {
  const sigset_t set = ending_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

int wait_for_signal(int milliseconds) {
  const sigset_t set = ending_signals();
  const timespec most{milliseconds / 1000, (milliseconds % 1000) * 1000000L};
  const int signal = sigtimedwait(&set, nullptr, &most);
  return signal > 0 ? signal : 0;
}

SignalGuard::SignalGuard(std::function<void()> clean_up)
    : thread_([this, clean_up = std::move(clean_up)] {
        while (!done_) {
          const int signal = wait_for_signal(100);
          if (signal == 0) continue;
          clean_up();
          _exit(128 + signal);
        }
      }) {}

SignalGuard::~SignalGuard() {
  done_ = true;
  thread_.join();
}

}  // namespace tandem::launcher
