// Host memory for the activations of steps, kept from step to step. The kernel would have to zero
// fresh pages in every step.
#pragma once

#include <cstddef>
#include <memory>

#include "kernels/core/tensor.h"

namespace tandem {

// Tensors in a few large pieces, which grow to the need of the largest step and stay. A tensor
// holds its place until its last copy is destroyed, in any step and thread. Only one thread at a
// time may call make().
class HostScratch {
 public:
  HostScratch();

  // Uninitialised, 64-byte aligned at least.
  Tensor make(const Shape& shape, DType dtype);
  // Host memory held, and the part of it that tensors use now; bytes.
  size_t bytes() const;
  size_t used() const;

  void check_integrity() const;

 private:
  struct Memory;
  std::shared_ptr<Memory> memory_;  // the tensors' too
};

}  // namespace tandem
