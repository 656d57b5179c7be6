// Sums of small tensors over the devices of one host that read each other's memory, by one kernel,
// without a library. Every device puts its part where the others can read it, sets their flags,
// waits for theirs, and adds all parts itself. One exchange of flags is the whole delay. Each
// device reads size - 1 parts, so it is for small tensors.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/core/tensor.h"
#include "kernels/cuda/backend.h"

namespace tandem::cuda {

class SharedRegion;  // memory of a device that others read

// The kernel's view of the group.
struct OneShotGroup {
  static constexpr int kMaxRanks = 8;
  std::byte* regions[kMaxRanks] = {};  // of all ranks, as this device sees them
  uint32_t* epochs = nullptr;          // [blocks] this device's: calls that have ended
  uint32_t* dead = nullptr;            // this device's: 1 after a call that gave up
  uint32_t* aborted = nullptr;         // the host's memory: 1 says that waiting is no use
  uint32_t* failed = nullptr;          // the host's memory: 1 says that a call gave up
  uint64_t timeout = 0;                // nanoseconds
  int rank = 0, ranks = 0;
};

class OneShotAllReduce {
 public:
  // Returns the parts of all ranks, in their order, on each rank. Throws if a rank is lost.
  using Exchange = std::function<std::vector<std::byte>(std::span<const std::byte> mine)>;
  // Ranks with equal `host` may share memory. If `process` is equal too, they have the same
  // addresses.
  struct Place {
    uint64_t host = 0, process = 0;
  };
  static Place here();

  // Called by all ranks at once. Null on every rank if one of them cannot or does not want to.
  // Reasons:
  // - Too many ranks, or several hosts.
  // - Several ranks on a device: their kernels would wait for each other's time slice.
  // - Devices that do not reach each other, or wrong sums in a trial.
  static std::unique_ptr<OneShotAllReduce> make(CudaBackend& backend, int rank, int ranks,
                                                const Place& place, bool wanted,
                                                std::chrono::nanoseconds timeout,
                                                const Exchange& exchange);
  // Ends waiting kernels, and waits until they have ended.
  ~OneShotAllReduce();
  OneShotAllReduce(const OneShotAllReduce&) = delete;
  OneShotAllReduce& operator=(const OneShotAllReduce&) = delete;

  // The same answer on all ranks for tensors of equal type and size.
  bool takes(const Tensor& x) const;
  // In place, on the backend's stream, in recorded steps too: f32, f16, bf16. Sums in f32 in rank
  // order, so all ranks get the same bits.
  void run(const Tensor& x);
  // From any thread: waiting kernels end and count as failed.
  void abort();
  // Whether a kernel has given up since; its sums are invalid.
  bool failed() const;

 private:
  struct Info;  // what ranks tell each other
  OneShotAllReduce(CudaBackend& backend, int rank, int ranks);
  void open_own(Info& info);
  bool open_peers(const std::vector<Info>& all);
  bool open_peer(const Info& mine, const Info& peer, size_t rank);
  bool try_out(const Tensor& room, std::chrono::nanoseconds timeout);
  template <class T>
  bool try_type(const Tensor& room, DType dtype);

  CudaBackend& backend_;
  OneShotGroup group_;
  int max_blocks_ = 0;
  std::vector<std::shared_ptr<SharedRegion>> regions_;  // this rank's, and those of its process
  std::vector<void*> opened_;                           // memory of other processes
  uint32_t* host_words_ = nullptr;                      // aborted, failed
};

}  // namespace tandem::cuda
