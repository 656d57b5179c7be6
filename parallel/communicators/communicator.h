// The ranks of a group that runs one model. Every rank makes the same calls in the same order.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#include "kernels/core/tensor.h"

namespace tandem {

// A collective that cannot end: the group was aborted, or a rank is late, dead or makes another
// call. what() names the call, this rank, the peer and the reason. Afterwards the group is
// unusable: every later call on every rank throws.
class CommunicatorError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct CommunicatorOptions {
  enum class Transport {
    kAuto,          // shared memory where all ranks are on one host, else MPI
    kSharedMemory,  // or an error
    kMpi,
  };
  Transport transport = Transport::kAuto;
  // No call waits longer for another rank.
  std::chrono::milliseconds timeout{300'000};
  // Larger tensors travel in chunks of this many bytes (whole cache lines, at least 1 KiB). A group
  // owns 18 chunks of memory per rank. The same on all ranks.
  size_t chunk_bytes = size_t{1} << 20;
  // How long a waiting rank spins before it sleeps. Absent: tens of microseconds, or next to
  // nothing if the group has more ranks than cores.
  std::optional<std::chrono::microseconds> spin;
};

// A rank's time and bytes in calls since its communicator was made, waiting included.
struct CommunicatorStats {
  int64_t calls = 0;
  int64_t bytes = 0;  // of the tensors that were handed in
  std::chrono::nanoseconds time{0};
};

// One rank's end of a group. All calls come from one thread; abort() from any. Tensors are
// contiguous and of equal size on all ranks that take part.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // How the data travels, for logs: "local", "shared memory", "MPI".
  virtual const char* transport() const = 0;
  // In place; the result is bitwise equal on all ranks. On the host (f32) the parts are added in
  // rank order, so the result depends on the parts alone. On devices (f32, f16, bf16) that holds
  // for small sums if the devices read each other. Otherwise the order is NCCL's, which depends on
  // the size, the number of ranks and their links.
  virtual void all_reduce(const Tensor& x) = 0;
  // out is [size * x.dim(0), ...]; rank r's x becomes part r. Any type.
  virtual void all_gather(const Tensor& x, const Tensor& out) = 0;
  // x and out are [size * n, ...]: part p of x goes to rank p, and becomes part rank() of its out.
  virtual void all_to_all(const Tensor& x, const Tensor& out) = 0;
  virtual void broadcast(const Tensor& x, int root) = 0;
  virtual void barrier() = 0;
  // From one rank to another, which receives what was sent to it in that order. Only these two take
  // part. A send returns when x may change; it waits while the receiver is behind by more than 16
  // pieces. Tensors of the host, of any type; one without elements is a message, too.
  virtual void send(const Tensor&, int to) { TANDEM_CHECK(false, "no rank to send to"); }
  virtual void receive(const Tensor&, int from) { TANDEM_CHECK(false, "no rank to receive from"); }
  // Makes every call that is blocked in this group fail, now and later, on all ranks.
  virtual void abort() = 0;
  // From the thread of the calls. A group of one spends nothing.
  virtual CommunicatorStats stats() const { return {}; }
};

// The group of one.
std::unique_ptr<Communicator> make_local_communicator();

}  // namespace tandem
