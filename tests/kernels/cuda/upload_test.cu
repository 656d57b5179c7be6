// Parameters on their way to the device: pieces larger and smaller than a buffer, ends that fit
// nothing, buffers that are used again, weights of all types in parts.
#include <cuda_runtime.h>

#include <cstdlib>
#include <cstring>
#include <vector>

#include "kernels/cuda/host/upload_ring.h"
#include "tests/kernels/cuda/device_matrix.h"

namespace tandem {
namespace {

using testing::kActivations;
using testing::Random;
using testing::rounded;

std::vector<std::byte> random_source(Random& random, size_t size) {
  std::vector<std::byte> out(size);
  for (std::byte& b : out) b = static_cast<std::byte>(random.integer(0, 255));
  return out;
}

// Several uploads through one ring, all awaited at the end only.
void check_uploads(Random& random, ThreadPool& pool, size_t buffer) {
  cudaStream_t stream = nullptr;
  TANDEM_CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  std::vector<std::vector<std::byte>> sources;
  std::vector<void*> there;
  cuda::UploadRing ring(buffer);
  for (const size_t bytes : {size_t{1}, size_t{63}, buffer - 1, buffer, buffer + 1, 2 * buffer,
                             5 * buffer + 17, size_t{7}, size_t{400'001}, size_t{0}}) {
    sources.push_back(random_source(random, bytes));
    TANDEM_CUDA_CHECK(cudaMalloc(&there.emplace_back(), bytes + 1));
    const std::byte* from = sources.back().data();
    ring.upload(
        static_cast<std::byte*>(there.back()), bytes, pool,
        [&](size_t begin, size_t count, std::byte* to) {
          ASSERT_EQ(begin % 64, 0u);
          ASSERT_LE(begin + count, bytes);
          std::memcpy(to, from + begin, count);
        },
        stream);
  }
  for (size_t i = 0; i < sources.size(); ++i) {
    std::vector<std::byte> back(sources[i].size());
    // On the stream that has been made to wait, and on no other.
    TANDEM_CUDA_CHECK(
        cudaMemcpyAsync(back.data(), there[i], back.size(), cudaMemcpyDeviceToHost, stream));
    TANDEM_CUDA_CHECK(cudaStreamSynchronize(stream));
    EXPECT_TRUE(back == sources[i]) << back.size() << " bytes, buffers of " << buffer;
    TANDEM_CUDA_CHECK(cudaFree(there[i]));
  }
  TANDEM_CUDA_CHECK(cudaStreamDestroy(stream));
}

TEST(CudaUpload, PiecesOfAllSizes) {
  Random random;
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    for (const size_t buffer : {64, 192, 4096, 300'032}) check_uploads(random, pool, buffer);
  }
}

#if defined(TANDEM_CUDA_EMULATED)
TEST(CudaUpload, WithoutPageLockedMemory) {
  Random random;
  ThreadPool pool(2);
  setenv("TANDEM_EMULATOR_PINNED_MEMORY", "4096", 1);  // one buffer of three
  check_uploads(random, pool, 4096);
  unsetenv("TANDEM_EMULATOR_PINNED_MEMORY");
}
#endif

// Weights from a file's bytes, at addresses that are aligned to nothing, of every type to every
// type; some larger than the backend's buffers.
void check_weight(Random& random, Context& ctx, DType from, int64_t columns,
                  const std::vector<int64_t>& rows) {
  const DType to = ctx.activations();
  const int64_t stride = columns + random.integer(0, 3);
  std::vector<std::vector<std::byte>> files;
  std::vector<MatrixView> parts;
  std::vector<float> want;
  for (const int64_t n : rows) {
    std::vector<float> values(static_cast<size_t>(n * stride));
    for (float& x : values) x = static_cast<float>(random.integer(-4000, 4000)) / 512.0f;
    const std::vector<std::byte> bytes = testing::to_type(values, from);
    auto& file = files.emplace_back(1, std::byte{});
    file.insert(file.end(), bytes.begin(), bytes.end());
    parts.push_back({file.data() + 1, from, n, columns, stride});
    const std::vector<float> once = testing::from_type(bytes, from);
    for (int64_t i = 0; i < n; ++i) {
      const std::span<const float> row(once.data() + i * stride, static_cast<size_t>(columns));
      const std::vector<float> twice = testing::from_type(testing::to_type(row, to), to);
      want.insert(want.end(), twice.begin(), twice.end());
    }
  }
  const PackedWeight packed(ctx, parts, to);
  const Tensor here = ctx.on_host(packed.data());
  const auto* bytes = static_cast<const std::byte*>(here.raw());
  EXPECT_TRUE(testing::from_type({bytes, here.bytes()}, to) == want)
      << name_of(from) << " to " << name_of(to) << ", " << want.size();
}

TEST(CudaUpload, Weights) {
  Random random;
  for (const DType to : kActivations) {
    Context ctx(2, std::make_unique<cuda::CudaBackend>(0), to);
    for (const DType from : kActivations) {
      check_weight(random, ctx, from, 1, {1});
      check_weight(random, ctx, from, 97, {3, 0, 5, 1});
      check_weight(random, ctx, from, 1024, {600, 77});
      check_weight(random, ctx, from, 70'001, {2, 1});  // a row in several parts
    }
    check_weight(random, ctx, DType::kF32, 1031, {3000, 2100});  // more than a buffer
    ctx.end_loading();
    check_weight(random, ctx, DType::kBF16, 33, {65});  // and again
  }
}

TEST(CudaUpload, Parameters) {
  Random random;
  Context ctx(2, std::make_unique<cuda::CudaBackend>(0), DType::kF32);
  std::vector<Tensor> here, there;
  for (const int64_t rows : {1, 2, 1000, 2500}) {
    here.push_back(random.matrix(rows, 1021));
    there.push_back(ctx.resident(here.back()));
  }
  ctx.end_loading();
  for (size_t i = 0; i < here.size(); ++i) {
    const Tensor back = ctx.on_host(there[i]);
    EXPECT_EQ(std::memcmp(back.raw(), here[i].raw(), back.bytes()), 0) << i;
  }
}

}  // namespace
}  // namespace tandem
