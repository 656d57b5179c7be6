// What kernels are given, made of the ops' arguments.
#pragma once

#include "kernels/cuda/attention/attention.h"
#include "kernels/ops.h"

namespace tandem::cuda {

// Without the work of the plan, which has a list for each kind of kernel.
AttentionParams params_of(const ops::RaggedAttentionArgs& args);
AttentionParams params_of(const ops::PagedAttentionArgs& args);

// Whether queries see keys besides those of the window, and those keys.
inline bool has_global_keys(const ops::RaggedAttentionArgs& args) {
  return !args.global_indptr.empty() || !args.side.ranges.empty();
}
GlobalKeys global_keys_of(const ops::RaggedAttentionArgs& args);

}  // namespace tandem::cuda
