// The attention backends of CUDA devices: a line each. "reference" has what the device has several
// kernels for. The device's only kernels of the other ops are plain themselves: they take one key
// after another.
#include "kernels/cuda/backends/cuda_attention.h"

namespace tandem::cuda {
namespace {

constexpr AttentionOps reference() {
  AttentionOps out;
  out.ragged_attention = reference_ragged_attention;
  out.paged_attention = reference_paged_attention;
  return out;
}
constexpr AttentionOps kReference = reference();

}  // namespace

const AttentionOps* attention_ops(AttentionBackend backend) {
  switch (backend) {
    case AttentionBackend::kAuto: return nullptr;
    case AttentionBackend::kReference: return &kReference;
  }
  return nullptr;
}

}  // namespace tandem::cuda
