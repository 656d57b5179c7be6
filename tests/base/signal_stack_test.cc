// A thread whose stack is full still runs its signal handler.
#include "base/signal_stack.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <thread>

namespace tandem {
namespace {

constexpr int kHandled = 42;

extern "C" void on_crash(int) { _exit(kHandled); }

// Calls itself until the stack is full.
[[gnu::noinline]] int overflow(volatile int* depth) {
  volatile char frame[4096];
  frame[0] = static_cast<char>(*depth);
  *depth = *depth + 1;
  return overflow(depth) + frame[0];
}

// How a process ends that does that: kHandled, or minus the signal that killed it.
int end_of(const std::function<void()>& crash) {
  const pid_t child = fork();
  if (child == 0) {
    stack_t none = {};
    none.ss_flags = SS_DISABLE;  // a sanitizer's
    sigaltstack(&none, nullptr);
    struct sigaction action = {};
    action.sa_handler = on_crash;
    action.sa_flags = SA_ONSTACK;
    sigaction(SIGSEGV, &action, nullptr);
    sigaction(SIGBUS, &action, nullptr);
    crash();
    _exit(0);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

void overflow_here() {
  int depth = 0;
  overflow(&depth);
}

TEST(SignalStack, AHandlerRunsWhenTheStackIsFull) {
  EXPECT_EQ(end_of([] {
              use_signal_stack();
              use_signal_stack();
              overflow_here();
            }),
            kHandled);
}

TEST(SignalStack, EachThreadHasItsOwn) {
  EXPECT_EQ(end_of([] {
              use_signal_stack();
              std::thread([] {
                use_signal_stack();
                overflow_here();
              }).join();
            }),
            kHandled);
}

TEST(SignalStack, IsGivenBackWithTheThread) {
  for (int i = 0; i < 1000; ++i) std::thread([] { use_signal_stack(); }).join();
  std::thread([] {
    stack_t before = {}, now = {};
    EXPECT_EQ(sigaltstack(nullptr, &before), 0);
    use_signal_stack();
    EXPECT_EQ(sigaltstack(nullptr, &now), 0);
    EXPECT_EQ(now.ss_flags & SS_DISABLE, 0);
    // (A sanitizer gives each thread one of its own, which stays.)
    if (before.ss_flags & SS_DISABLE)
      EXPECT_GE(now.ss_size, 65536U);
    else
      EXPECT_EQ(now.ss_sp, before.ss_sp);
  }).join();
}

}  // namespace
}  // namespace tandem
