// NCCL between the devices of a group, and the one-shot kernel for small sums where the devices
// read each other (kernels/cuda/collective/one_shot_all_reduce.h; TANDEM_ONE_SHOT_ALL_REDUCE=0 does
// without). Part of libtandem_cuda.so only (parallel/CMakeLists.txt); without NCCL there is no
// group.
#include "parallel/communicators/nccl_communicator.h"

#if defined(TANDEM_NCCL)

#include <nccl.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/poll_nap.h"
#include "kernels/cuda/backend.h"
#include "kernels/cuda/collective/one_shot_all_reduce.h"
#include "kernels/cuda/launch.cuh"

namespace tandem::cuda {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kMostOfAnEnd = std::chrono::seconds(20);

ncclDataType_t type_of(const Tensor& x) {
  switch (x.dtype()) {
    case DType::kF32: return ncclFloat32;
    case DType::kF16: return ncclFloat16;
    case DType::kBF16: return ncclBfloat16;
    case DType::kI32: return ncclInt32;
    case DType::kI64: return ncclInt64;
    case DType::kU8:
    case DType::kI8:
    case DType::kI4:
    case DType::kF8E4M3: return ncclUint8;
  }
  return ncclUint8;
}

bool one_shot_wanted() {
  const char* text = std::getenv("TANDEM_ONE_SHOT_ALL_REDUCE");
  return text == nullptr || std::strcmp(text, "0") != 0;
}

// Communicators do not block: a call that is under way is asked for until it has ended, is aborted
// or is late. Collectives run on the backend's stream, in recorded steps too.
class NcclCommunicator final : public DeviceCommunicator {
 public:
  NcclCommunicator(CudaBackend& backend, const std::string& id, int rank, int size,
                   double timeout_seconds, bool sums)
      : backend_(backend),
        size_(size),
        timeout_(std::chrono::duration_cast<Clock::duration>(
            std::chrono::duration<double>(timeout_seconds))) {
    ncclUniqueId unique{};
    TANDEM_CHECK_EQ(id.size(), sizeof(unique.internal));
    id.copy(unique.internal, sizeof(unique.internal));
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    finish(ncclCommInitRankConfig(&comm_, size, unique, rank, &config), "ncclCommInitRankConfig");
    one_shot_ = OneShotAllReduce::make(
        backend, rank, size, OneShotAllReduce::here(), sums && one_shot_wanted(), timeout_,
        [this](std::span<const std::byte> mine) { return exchange(mine); });
    exchanged_.clear();
  }

  ~NcclCommunicator() override {
    end();
    one_shot_.reset();  // waits for what is on the stream
  }

  const char* transport() const override {
    return one_shot_ ? "NCCL, small sums in one step" : "NCCL";
  }

  void all_reduce(const Tensor& x) override {
    TANDEM_CHECK(x.contiguous());
    if (one_shot_ && one_shot_->takes(x)) {
      look_at_one_shot("an all-reduce");
      one_shot_->run(x);
      return look_at_one_shot("an all-reduce");
    }
    finish(ncclAllReduce(x.raw(), x.raw(), count(x), type_of(x), ncclSum, comm_, backend_.stream()),
           "ncclAllReduce");
  }
  void all_gather(const Tensor& x, const Tensor& out) override {
    TANDEM_CHECK(x.contiguous() && out.contiguous());
    finish(ncclAllGather(x.raw(), out.raw(), count(x), type_of(x), comm_, backend_.stream()),
           "ncclAllGather");
  }
  void broadcast(const Tensor& x, int root) override {
    TANDEM_CHECK(x.contiguous());
    finish(ncclBroadcast(x.raw(), x.raw(), count(x), type_of(x), root, comm_, backend_.stream()),
           "ncclBroadcast");
  }
  void send(const Tensor& x, int to) override {
    TANDEM_CHECK(x.contiguous());
    finish(ncclSend(x.raw(), count(x), type_of(x), to, comm_, backend_.stream()), "ncclSend");
  }
  void receive(const Tensor& x, int from) override {
    TANDEM_CHECK(x.contiguous());
    finish(ncclRecv(x.raw(), count(x), type_of(x), from, comm_, backend_.stream()), "ncclRecv");
  }

  void check(std::chrono::nanoseconds waited) override {
    if (waited.count() == 0) return look_at_one_shot("a collective");
    look(waited, "a collective");
  }

  // The owner's thread ends the communicator at its next look; a kernel that spins is freed by it.
  void abort() override {
    aborted_.store(true);
    if (one_shot_) one_shot_->abort();
  }

 private:
  static size_t count(const Tensor& x) { return static_cast<size_t>(x.size()); }

  void look(Clock::duration waited, const char* what) {
    ncclResult_t state = ncclSuccess;
    const ncclResult_t asked =
        comm_ == nullptr ? ncclInvalidUsage : ncclCommGetAsyncError(comm_, &state);
    if (asked != ncclSuccess) state = asked;
    if (state != ncclSuccess && state != ncclInProgress) fail(what, ncclGetErrorString(state));
    look_at_one_shot(what);
    if (waited > timeout_) fail(what, "another rank is late");
  }

  // Another rank may have left the group after the last sum: that alone is no failure.
  void look_at_one_shot(const char* what) {
    if (comm_ == nullptr || aborted_.load()) fail(what, "the group was aborted");
    if (one_shot_ && one_shot_->failed()) fail(what, "another rank is late");
  }

  void finish(ncclResult_t result, const char* call) {
    const auto start = Clock::now();
    if (result != ncclSuccess && result != ncclInProgress) fail(call, ncclGetErrorString(result));
    while (result == ncclInProgress) {
      look(Clock::now() - start, call);
      if (ncclCommGetAsyncError(comm_, &result) != ncclSuccess) result = ncclInternalError;
      if (result == ncclInProgress) std::this_thread::sleep_for(poll_nap(Clock::now() - start));
    }
    if (result != ncclSuccess) fail(call, ncclGetErrorString(result));
    if (aborted_.load()) fail(call, "the group was aborted");
  }

  // All ranks' bytes, through the devices.
  std::vector<std::byte> exchange(std::span<const std::byte> mine) {
    const auto bytes = static_cast<int64_t>(mine.size());
    const Tensor part = backend_.allocate({bytes}, DType::kU8),
                 all = backend_.allocate({size_ * bytes}, DType::kU8);
    // Given back when all ranks are through: cudaFree waits, for other ranks' kernels perhaps.
    exchanged_.insert(exchanged_.end(), {part, all});
    std::vector<std::byte> out(all.bytes());
    TANDEM_CUDA_CHECK(cudaMemcpyAsync(part.raw(), mine.data(), mine.size(), cudaMemcpyHostToDevice,
                                      backend_.stream()));
    all_gather(part, all);
    const auto start = Clock::now();
    for (cudaError_t state; (state = cudaStreamQuery(backend_.stream())) != cudaSuccess;) {
      if (state != cudaErrorNotReady) TANDEM_CUDA_CHECK(state);
      cudaGetLastError();  // "not ready" stays there
      look(Clock::now() - start, "joining");
      std::this_thread::sleep_for(poll_nap(Clock::now() - start));
    }
    TANDEM_CUDA_CHECK(cudaMemcpyAsync(out.data(), all.raw(), out.size(), cudaMemcpyDeviceToHost,
                                      backend_.stream()));
    TANDEM_CUDA_CHECK(cudaStreamSynchronize(backend_.stream()));
    return out;
  }

  // Frees kernels that wait for other ranks (destroying would wait for those). NCCL's call does not
  // return as long as there are graphs with its kernels, so recordings go first; one that is under
  // way goes when the call has ended its kernels, hence the thread, and the looks at the stream. A
  // call that takes too long all the same is left behind.
  void end() {
    if (one_shot_) one_shot_->abort();
    if (comm_ == nullptr) return;
    backend_.drop_recordings();
    const auto ended = std::make_shared<std::atomic<bool>>(false);
    std::thread([ended, comm = std::exchange(comm_, nullptr)] {
      ncclCommAbort(comm);
      ended->store(true);
    }).detach();
    const auto start = Clock::now();
    while (!ended->load() && Clock::now() - start < kMostOfAnEnd) {
      cudaStreamQuery(backend_.stream());
      cudaGetLastError();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  // While a step is recorded its graph holds the communicator: it is left to the destructor.
  [[noreturn]] void fail(const char* what, const std::string& why) {
    if (one_shot_) one_shot_->abort();
    aborted_.store(true);
    if (!backend_.recording()) end();
    throw std::runtime_error(std::string(what) + ": " + why);
  }

  CudaBackend& backend_;
  int size_;
  Clock::duration timeout_;
  ncclComm_t comm_ = nullptr;
  std::vector<Tensor> exchanged_;
  std::unique_ptr<OneShotAllReduce> one_shot_;  // null: every sum is NCCL's
  std::atomic<bool> aborted_{false};
};

}  // namespace

std::string make_nccl_id() {
  ncclUniqueId id{};
  if (ncclGetUniqueId(&id) != ncclSuccess) return {};
  return std::string(id.internal, sizeof(id.internal));
}

std::unique_ptr<DeviceCommunicator> make_nccl_communicator(DeviceBackend& backend,
                                                           const std::string& id, int rank,
                                                           int size, double timeout_seconds,
                                                           bool sums) {
  return std::make_unique<NcclCommunicator>(static_cast<CudaBackend&>(backend), id, rank, size,
                                            timeout_seconds, sums);
}

}  // namespace tandem::cuda

#else

namespace tandem::cuda {

std::string make_nccl_id() { return {}; }

std::unique_ptr<DeviceCommunicator> make_nccl_communicator(DeviceBackend&, const std::string&, int,
                                                           int, double, bool) {
  return nullptr;
}

}  // namespace tandem::cuda

#endif
