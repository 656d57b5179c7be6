// Page-locked buffers through which parameters go to the device: the host's threads fill one while
// the copies out of the others are under way, on a stream of their own. Where the system gives no
// page-locked memory they are ordinary memory, and copies do not overlap.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstddef>

#include "kernels/core/device_backend.h"
#include "kernels/core/thread_pool.h"

namespace tandem::cuda {

class UploadRing {
 public:
  // Buffers of so many bytes, a multiple of 64.
  explicit UploadRing(size_t buffer_bytes);
  // Waits for the copies.
  ~UploadRing();
  UploadRing(const UploadRing&) = delete;
  UploadRing& operator=(const UploadRing&) = delete;

  // What `read` gives to the device's memory at `to`, behind all work of `stream` so far and in
  // front of what comes (DeviceBackend::load).
  void upload(std::byte* to, size_t bytes, ThreadPool& pool, const DeviceBackend::ReadPart& read,
              cudaStream_t stream);

 private:
  static constexpr size_t kBuffers = 3;
  struct Buffer {
    std::byte* data = nullptr;
    bool pinned = false;
    cudaEvent_t sent = nullptr;  // the last copy out of it
  };

  size_t buffer_bytes_;
  std::array<Buffer, kBuffers> buffers_;
  size_t next_ = 0;
  cudaStream_t copies_ = nullptr;
  cudaEvent_t order_ = nullptr;  // between the two streams
};

}  // namespace tandem::cuda
