// Where appended rows go.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/layouts/layout_ops.h"

namespace tandem {

// page * page_size + offset, of each row; of checked arguments.
std::vector<int64_t> append_slots(const Tensor& batch_indices, const Tensor& positions,
                                  const KvPageTable& table, int64_t page_size);

}  // namespace tandem
