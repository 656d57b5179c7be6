// A device other than the CPU: memory, a stream of work, recorded steps. A plugin implements it
// (kernels/core/plugin.h); a Context owns one. Only the worker's thread uses it, unless said
// otherwise.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "kernels/core/tensor.h"

namespace tandem {

class PackedWeight;
struct OpTable;
class ThreadPool;

struct DeviceMemory {  // bytes
  size_t free = 0;
  size_t total = 0;
  size_t scratch = 0;  // what steps have of it so far (DeviceBackend::scratch)
};

// All work goes to one stream, in the order of the calls, and runs behind the host. Memory is freed
// in the stream's order too, so a tensor may be destroyed while work on it is under way.
class DeviceBackend {
 public:
  virtual ~DeviceBackend() = default;
  virtual Device device() const = 0;
  // For logs: "NVIDIA H100 80GB HBM3 (cuda:0, 9.0)".
  virtual std::string name() const = 0;
  virtual const OpTable& ops() const = 0;
  virtual DeviceMemory memory() const = 0;

  // Kept as long as the tensor: weights, pools. Uninitialised. Throws InputError (kResource).
  virtual Tensor allocate(const Shape& shape, DType dtype) = 0;
  // Host memory that the device reaches (pinned). Throws InputError (kResource).
  virtual Tensor allocate_host(const Shape& shape, DType dtype) = 0;
  // Memory of a step, freed at the next begin_step() at the latest.
  virtual Tensor scratch(const Shape& shape, DType dtype) = 0;
  // REQUIRES: no tensor of scratch() is alive, except a recorded step's own.
  virtual void begin_step() = 0;
  // What follows, until the next begin_step(), is a step of so many rows: a device may launch few
  // rows' kernels in another way. The results are the same.
  virtual void expect_rows(int64_t) {}

  // From host memory, which may change as soon as the call returns. Both contiguous, of equal
  // bytes.
  virtual void copy_in(const Tensor& host, const Tensor& device) = 0;
  // Loads a parameter. read(begin, bytes, to) writes those bytes of it to host memory. All threads
  // of the pool call it, for parts that begin at multiples of 64 bytes. One piece is copied while
  // the next is read. The data is ready for the stream's next work.
  using ReadPart = std::function<void(size_t begin, size_t bytes, std::byte* to)>;
  virtual void load(const Tensor& device, ThreadPool& pool, const ReadPart& read) = 0;
  // All parameters are loaded: frees the memory that only load() needs.
  virtual void end_loading() = 0;
  // To host memory, in the stream's order; readable after synchronize().
  virtual void copy_out(const Tensor& device, const Tensor& host) = 0;
  // Rows of a matrix to those of another, either strided, both on the device.
  virtual void copy_matrix(const Tensor& from, const Tensor& to) = 0;
  // Waits for all work so far. An error of the device is a broken invariant and stops the process.
  virtual void synchronize() = 0;
  // Adds a check for collectives whose other ranks are lost. It ends with the returned handle.
  // synchronize() and wait() call it while they wait. reached() calls it once. All pass on what it
  // throws. `waited` is the time waited so far, or 0 when the work is done.
  using Check = std::function<void(std::chrono::nanoseconds waited)>;
  [[nodiscard]] virtual std::shared_ptr<void> watch(Check check) = 0;

  // From now on times several algorithms for products of new sizes, and keeps the fastest. A file
  // in `folder` keeps them for the next process, unless `folder` is empty. Calls `warn`, in the
  // computing thread, for files that cannot be used.
  virtual void tune_products(const std::string& folder,
                             std::function<void(const std::string&)> warn) = 0;

  // From now on the bits of a row of a result depend neither on the other rows nor on their number,
  // as on CPUs. Some products take longer. Called before the first step.
  void be_batch_invariant() { batch_invariant_ = true; }
  bool batch_invariant() const { return batch_invariant_; }

  // Marks the end of the work so far in the stream. Numbers grow by 1. The last kMarksKept marks
  // can be queried.
  static constexpr uint64_t kMarksKept = 16;
  virtual uint64_t mark() = 0;
  // Whether the device has reached the mark. Does not wait.
  virtual bool reached(uint64_t mark) = 0;
  virtual void wait(uint64_t mark) = 0;
  // The device's time between two reached marks.
  virtual double seconds_between(uint64_t from, uint64_t to) = 0;

  // Whether attention of several queries may run as tiles on tensor cores. (A query's bits in tiles
  // are others than in a row of its own.)
  virtual bool attention_tiles(DType dtype, int head_dim) const = 0;

  // The most rows of a product with this weight that ops::linear_best takes; 0: none.
  virtual int most_best_rows(const PackedWeight&) const { return 0; }

  // Whether keys and values may be kept in 8-bit floats (KvPages).
  virtual bool f8_pages() const = 0;

  // Steps that differ only in the contents of their inputs are recorded once and replayed as a
  // whole. record() calls `step` and records its work without running it. Returns false if the
  // device cannot. replay() runs the recording with that key.
  virtual bool record(uint64_t key, const std::function<void()>& step) = 0;
  virtual void replay(uint64_t key) = 0;
  virtual void forget_recordings() = 0;
  // Those with such keys. Waits for the device, as forget_recordings() does.
  virtual void forget_recordings(std::span<const uint64_t> keys) = 0;
  // A key that no other recording has.
  uint64_t new_key() { return next_key_++; }
  // Kernels, copies and fills in the latest recording, as the device counts them; 0: no recording.
  virtual size_t nodes_recorded() const = 0;

 private:
  uint64_t next_key_ = 0;
  bool batch_invariant_ = false;
};

}  // namespace tandem
