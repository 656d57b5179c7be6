// Locks that clang checks: GUARDED_BY names the mutex of a field, REQUIRES the one that a caller
// holds. `scripts/check_locks` compiles with -Werror=thread-safety; g++ ignores the annotations.
// https://clang.llvm.org/docs/ThreadSafetyAnalysis.html
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <shared_mutex>

#if defined(__clang__)
#define TANDEM_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define TANDEM_THREAD_ANNOTATION(x)
#endif

#define GUARDED_BY(mutex) TANDEM_THREAD_ANNOTATION(guarded_by(mutex))
#define REQUIRES(mutex) TANDEM_THREAD_ANNOTATION(requires_capability(mutex))
#define EXCLUDES(mutex) TANDEM_THREAD_ANNOTATION(locks_excluded(mutex))
// The analysis cannot follow this function; a comment says what holds instead.
#define NO_THREAD_SAFETY_ANALYSIS TANDEM_THREAD_ANNOTATION(no_thread_safety_analysis)

namespace tandem {

class TANDEM_THREAD_ANNOTATION(capability("mutex")) Mutex {
 public:
  void lock() TANDEM_THREAD_ANNOTATION(acquire_capability()) { mutex_.lock(); }
  void unlock() TANDEM_THREAD_ANNOTATION(release_capability()) { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

// Holds a mutex until the end of its scope, or between lock() and unlock().
class TANDEM_THREAD_ANNOTATION(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) TANDEM_THREAD_ANNOTATION(acquire_capability(mutex))
      : mutex_(mutex) {
    mutex_.lock();
  }
  ~MutexLock() TANDEM_THREAD_ANNOTATION(release_capability()) {
    if (held_) mutex_.unlock();
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void lock() TANDEM_THREAD_ANNOTATION(acquire_capability()) {
    mutex_.lock();
    held_ = true;
  }
  void unlock() TANDEM_THREAD_ANNOTATION(release_capability()) {
    held_ = false;
    mutex_.unlock();
  }

 private:
  Mutex& mutex_;
  bool held_ = true;
};

// Wakes spuriously: wait in a loop that asks for the condition. A loop rather than a predicate,
// because the analysis does not look into lambdas.
class CondVar {
 public:
  void wait(Mutex& mutex) REQUIRES(mutex) {
    std::unique_lock lock(mutex.mutex_, std::adopt_lock);
    changed_.wait(lock);
    lock.release();
  }
  // Returns false once `deadline` has passed.
  bool wait_until(Mutex& mutex, std::chrono::steady_clock::time_point deadline) REQUIRES(mutex) {
    std::unique_lock lock(mutex.mutex_, std::adopt_lock);
    const bool in_time = changed_.wait_until(lock, deadline) == std::cv_status::no_timeout;
    lock.release();
    return in_time;
  }
  void notify_one() { changed_.notify_one(); }
  void notify_all() { changed_.notify_all(); }

 private:
  std::condition_variable changed_;
};

class TANDEM_THREAD_ANNOTATION(capability("mutex")) SharedMutex {
 public:
  void lock() TANDEM_THREAD_ANNOTATION(acquire_capability()) { mutex_.lock(); }
  void unlock() TANDEM_THREAD_ANNOTATION(release_capability()) { mutex_.unlock(); }
  void lock_shared() TANDEM_THREAD_ANNOTATION(acquire_shared_capability()) { mutex_.lock_shared(); }
  void unlock_shared() TANDEM_THREAD_ANNOTATION(release_shared_capability()) {
    mutex_.unlock_shared();
  }

 private:
  std::shared_mutex mutex_;
};

class TANDEM_THREAD_ANNOTATION(scoped_lockable) ReaderLock {
 public:
  explicit ReaderLock(SharedMutex& mutex) TANDEM_THREAD_ANNOTATION(acquire_shared_capability(mutex))
      : mutex_(mutex) {
    mutex_.lock_shared();
  }
  ~ReaderLock() TANDEM_THREAD_ANNOTATION(release_generic_capability()) { mutex_.unlock_shared(); }
  ReaderLock(const ReaderLock&) = delete;
  ReaderLock& operator=(const ReaderLock&) = delete;

 private:
  SharedMutex& mutex_;
};

class TANDEM_THREAD_ANNOTATION(scoped_lockable) WriterLock {
 public:
  explicit WriterLock(SharedMutex& mutex) TANDEM_THREAD_ANNOTATION(acquire_capability(mutex))
      : mutex_(mutex) {
    mutex_.lock();
  }
  ~WriterLock() TANDEM_THREAD_ANNOTATION(release_capability()) { mutex_.unlock(); }
  WriterLock(const WriterLock&) = delete;
  WriterLock& operator=(const WriterLock&) = delete;

 private:
  SharedMutex& mutex_;
};

}  // namespace tandem
