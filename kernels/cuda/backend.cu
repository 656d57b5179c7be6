// Memory, copies and recordings of a CUDA device (backend.h).
#include <algorithm>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <thread>

#include "base/error.h"
#include "base/poll_nap.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/backend.h"
#include "kernels/cuda/environment.h"
#include "kernels/cuda/host/failure.h"
#include "kernels/cuda/host/upload_ring.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/linear/gemm_cache.h"
#include "kernels/cuda/linear/linear_best.h"
#include "kernels/cuda/linear/weight_path.h"
#include "kernels/cuda/ops_cuda.h"
#include "kernels/cuda/step/step_memory.h"

namespace tandem::cuda {
namespace {

constexpr size_t kStagingBytes = size_t{4} << 20;
constexpr size_t kStagingBuffers = 8;  // two steps send that many pieces
constexpr size_t kUploadBytes = size_t{8} << 20;
constexpr size_t kFirstSegment = size_t{64} << 20;

size_t bytes_of(const Shape& shape, DType dtype) {
  size_t n = size_of(dtype);
  for (const int64_t d : shape) n *= static_cast<size_t>(d);
  return n;
}

bool is_page_locked(const void* host) {
  cudaPointerAttributes attributes{};
  TANDEM_CUDA_CHECK(cudaPointerGetAttributes(&attributes, host));
  return attributes.type == cudaMemoryTypeHost;
}

[[noreturn]] void no_memory(const char* where, size_t bytes) {
  cudaGetLastError();  // the failure is told, and does not stick
  throw InputError(ErrorKind::kResource, std::string(where) + " has no " + std::to_string(bytes) +
                                             " bytes left (see --gpu-memory-utilization and "
                                             "--kv-cache-memory)");
}

void refuse_recording(bool recording, const char* what) {
  if (recording) throw RecordingRefused(what);
}

}  // namespace

CudaBackend::CudaBackend(int index, Unopened) : index_(index) {}

// (Once the first constructor is through, the destructor runs whatever the body throws.)
CudaBackend::CudaBackend(int index) : CudaBackend(index, Unopened()) {
  TANDEM_CUDA_CHECK(cudaSetDevice(index));
  cudaDeviceProp properties{};
  TANDEM_CUDA_CHECK(cudaGetDeviceProperties(&properties, index));
  product_ = properties.name;
  capability_ = 10 * properties.major + properties.minor;
  most_dependent_rows_ = capability_ >= 90 ? dependent_rows_wanted() : 0;
  most_best_rows_ = best_rows_wanted();
  most_direct_rows_ = direct_rows_wanted();
  most_cluster_rows_ = cluster_rows_wanted();
  least_wide_rows_ = wide_rows_wanted();
  most_step_rows_ = capability_ >= 80 ? step_rows_wanted() : 0;
  multiprocessors_ = properties.multiProcessorCount;
  cache_bytes_ = static_cast<size_t>(properties.l2CacheSize);
  shared_limit_ = properties.sharedMemPerBlockOptin;
  shared_of_multiprocessor_ = properties.sharedMemPerMultiprocessor;
  shared_of_system_ = properties.reservedSharedMemPerBlock;
  TANDEM_CUDA_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  staging_.resize(kStagingBuffers);
  for (Staging& s : staging_) {
    if (cudaMallocHost(&s.data, kStagingBytes) != cudaSuccess) {
      s.data = nullptr;
      no_memory("page-locked host memory", kStagingBytes);
    }
    TANDEM_CUDA_CHECK(cudaEventCreateWithFlags(&s.sent, cudaEventDisableTiming));
  }
  for (cudaEvent_t& mark : marks_) TANDEM_CUDA_CHECK(cudaEventCreate(&mark));
  void* workspace = nullptr;
  if (cudaMalloc(&workspace, GemmCache::kWorkspaceBytes) != cudaSuccess)
    no_memory(product_.c_str(), GemmCache::kWorkspaceBytes);
  gemms_ = std::make_unique<GemmCache>(workspace);
  if (cudaMalloc(reinterpret_cast<void**>(&ticket_), sizeof(*ticket_)) != cudaSuccess) {
    ticket_ = nullptr;
    no_memory(product_.c_str(), sizeof(*ticket_));
  }
  TANDEM_CUDA_CHECK(cudaMemsetAsync(ticket_, 0, sizeof(*ticket_), stream_));
  if (most_step_rows_ > 0) step_memory_ = std::make_unique<StepMemory>(*this);
}

CudaBackend::~CudaBackend() {
  cudaSetDevice(index_);
  if (step_memory_ != nullptr) step_memory_->abort();
  if (stream_ != nullptr) cudaStreamSynchronize(stream_);
  recordings_.clear();
  step_memory_.reset();
  gemms_.reset();
  uploads_.reset();
  if (ticket_ != nullptr) cudaFree(ticket_);
  for (void* segment : segments_) cudaFree(segment);
  for (const cudaEvent_t mark : marks_)
    if (mark != nullptr) cudaEventDestroy(mark);
  for (const Staging& s : staging_) {
    if (s.sent != nullptr) cudaEventDestroy(s.sent);
    if (s.data != nullptr) cudaFreeHost(s.data);
  }
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

std::string CudaBackend::name() const {
  return product_ + " (cuda:" + std::to_string(index_) + ", " + std::to_string(capability_ / 10) +
         "." + std::to_string(capability_ % 10) + ")";
}

const OpTable& CudaBackend::ops() const { return kCudaOps; }

DeviceMemory CudaBackend::memory() const {
  TANDEM_CUDA_CHECK(cudaSetDevice(index_));
  DeviceMemory m;
  TANDEM_CUDA_CHECK(cudaMemGetInfo(&m.free, &m.total));
  m.scratch = scratch_bytes_;
  return m;
}

// Memory is that of the calling thread's device, whatever thread that is.
Tensor CudaBackend::allocate(const Shape& shape, DType dtype) {
  refuse_recording(recording_, "memory is allocated");
  const size_t bytes = std::max<size_t>(bytes_of(shape, dtype), 1);
  TANDEM_CUDA_CHECK(cudaSetDevice(index_));
  void* data = nullptr;
  if (cudaMalloc(&data, bytes) != cudaSuccess) no_memory(product_.c_str(), bytes);
  return Tensor::adopt({data, [](void* p) { cudaFree(p); }}, data, shape, dtype, Device::kCuda);
}

Tensor CudaBackend::allocate_host(const Shape& shape, DType dtype) {
  refuse_recording(recording_, "page-locked memory is allocated");
  const size_t bytes = std::max<size_t>(bytes_of(shape, dtype), 1);
  TANDEM_CUDA_CHECK(cudaSetDevice(index_));
  void* data = nullptr;
  if (cudaMallocHost(&data, bytes) != cudaSuccess) no_memory("page-locked host memory", bytes);
  return Tensor::adopt({data, [](void* p) { cudaFreeHost(p); }}, data, shape, dtype, Device::kCpu);
}

void CudaBackend::add_segment(size_t at_least) {
  refuse_recording(recording_, "a step needs more memory than it did before");
  TANDEM_CUDA_CHECK(cudaSetDevice(index_));
  // Each twice the last: few segments, however large steps become.
  const size_t bytes = std::max(at_least, kFirstSegment << std::min<size_t>(segments_.size(), 6));
  void* data = nullptr;
  if (cudaMalloc(&data, bytes) != cudaSuccess) no_memory(product_.c_str(), bytes);
  segments_.push_back(data);
  scratch_bytes_ += bytes;
  arena_->add_segment(bytes);
}

Tensor CudaBackend::scratch(const Shape& shape, DType dtype) {
  const size_t bytes = bytes_of(shape, dtype);
  ScratchArena::Place place;
  if (!arena_->allocate(bytes, place)) {
    add_segment(bytes + ScratchArena::kAlignment);
    TANDEM_CHECK(arena_->allocate(bytes, place));
  }
  void* data = static_cast<std::byte*>(segments_[place.segment]) + place.offset;
  // Given back at once: whatever uses the place next runs behind what uses it now.
  const auto give_back = [arena = arena_, place, epoch = arena_->epoch()](void*) {
    arena->release(place, epoch);
  };
  return Tensor::adopt({data, give_back}, data, shape, dtype, Device::kCuda);
}

void CudaBackend::begin_step() {
  rows_ = kAnyRows;
  TANDEM_CUDA_CHECK(cudaSetDevice(index_));  // of the calling thread
  arena_->reset();
}

void CudaBackend::copy_in(const Tensor& host, const Tensor& device) {
  TANDEM_CHECK(host.contiguous() && device.contiguous());
  TANDEM_CHECK_EQ(host.bytes(), device.bytes());
  TANDEM_CHECK(!recording_, "inputs are sent before a step is recorded");
  const auto* from = static_cast<const std::byte*>(host.raw());
  auto* to = static_cast<std::byte*>(device.raw());
  for (size_t at = 0; at < host.bytes(); at += kStagingBytes) {
    Staging& s = staging_[next_staging_];
    next_staging_ = (next_staging_ + 1) % staging_.size();
    const size_t bytes = std::min(kStagingBytes, host.bytes() - at);
    // (The copy may be behind collectives whose other ranks are lost.)
    wait_for(s.sent);
    std::memcpy(s.data, from + at, bytes);
    TANDEM_CUDA_CHECK(cudaMemcpyAsync(to + at, s.data, bytes, cudaMemcpyHostToDevice, stream_));
    TANDEM_CUDA_CHECK(cudaEventRecord(s.sent, stream_));
  }
}

void CudaBackend::load(const Tensor& device, ThreadPool& pool, const ReadPart& read) {
  TANDEM_CHECK(device.contiguous());
  TANDEM_CHECK(!recording_, "parameters are loaded before steps are recorded");
  TANDEM_CUDA_CHECK(cudaSetDevice(index_));
  if (!uploads_) uploads_ = std::make_unique<UploadRing>(kUploadBytes);
  uploads_->upload(static_cast<std::byte*>(device.raw()), device.bytes(), pool, read, stream_);
}

void CudaBackend::end_loading() { uploads_.reset(); }

void CudaBackend::copy_out(const Tensor& device, const Tensor& host) {
  TANDEM_CHECK(host.contiguous() && device.contiguous());
  TANDEM_CHECK_EQ(host.bytes(), device.bytes());
  if (host.bytes() == 0) return;
  // Copies to memory that is not page-locked are waited for in the driver, where nothing watches.
  if (!checks_.empty() && !is_page_locked(host.raw())) synchronize();
  TANDEM_CUDA_CHECK(
      cudaMemcpyAsync(host.raw(), device.raw(), host.bytes(), cudaMemcpyDeviceToHost, stream_));
}

void CudaBackend::copy_matrix(const Tensor& from, const Tensor& to) {
  TANDEM_CHECK_EQ(to_string(from.shape()), to_string(to.shape()));
  TANDEM_CHECK(from.dtype() == to.dtype());
  const size_t element = size_of(from.dtype());
  const auto rows = static_cast<size_t>(from.dim(0)), width = static_cast<size_t>(from.dim(1));
  if (rows * width == 0) return;
  TANDEM_CUDA_CHECK(cudaMemcpy2DAsync(to.raw(), static_cast<size_t>(to.row_stride()) * element,
                                      from.raw(), static_cast<size_t>(from.row_stride()) * element,
                                      width * element, rows, cudaMemcpyDeviceToDevice, stream_));
}

namespace {

// Of a stream or an event. "Not ready" stays behind as the thread's last error, which the next
// after_launch() would find.
bool is_done(cudaError_t state) {
  if (state == cudaSuccess) return true;
  if (state != cudaErrorNotReady)
    cuda_failed(__FILE__, __LINE__, "what the device was waited for", state);
  cudaGetLastError();
  return false;
}

}  // namespace

void CudaBackend::wait_for(cudaEvent_t event) {
  if (!checks_.empty()) {
    wait_until([&] { return is_done(cudaEventQuery(event)); });
  } else {
    TANDEM_CUDA_CHECK(cudaEventSynchronize(event));
  }
}

constexpr std::chrono::milliseconds kSpinTime(1);

void CudaBackend::wait_until(const std::function<bool()>& done) {
  const auto start = std::chrono::steady_clock::now();
  bool is_short = true;
  for (int turn = 0; !done(); ++turn) {
    if (is_short && turn % 256 != 255) continue;
    const auto waited = std::chrono::steady_clock::now() - start;
    check_all(waited);
    // Short waits are for what is all but done; long ones must not take a core.
    is_short = waited < kSpinTime;
    if (is_short)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(poll_nap(waited));
  }
  check_all(std::chrono::nanoseconds(0));
}

void CudaBackend::synchronize() {
  if (!checks_.empty()) {
    wait_until([&] { return is_done(cudaStreamQuery(stream_)); });
  } else {
    TANDEM_CUDA_CHECK(cudaStreamSynchronize(stream_));
  }
}

cudaEvent_t CudaBackend::event_of(uint64_t mark) const {
  TANDEM_CHECK_LT(mark, num_marks_);
  TANDEM_CHECK_LE(num_marks_, mark + kMarksKept);
  return marks_[mark % kMarksKept];
}

uint64_t CudaBackend::mark() {
  TANDEM_CHECK(!recording_, "a recorded step has no marks");
  const uint64_t number = num_marks_++;
  TANDEM_CUDA_CHECK(cudaEventRecord(event_of(number), stream_));
  return number;
}

bool CudaBackend::reached(uint64_t mark) {
  const bool done = is_done(cudaEventQuery(event_of(mark)));
  if (checks_.empty()) return done;
  const auto now = std::chrono::steady_clock::now();
  if (asked_for_ != mark) {
    asked_for_ = mark;
    asked_since_ = now;
  }
  check_all(done ? std::chrono::nanoseconds(0) : now - asked_since_);
  return done;
}

void CudaBackend::wait(uint64_t mark) { wait_for(event_of(mark)); }

double CudaBackend::seconds_between(uint64_t from, uint64_t to) {
  float milliseconds = 0;
  TANDEM_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, event_of(from), event_of(to)));
  return milliseconds * 1e-3;
}

int CudaBackend::most_best_rows(const PackedWeight& weight) const {
  // (The kernels of few rows and of more add in different orders.)
  if (weight.quantization() != Quantization::kNone || batch_invariant()) return 0;
  const int of_tiles =
      best_tile_rows(weight.dtype(), weight.in_features(), capability_, shared_limit_);
  return std::min(most_best_rows_, std::max(kMostRowsAtOnce, of_tiles));
}

int64_t CudaBackend::blocks_at_once(size_t shared, int most) const {
  const auto fit = static_cast<int64_t>(shared_of_multiprocessor_ / (shared + shared_of_system_));
  return multiprocessors_ * std::clamp<int64_t>(fit, 1, most);
}

bool CudaBackend::attention_tiles(DType dtype, int head_dim) const {
  return tiles_supported(dtype, head_dim, capability_);
}

bool CudaBackend::record(uint64_t key, const std::function<void()>& step) {
  TANDEM_CHECK(!recordings_.contains(key), "recorded already");
  TANDEM_CUDA_CHECK(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
  recording_ = true;
  cudaGraph_t graph = nullptr;
  const auto give_up = [&] {
    recording_ = false;
    cudaStreamEndCapture(stream_, &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    cudaGetLastError();
  };
  try {
    step();
  } catch (const RecordingRefused&) {
    give_up();
    return false;
  } catch (...) {
    give_up();
    throw;
  }
  recording_ = false;
  if (cudaStreamEndCapture(stream_, &graph) != cudaSuccess || graph == nullptr) {
    cudaGetLastError();
    return false;
  }
  size_t nodes = 0;
  TANDEM_CUDA_CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
  cudaGraphExec_t executable = nullptr;
  const cudaError_t made = cudaGraphInstantiate(&executable, graph, 0);
  cudaGraphDestroy(graph);
  if (made != cudaSuccess) {
    cudaGetLastError();
    return false;
  }
  recordings_.emplace(key, Recording(executable, cudaGraphExecDestroy));
  nodes_recorded_ = nodes;
  return true;
}

void CudaBackend::replay(uint64_t key) {
  const auto found = recordings_.find(key);
  if (found == recordings_.end() && dropped_)
    throw std::runtime_error("the group of a recorded step has ended");
  TANDEM_CHECK(found != recordings_.end(), "no such recording");
  if (const cudaError_t error = cudaGraphLaunch(found->second.get(), stream_); error != cudaSuccess)
    device_failed("a recorded step", error);
}

void CudaBackend::forget_recordings() {
  synchronize();
  recordings_.clear();
}

void CudaBackend::forget_recordings(std::span<const uint64_t> keys) {
  synchronize();
  for (const uint64_t key : keys) recordings_.erase(key);
}

void CudaBackend::drop_recordings() {
  dropped_ = true;
  recordings_.clear();
}

void CudaBackend::tune_products(const std::string& folder,
                                std::function<void(const std::string&)> warn) {
  gemms_->tune(product_, capability_, cache_bytes_, folder, std::move(warn));
}

}  // namespace tandem::cuda
