// The pool: every task once, whatever the threads do meanwhile.
#include "kernels/core/thread_pool.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

namespace tandem::thread_pool_test {
namespace {

class ThreadPoolTest : public ::testing::TestWithParam<int> {};

// Runs one region and checks that each task ran once, on a thread of the pool.
void check_region(ThreadPool& pool, int64_t tasks) {
  std::vector<std::atomic<int>> runs(static_cast<size_t>(tasks));
  std::atomic<bool> threads_ok{true};
  pool.run(tasks, [&](int64_t task, int thread) {
    if (thread < 0 || thread >= pool.threads()) threads_ok = false;
    runs[static_cast<size_t>(task)].fetch_add(1, std::memory_order_relaxed);
  });
  EXPECT_TRUE(threads_ok);
  for (const auto& count : runs) ASSERT_EQ(count.load(), 1);
}

TEST_P(ThreadPoolTest, RunsEveryTaskOnce) {
  ThreadPool pool(GetParam());
  EXPECT_EQ(pool.threads(), GetParam());
  for (int64_t tasks : {0, 1, 2, 3, 7, 100, 10000}) check_region(pool, tasks);
}

// Regions end while workers are still on their way; their bodies are gone then.
TEST_P(ThreadPoolTest, ManySmallRegions) {
  ThreadPool pool(GetParam());
  int64_t sum = 0;
  for (int i = 0; i < 20000; ++i) {
    auto counter = std::make_unique<std::atomic<int64_t>>(0);
    const int64_t tasks = 1 + i % 5;
    pool.run(tasks, [&counter](int64_t task, int) { *counter += task + 1; });
    sum += *counter - tasks * (tasks + 1) / 2;
  }
  EXPECT_EQ(sum, 0);
}

TEST_P(ThreadPoolTest, WakesAfterSleep) {
  ThreadPool pool(GetParam());
  for (int i = 0; i < 20; ++i) {
    std::this_thread::sleep_for(std::chrono::microseconds(i * 300));
    check_region(pool, 64);
  }
}

// A value written in one region is seen by all threads in the next.
TEST_P(ThreadPoolTest, RegionsAreOrdered) {
  ThreadPool pool(GetParam());
  std::vector<int64_t> a(1000, 0), b(1000, 0);
  for (int round = 1; round <= 200; ++round) {
    pool.run(1000, [&](int64_t i, int) { a[static_cast<size_t>(i)] += i; });
    pool.run(1000,
             [&](int64_t i, int) { b[static_cast<size_t>(i)] = a[static_cast<size_t>(999 - i)]; });
    for (int64_t i = 0; i < 1000; ++i) ASSERT_EQ(b[static_cast<size_t>(i)], (999 - i) * round);
  }
}

INSTANTIATE_TEST_SUITE_P(, ThreadPoolTest, ::testing::Values(1, 2, 3, 8));

TEST(ThreadPool, SharesWorkOfUnequalTasks) {
  ThreadPool pool(2);
  std::atomic<int> helped{0};
  // The caller's first task lasts until the worker has done another.
  pool.run(2, [&](int64_t, int thread) {
    if (thread == 1) helped = 1;
    const auto start = std::chrono::steady_clock::now();
    while (helped == 0 && std::chrono::steady_clock::now() - start < std::chrono::seconds(20))
      std::this_thread::yield();
  });
  EXPECT_EQ(helped, 1);
}

TEST(ThreadPool, LeavesTheCallersAffinity) {
  cpu_set_t before, after;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  ThreadPool pool(2);
  pool.run(10, [](int64_t, int) {});
  ASSERT_EQ(sched_getaffinity(0, sizeof after, &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

TEST(ThreadPool, EndsWhileAsleepOrNeverUsed) {
  { ThreadPool pool(4); }
  ThreadPool pool(4);
  pool.run(4, [](int64_t, int) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

TEST(ThreadPoolDeathTest, RegionsDoNotNest) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        ThreadPool pool(1);
        pool.run(1, [&](int64_t, int) { pool.run(1, [](int64_t, int) {}); });
      },
      "do not nest");
}

// Which a worker's record of its crash needs (actors/worker_process.cc).
TEST(ThreadPoolSignals, AHandlerRunsOnAThreadWhoseStackIsFull) {
  struct Overflow {
    [[gnu::noinline]] static int run(volatile int* depth) {
      volatile char frame[4096];
      frame[0] = static_cast<char>(*depth);
      *depth = *depth + 1;
      return run(depth) + frame[0];
    }
  };
  const pid_t child = fork();
  if (child == 0) {
    struct sigaction action = {};
    action.sa_handler = [](int) { _exit(42); };
    action.sa_flags = SA_ONSTACK;
    sigaction(SIGSEGV, &action, nullptr);
    sigaction(SIGBUS, &action, nullptr);
    ThreadPool pool(2);
    std::atomic<bool> begun{false};
    pool.run(2, [&](int64_t, int thread) {
      int depth = 0;
      if (thread == 1) {
        begun = true;
        Overflow::run(&depth);
      }
      while (!begun) std::this_thread::yield();
      while (true) pause();
    });
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 42) << status;
}

}  // namespace
}  // namespace tandem::thread_pool_test
