// NCCL between the devices of a group. Part of libtandem_cuda.so only
// (kernels/cuda/CMakeLists.txt); without NCCL there is no group.
#include <string>

#include "kernels/cuda/backend.h"

#if defined(TANDEM_NCCL)

#include <nccl.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "kernels/core/check.h"

namespace tandem::cuda {
namespace {

using Clock = std::chrono::steady_clock;

ncclDataType_t type_of(const Tensor& x) {
  switch (x.dtype()) {
    case DType::kF32: return ncclFloat32;
    case DType::kF16: return ncclFloat16;
    case DType::kBF16: return ncclBfloat16;
    case DType::kI32: return ncclInt32;
    case DType::kI64: return ncclInt64;
    case DType::kU8:
    case DType::kI8:
    case DType::kF8E4M3: return ncclUint8;
  }
  return ncclUint8;
}

// Communicators do not block: a call that is under way is asked for until it has ended, is aborted
// or is late. Collectives run on the backend's stream, in recorded steps too.
class NcclCommunicator final : public DeviceCommunicator {
 public:
  NcclCommunicator(CudaBackend& backend, const std::string& id, int rank, int size,
                   double timeout_seconds)
      : backend_(backend),
        timeout_(std::chrono::duration_cast<Clock::duration>(
            std::chrono::duration<double>(timeout_seconds))) {
    ncclUniqueId unique{};
    TANDEM_CHECK_EQ(id.size(), sizeof(unique.internal));
    id.copy(unique.internal, sizeof(unique.internal));
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    finish(ncclCommInitRankConfig(&comm_, size, unique, rank, &config), "ncclCommInitRankConfig");
  }

  ~NcclCommunicator() override {
    if (comm_ != nullptr) ncclCommAbort(comm_);  // destroying would wait for other ranks
  }

  void all_reduce(const Tensor& x) override {
    TANDEM_CHECK(x.contiguous());
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

  // While the device works. The clock starts with the first look at a wait, and again when looks
  // have not come for a while: then that wait has ended and this is another one.
  void check() override {
    const auto now = Clock::now();
    if (now - last_look_ > std::chrono::milliseconds(100)) waiting_since_ = now;
    last_look_ = now;
    look(now - waiting_since_, "a collective");
  }

  // The owner's thread ends the communicator at its next look; a kernel that spins is freed by it.
  void abort() override { aborted_.store(true); }

 private:
  static size_t count(const Tensor& x) { return static_cast<size_t>(x.size()); }

  void look(Clock::duration waited, const char* what) {
    ncclResult_t state = ncclSuccess;
    const ncclResult_t asked =
        comm_ == nullptr ? ncclInvalidUsage : ncclCommGetAsyncError(comm_, &state);
    if (asked != ncclSuccess) state = asked;
    if (state != ncclSuccess && state != ncclInProgress) fail(what, ncclGetErrorString(state));
    if (aborted_.load()) fail(what, "the group was aborted");
    if (waited > timeout_) fail(what, "another rank is late");
  }

  void finish(ncclResult_t result, const char* call) {
    const auto start = Clock::now();
    if (result != ncclSuccess && result != ncclInProgress) fail(call, ncclGetErrorString(result));
    while (result == ncclInProgress) {
      look(Clock::now() - start, call);
      if (ncclCommGetAsyncError(comm_, &result) != ncclSuccess) result = ncclInternalError;
      if (result == ncclInProgress) std::this_thread::yield();
    }
    if (result != ncclSuccess) fail(call, ncclGetErrorString(result));
    if (aborted_.load()) fail(call, "the group was aborted");
  }

  [[noreturn]] void fail(const char* what, const std::string& why) {
    if (comm_ != nullptr) ncclCommAbort(comm_);
    comm_ = nullptr;
    throw std::runtime_error(std::string(what) + ": " + why);
  }

  CudaBackend& backend_;
  Clock::duration timeout_;
  ncclComm_t comm_ = nullptr;
  std::atomic<bool> aborted_{false};
  Clock::time_point waiting_since_{}, last_look_{};
};

}  // namespace

std::string make_nccl_id() {
  ncclUniqueId id{};
  if (ncclGetUniqueId(&id) != ncclSuccess) return {};
  return std::string(id.internal, sizeof(id.internal));
}

std::unique_ptr<DeviceCommunicator> make_nccl_communicator(DeviceBackend& backend,
                                                           const std::string& id, int rank,
                                                           int size, double timeout_seconds) {
  return std::make_unique<NcclCommunicator>(static_cast<CudaBackend&>(backend), id, rank, size,
                                            timeout_seconds);
}

}  // namespace tandem::cuda

#else

namespace tandem::cuda {

std::string make_nccl_id() { return {}; }

std::unique_ptr<DeviceCommunicator> make_nccl_communicator(DeviceBackend&, const std::string&, int,
                                                           int, double) {
  return nullptr;
}

}  // namespace tandem::cuda

#endif
