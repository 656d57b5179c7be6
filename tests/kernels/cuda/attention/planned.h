// Plans of attention on a device, for tests of the ops.
#pragma once

#include <cstring>
#include <vector>

#include "kernels/attention_plan.h"
#include "tests/kernels/cuda/device_matrix.h"

namespace tandem::testing {

// A plan as the ops take it (models/step/step_tensors.h sends it there with the step).
struct Planned {
  ops::DeviceAttentionPlan plan;
  Planned(Context& ctx, const std::vector<AttentionSequence>& sequences, int heads, bool tiles) {
    const AttentionPlan p = plan_attention(sequences, tiles);
    plan.rows = upload(ctx, p.rows);
    plan.tiles = upload(ctx, p.tiles);
    plan.tickets = to_device(
        ctx, indices(std::vector<int32_t>(static_cast<size_t>(p.tickets * heads + 1), 0)));
    plan.partials = p.partials;
    plan.row_queries = p.row_queries;
  }
  static Tensor upload(Context& ctx, const std::vector<AttentionWork>& work) {
    const Tensor host({std::ssize(work), kAttentionWorkInts}, DType::kI32);
    if (!work.empty()) std::memcpy(host.raw(), work.data(), host.bytes());
    return work.empty() ? Tensor() : to_device(ctx, host);
  }
};

}  // namespace tandem::testing
