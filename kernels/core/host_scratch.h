// The memory of the host that activations of steps come from, kept from step to step: fresh pages
// of every step would have to be zeroed by the kernel.
#pragma once

#include <cstddef>
#include <memory>

#include "kernels/core/tensor.h"

namespace tandem {

// Tensors out of a few large pieces, which grow to what the largest step needs and stay. A tensor
// holds its place until its last copy is gone, in whatever step and thread that is: none has to end
// with its step. make() is called by one thread at a time.
class HostScratch {
 public:
  HostScratch();

  // Uninitialised, 64-byte aligned at least.
  Tensor make(const Shape& shape, DType dtype);
  // What it has of the host's memory, and how much of that tensors hold now; bytes.
  size_t bytes() const;
  size_t used() const;

  void check_integrity() const;

 private:
  struct Memory;
  std::shared_ptr<Memory> memory_;  // the tensors' too
};

}  // namespace tandem
