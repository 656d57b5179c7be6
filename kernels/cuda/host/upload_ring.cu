// See upload_ring.h.
#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "base/error.h"
#include "kernels/cuda/host/upload_ring.h"
#include "kernels/cuda/launch.cuh"

namespace tandem::cuda {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kPartBytes = size_t{128} << 10;  // what a thread reads at a time

}  // namespace

UploadRing::UploadRing(size_t buffer_bytes) : buffer_bytes_(buffer_bytes) {
  TANDEM_CHECK(buffer_bytes > 0 && buffer_bytes % 64 == 0);
  for (Buffer& b : buffers_) {
    void* data = nullptr;
    b.pinned = cudaMallocHost(&data, buffer_bytes) == cudaSuccess;
    if (!b.pinned) {
      cudaGetLastError();  // not an error: slower
      data = std::aligned_alloc(kPage, (buffer_bytes + kPage - 1) / kPage * kPage);
      if (data == nullptr)
        throw InputError(ErrorKind::kResource, "no memory for parameters on their way");
    }
    b.data = static_cast<std::byte*>(data);
    TANDEM_CUDA_CHECK(cudaEventCreateWithFlags(&b.sent, cudaEventDisableTiming));
  }
  TANDEM_CUDA_CHECK(cudaStreamCreateWithFlags(&copies_, cudaStreamNonBlocking));
  TANDEM_CUDA_CHECK(cudaEventCreateWithFlags(&order_, cudaEventDisableTiming));
}

UploadRing::~UploadRing() {
  cudaStreamSynchronize(copies_);
  for (const Buffer& b : buffers_) {
    cudaEventDestroy(b.sent);
    b.pinned ? static_cast<void>(cudaFreeHost(b.data)) : std::free(b.data);
  }
  cudaEventDestroy(order_);
  cudaStreamDestroy(copies_);
}

void UploadRing::upload(std::byte* to, size_t bytes, ThreadPool& pool,
                        const DeviceBackend::ReadPart& read, cudaStream_t stream) {
  TANDEM_CUDA_CHECK(cudaEventRecord(order_, stream));
  TANDEM_CUDA_CHECK(cudaStreamWaitEvent(copies_, order_, 0));
  for (size_t at = 0; at < bytes; at += buffer_bytes_) {
    const Buffer& b = buffers_[next_];
    next_ = (next_ + 1) % kBuffers;
    const size_t piece = std::min(buffer_bytes_, bytes - at);
    TANDEM_CUDA_CHECK(cudaEventSynchronize(b.sent));
    pool.run(static_cast<int64_t>((piece + kPartBytes - 1) / kPartBytes), [&](int64_t i, int) {
      const size_t begin = static_cast<size_t>(i) * kPartBytes;
      read(at + begin, std::min(kPartBytes, piece - begin), b.data + begin);
    });
    TANDEM_CUDA_CHECK(cudaMemcpyAsync(to + at, b.data, piece, cudaMemcpyHostToDevice, copies_));
    TANDEM_CUDA_CHECK(cudaEventRecord(b.sent, copies_));
  }
  TANDEM_CUDA_CHECK(cudaEventRecord(order_, copies_));
  TANDEM_CUDA_CHECK(cudaStreamWaitEvent(stream, order_, 0));
}

}  // namespace tandem::cuda
