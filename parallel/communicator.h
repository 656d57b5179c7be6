// The ranks of a tensor-parallel group. Every rank makes the same calls in the same order.
#pragma once

#include <memory>

#include "kernels/core/tensor.h"

namespace tandem {

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // In place, summed in rank order, so that the result is bitwise equal on all ranks.
  virtual void all_reduce(const Tensor& x) = 0;
  // out is [size * x.dim(0), ...]; rank r's x becomes part r.
  virtual void all_gather(const Tensor& x, const Tensor& out) = 0;
  virtual void broadcast(const Tensor& x, int root) = 0;
  virtual void barrier() = 0;
  // Makes every call that is blocked in this group fail, now and later, on all ranks.
  virtual void abort() = 0;
};

// The group of one.
std::unique_ptr<Communicator> make_local_communicator();

}  // namespace tandem
