// One 64-bit word holds the region: its number and how many of its tasks are unclaimed. A claim is
// a compare-and-swap on it, so that a worker that comes late finds nothing left and cannot touch a
// region that has ended. The caller waits for tasks, never for workers: a sleeping worker costs a
// wake and not a wait.
#include "kernels/core/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/profile/profile.h"
#include "base/signal_stack.h"

namespace tandem {
namespace {

using Clock = std::chrono::steady_clock;
using Body = std::function<void(int64_t, int)>;

constexpr auto kSpinTime = std::chrono::milliseconds(1);
constexpr int kPausesPerClock = 64;       // the clock is read once in so many pauses
constexpr int kPausesBeforeYield = 2048;  // an idle thread gives way to others from here on

// A thread's share of a region, and what it waits for behind it: the others' (the caller), the next
// region that leaves it something to do (the others). Regions of one task or one thread have none.
constexpr SpanKind kShare{"tasks", "pool", {"tasks"}};
constexpr SpanKind kWait{"wait", "wait"};

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

std::vector<int> allowed_cpus() {
  std::vector<int> cpus;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  return cpus;
}

void pin_this_thread(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);  // a refusal costs speed only
}

// Waits a little longer each time: pauses, then yields the core.
class Backoff {
 public:
  explicit Backoff(bool crowded) : limit_(crowded ? 16 : kPausesBeforeYield) {}
  int step() {
    if (++count_ <= limit_ || count_ % 16 != 0) {
      pause();
    } else {
      sched_yield();
    }
    return count_;
  }

 private:
  int limit_;
  int count_ = 0;
};

// What a thread did in a region.
struct Share {
  int64_t tasks = 0;
  ProfileTrack* track = nullptr;  // where it is recorded; null: it is not
  int64_t begin = 0;              // of profile_clock(), where there is a track
  int64_t since = 0;              // when recording began
};

}  // namespace

struct ThreadPool::Impl {
  // Low half: tasks not claimed yet. High half: the region's number.
  alignas(64) std::atomic<uint64_t> state{0};
  alignas(64) std::atomic<int64_t> done{0};
  alignas(64) std::atomic<int> sleepers{0};
  std::atomic<uint32_t> wake{0};
  std::atomic<bool> stop{false};
  // Of the running region; read only after a successful claim.
  alignas(64) const Body* body = nullptr;
  int64_t tasks = 0;
  ProfileGroup* profiled = nullptr;  // null: it is not recorded
  int64_t profiled_since = 0;        // when the first one began that was, without a gap
  bool running = false;              // of the caller, to catch nested regions

  int threads = 1;
  bool crowded = false;  // more threads than cores: do not spin for long
  std::vector<std::thread> workers;

  static bool has_work(uint64_t s) { return (s & 0xffffffffu) != 0; }
  bool idle() const {
    return !has_work(state.load(std::memory_order_acquire)) &&
           !stop.load(std::memory_order_acquire);
  }

  // Claims and runs tasks until none is left.
  Share work(int thread) {
    Share share;
    uint64_t s = state.load(std::memory_order_acquire);
    while (has_work(s)) {
      if (!state.compare_exchange_weak(s, s - 1, std::memory_order_acq_rel,
                                       std::memory_order_acquire))
        continue;
      if (share.tasks == 0 && profiled != nullptr) [[unlikely]] {
        share.track = profiled->find_track(thread);
        share.begin = profile_clock();
        share.since = profiled_since;
      }
      (*body)(tasks - static_cast<int64_t>(s & 0xffffffffu), thread);
      ++share.tasks;
      s = state.load(std::memory_order_acquire);
    }
    return share;
  }

  void sleep() {
    sleepers.fetch_add(1, std::memory_order_seq_cst);
    const uint32_t seen = wake.load(std::memory_order_seq_cst);
    if (!has_work(state.load(std::memory_order_seq_cst)) && !stop.load(std::memory_order_seq_cst))
      wake.wait(seen, std::memory_order_seq_cst);
    sleepers.fetch_sub(1, std::memory_order_seq_cst);
  }

  void wake_sleepers() {
    if (sleepers.load(std::memory_order_seq_cst) == 0) return;
    wake.fetch_add(1, std::memory_order_seq_cst);
    wake.notify_all();
  }

  // Spins until there is work or the pool stops; sleeps after kSpinTime.
  void wait_for_work() {
    Backoff backoff(crowded);
    const auto start = Clock::now();
    while (idle()) {
      if (backoff.step() % kPausesPerClock == 0 && Clock::now() - start > kSpinTime) {
        sleep();
        return;
      }
    }
  }

  void worker(int thread, int cpu) {
    if (cpu >= 0) pin_this_thread(cpu);
    use_signal_stack();
    int64_t idle_since = 0;  // of profile_clock(); 0: since something that is not recorded
    while (!stop.load(std::memory_order_acquire)) {
      const Share share = work(thread);
      if (share.tasks > 0) {
        const int64_t end = share.track == nullptr ? 0 : profile_clock();
        done.fetch_add(share.tasks, std::memory_order_release);
        if (share.track != nullptr) [[unlikely]]
          record(share, idle_since, end);
        idle_since = end;
      }
      wait_for_work();
    }
  }

  // Of a worker: its track is its own, whoever reads it meanwhile.
  static void record(const Share& share, int64_t idle_since, int64_t end) {
    share.track->add({&kWait, std::max(idle_since, share.since), share.begin, nullptr, {}});
    share.track->add({&kShare, share.begin, end, nullptr, {share.tasks}});
  }

  void end() {
    stop.store(true, std::memory_order_seq_cst);
    wake.fetch_add(1, std::memory_order_seq_cst);
    wake.notify_all();
    for (std::thread& t : workers) t.join();
  }

  void run_region(int64_t count, const Body& b) {
    body = &b;
    tasks = count;
    const int64_t begun = profiled_group == nullptr ? 0 : profile_clock();
    if (profiled != profiled_group) [[unlikely]] {
      profiled = profiled_group;
      profiled_since = begun;
    }
    done.store(0, std::memory_order_relaxed);
    const uint64_t region = (state.load(std::memory_order_relaxed) >> 32) + 1;
    state.store(region << 32 | static_cast<uint64_t>(count), std::memory_order_seq_cst);
    wake_sleepers();
    const Share mine = work(0);
    const int64_t waits_from = profiled == nullptr ? 0 : profile_clock();
    Backoff backoff(crowded);
    while (done.load(std::memory_order_acquire) + mine.tasks < count) backoff.step();
    ProfileTrack* const track = profiled == nullptr ? nullptr : profiled->find_track(0);
    if (track == nullptr) [[likely]]
      return;
    track->add({&kShare, begun, waits_from, nullptr, {mine.tasks}});
    track->add({&kWait, waits_from, profile_clock(), nullptr, {}});
  }
};

ThreadPool::ThreadPool(int threads) : impl_(std::make_unique<Impl>()) {
  TANDEM_CHECK_GE(threads, 1);
  const std::vector<int> cpus = allowed_cpus();
  const int cores = static_cast<int>(cpus.size());
  impl_->threads = threads;
  impl_->crowded = threads > cores;
  const bool pin = threads == cores;
  try {
    for (int i = 1; i < threads; ++i)
      impl_->workers.emplace_back(
          [impl = impl_.get(), i, cpu = pin ? cpus[static_cast<size_t>(i)] : -1] {
            impl->worker(i, cpu);
          });
  } catch (...) {  // the system has no more threads; those that there are must end
    impl_->end();
    throw;
  }
}

ThreadPool::~ThreadPool() { impl_->end(); }

int ThreadPool::threads() const { return impl_->threads; }

void ThreadPool::run(int64_t tasks, const Body& body) {
  TANDEM_CHECK(!impl_->running, "regions do not nest");
  TANDEM_CHECK_LT(tasks, int64_t{1} << 32);
  if (tasks <= 0) return;
  impl_->running = true;
  if (impl_->threads == 1 || tasks == 1) {
    for (int64_t i = 0; i < tasks; ++i) body(i, 0);
  } else {
    impl_->run_region(tasks, body);
  }
  impl_->running = false;
}

}  // namespace tandem
