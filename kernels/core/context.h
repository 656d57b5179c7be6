// Where ops run: a device and what it needs. Passed to every op; owned by the worker.
#pragma once

#include <memory>

#include "kernels/core/tensor.h"
#include "kernels/core/thread_pool.h"

namespace tandem {

enum class Device : uint8_t { kCpu, kCuda };

class Context {
 public:
  explicit Context(int threads) : pool_(std::make_unique<ThreadPool>(threads)) {}

  Device device() const { return Device::kCpu; }
  ThreadPool& pool() { return *pool_; }
  int threads() const { return pool_->threads(); }

  // Scratch of the calling op, 64-byte aligned, at least `bytes`; valid until the next call.
  void* workspace(size_t bytes) {
    if (static_cast<size_t>(workspace_.size()) < bytes)
      workspace_ = Tensor({static_cast<int64_t>(bytes + bytes / 4)}, DType::kU8);
    return workspace_.raw();
  }

 private:
  std::unique_ptr<ThreadPool> pool_;
  Tensor workspace_;
};

}  // namespace tandem
