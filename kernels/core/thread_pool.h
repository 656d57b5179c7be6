// The compute threads. One pool per process; the caller is one of its threads.
//
// Between the regions of a step the workers spin, because a futex wake costs more than a small op.
// After about a millisecond without work they sleep. Tasks are claimed from an atomic counter: a
// thread that lost its core delays a region by one task, not by a static share.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace tandem {

class ThreadPool {
 public:
  // `threads` >= 1, the caller included. Pins workers if there are exactly as many threads as cores
  // in the affinity mask. (With fewer threads another rank may share the mask and pin to the same
  // cores.) The caller's own affinity does not change.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const;

  // Calls body(task, thread) for every task in [0, tasks), thread in [0, threads()), and returns
  // when all are done. Not reentrant: one region at a time, from one thread at a time. The body
  // must not throw.
  void run(int64_t tasks, const std::function<void(int64_t task, int thread)>& body);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem
