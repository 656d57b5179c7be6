// Where ops run: a device and what it needs. Passed to every op; owned by the worker.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>

#include "kernels/core/device_backend.h"
#include "kernels/core/host_scratch.h"
#include "kernels/core/tensor.h"
#include "kernels/core/thread_pool.h"

namespace tandem {

class Context {
 public:
  // The CPU.
  explicit Context(int threads) : pool_(std::make_unique<ThreadPool>(threads)) {}
  // A device, with host threads for what stays there. `activations`: f32, f16 or bf16.
  Context(int threads, std::unique_ptr<DeviceBackend> backend, DType activations)
      : pool_(std::make_unique<ThreadPool>(threads)),
        backend_(std::move(backend)),
        activations_(activations) {}

  Device device() const { return backend_ ? backend_->device() : Device::kCpu; }
  bool on_cpu() const { return backend_ == nullptr; }
  DeviceBackend& backend() {
    TANDEM_CHECK(backend_ != nullptr, "the CPU has no backend");
    return *backend_;
  }
  // Null on the CPU.
  const DeviceBackend* backend_or_null() const { return backend_.get(); }
  ThreadPool& pool() { return *pool_; }
  int threads() const { return pool_->threads(); }

  // The type of activations between layers. The CPU's is f32.
  DType activations() const { return activations_; }
  // An uninitialised output of an op. A device frees it with the step, the CPU with its last
  // tensor.
  Tensor make(const Shape& shape, DType dtype) {
    return backend_ ? backend_->scratch(shape, dtype) : scratch_.make(shape, dtype);
  }
  Tensor make(const Shape& shape) { return make(shape, activations_); }

  // A parameter of the model in the device's memory. On the CPU the tensor itself.
  Tensor resident(const Tensor& host) {
    if (!backend_ || host.empty()) return host;
    TANDEM_CHECK(host.contiguous());
    const Tensor there = backend_->allocate(host.shape(), host.dtype());
    backend_->load(there, *pool_, [&](size_t begin, size_t bytes, std::byte* to) {
      std::memcpy(to, static_cast<const std::byte*>(host.raw()) + begin, bytes);
    });
    return there;
  }
  // All parameters are resident.
  void end_loading() {
    if (backend_) backend_->end_loading();
  }

  // The same for a bias (f32): a device adds it in the type of the sums it is added to.
  Tensor resident_bias(const Tensor& host, DType type);

  // The tensor in host memory, all work on it done. On the CPU the tensor itself.
  Tensor on_host(const Tensor& t) {
    if (t.device() == Device::kCpu) return t;
    const Tensor here(t.shape(), t.dtype());
    Tensor whole = t;
    if (!t.contiguous()) {
      whole = make(t.shape(), t.dtype());
      backend().copy_matrix(t, whole);
    }
    backend().copy_out(whole, here);
    backend().synchronize();
    return here;
  }

  // Makes the system commit the first `bytes` of a host tensor now instead of at the first write:
  // zeroing a huge page can take milliseconds. Overwrites them.
  void commit(const Tensor& t, size_t bytes);
  // The same for the first memory of make() and workspace().
  void commit_scratch(size_t bytes);

  // Where the CPU's make() takes its memory.
  const HostScratch& host_scratch() const { return scratch_; }

  // The CPU's scratch memory of the calling op: 64-byte aligned, at least `bytes`, valid until the
  // next call.
  void* workspace(size_t bytes) {
    if (static_cast<size_t>(workspace_.size()) < bytes)
      workspace_ = Tensor({static_cast<int64_t>(bytes + bytes / 4)}, DType::kU8);
    return workspace_.raw();
  }

 private:
  std::unique_ptr<ThreadPool> pool_;
  std::unique_ptr<DeviceBackend> backend_;
  DType activations_ = DType::kF32;
  HostScratch scratch_;
  Tensor workspace_;
};

}  // namespace tandem
