#include "kernels/layouts/append_slots.h"

namespace tandem {

std::vector<int64_t> append_slots(const Tensor& batch_indices, const Tensor& positions,
                                  const KvPageTable& table, int64_t page_size) {
  const int32_t *batch = batch_indices.data<int32_t>(), *position = positions.data<int32_t>(),
                *first = table.kv_indptr.data<int32_t>(), *pages = table.kv_indices.data<int32_t>();
  std::vector<int64_t> slots;
  for (int64_t i = 0; i < batch_indices.dim(0); ++i)
    slots.push_back(pages[first[batch[i]] + position[i] / page_size] * page_size +
                    position[i] % page_size);
  return slots;
}

}  // namespace tandem
