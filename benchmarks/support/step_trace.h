// When the ranks of a benchmark began and ended their steps, in memory that processes share:
// CLOCK_MONOTONIC is one clock for all of them. Made before they are forked.
#pragma once

#include <sys/mman.h>
#include <time.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <stdexcept>

namespace tandem::bench {

inline int64_t clock_ns(clockid_t clock = CLOCK_MONOTONIC) {
  timespec t{};
  clock_gettime(clock, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

inline void sleep_until_ns(int64_t time) {
  timespec t{};
  t.tv_sec = static_cast<time_t>(time / 1'000'000'000);
  t.tv_nsec = static_cast<long>(time % 1'000'000'000);
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, nullptr) != 0) {
  }
}

class StepTrace {
 public:
  static constexpr int kMaxRanks = 8;
  static constexpr int64_t kMaxSteps = 8192;  // later ones are not recorded

  struct Step {
    // ns: the step came, its tables are done, it ended; cpu: of the rank's thread, since it was
    // made.
    int64_t begin, ready, end, cpu;
    int32_t sequences;
  };
  struct Rank {
    std::atomic<int64_t> num_ready{0}, num_ended{0};  // steps
    Step steps[kMaxSteps];
  };

  StepTrace() {
    void* memory =
        mmap(nullptr, sizeof(Ranks), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    ranks_ = new (memory) Ranks;
  }
  ~StepTrace() { munmap(ranks_, sizeof(Ranks)); }
  StepTrace(const StepTrace&) = delete;
  StepTrace& operator=(const StepTrace&) = delete;

  Rank& rank(int r) { return ranks_->rank[r]; }
  // By one thread for each rank.
  void ready(int r, int64_t begin, int sequences) {
    Rank& rank = this->rank(r);
    const int64_t n = rank.num_ready.load(std::memory_order_relaxed);
    if (n < kMaxSteps) rank.steps[n] = {begin, clock_ns(), 0, 0, sequences};
    rank.num_ready.store(n + 1, std::memory_order_release);
  }
  void end(int r) {
    Rank& rank = this->rank(r);
    const int64_t n = rank.num_ended.load(std::memory_order_relaxed);
    if (n < kMaxSteps) {
      rank.steps[n].end = clock_ns();
      rank.steps[n].cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    }
    rank.num_ended.store(n + 1, std::memory_order_release);
  }

 private:
  struct Ranks {
    Rank rank[kMaxRanks];
  };
  Ranks* ranks_;
};

}  // namespace tandem::bench
