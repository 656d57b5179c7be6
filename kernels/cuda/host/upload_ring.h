// Page-locked buffers through which parameters go to the device. The host's threads fill one while
// the others are copied, on a stream of their own. If the system gives no page-locked memory the
// buffers are ordinary memory, and copies do not overlap.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstddef>

#include "kernels/core/device_backend.h"
#include "kernels/core/thread_pool.h"

namespace tandem::cuda {

class UploadRing {
 public:
  // buffer_bytes: of each buffer, a multiple of 64.
  explicit UploadRing(size_t buffer_bytes);
  // Waits for the copies.
  ~UploadRing();
  UploadRing(const UploadRing&) = delete;
  UploadRing& operator=(const UploadRing&) = delete;

  // Copies the data of `read` to the device's memory at `to`, behind all work of `stream` so far
  // and before its later work (DeviceBackend::load).
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
