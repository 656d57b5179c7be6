// The tables of kernels/layouts/layout_ops.h.
#include <functional>
#include <string>

#include "kernels/layouts/layout_checks.h"

namespace tandem {
namespace {

Tensor int32_vector(int64_t size) { return Tensor({size}, DType::kI32); }

// 0, then the sums of `size` of each of `count`.
Tensor summed(const std::string& name, int64_t count, const std::function<int64_t(int64_t)>& size) {
  const Tensor out = int32_vector(count + 1);
  int32_t* at = out.data<int32_t>();
  int64_t sum = at[0] = 0;
  for (int64_t i = 0; i < count; ++i) {
    sum += size(i);
    if (sum > INT32_MAX)
      layouts::refuse(name, "would be " + std::to_string(sum) + layouts::at_index(i + 1) +
                                ", which does not fit int32");
    at[i + 1] = static_cast<int32_t>(sum);
  }
  return out;
}

Tensor mask_sums(const Tensor& qo_indptr, int64_t requests,
                 const std::function<int64_t(int64_t)>& keys, bool packed) {
  layouts::check_requests("kv_indptr", requests, layouts::check_offsets("qo_indptr", qo_indptr));
  const int32_t* qo = qo_indptr.data<int32_t>();
  return summed("mask_indptr", requests, [&](int64_t i) {
    const int64_t elements = (int64_t{qo[i + 1]} - qo[i]) * keys(i);
    return packed ? (elements + 7) / 8 : elements;
  });
}

}  // namespace

Tensor mask_indptr_of(const Tensor& qo_indptr, const Tensor& kv_indptr, bool packed) {
  const int64_t requests = layouts::check_offsets("kv_indptr", kv_indptr);
  const int32_t* kv = kv_indptr.data<int32_t>();
  return mask_sums(
      qo_indptr, requests, [&](int64_t i) { return int64_t{kv[i + 1]} - kv[i]; }, packed);
}

Tensor mask_indptr_of(const Tensor& qo_indptr, const KvPageTable& table, int64_t page_size,
                      bool packed) {
  CacheSides any;
  any.pages = int64_t{INT32_MAX} + 1;
  any.page_size = page_size;
  const int64_t requests = layouts::check_table(table, any);
  const int32_t *kv = table.kv_indptr.data<int32_t>(),
                *last = table.kv_last_page_len.data<int32_t>();
  return mask_sums(
      qo_indptr, requests,
      [&](int64_t i) {
        const int64_t pages = kv[i + 1] - kv[i];
        return pages == 0 ? 0 : (pages - 1) * page_size + last[i];
      },
      packed);
}

Tensor packed_indptr_of(const Tensor& indptr) {
  const int64_t segments = layouts::check_offsets("indptr", indptr);
  const int32_t* at = indptr.data<int32_t>();
  return summed("indptr", segments,
                [&](int64_t i) { return (int64_t{at[i + 1]} - at[i] + 7) / 8; });
}

BatchPositions batch_indices_positions(const Tensor& append_indptr, const Tensor& seq_lens) {
  const int64_t requests = layouts::check_offsets("append_indptr", append_indptr);
  const int32_t* at = append_indptr.data<int32_t>();
  const int32_t* lengths = layouts::check_integers("seq_lens", seq_lens, requests);
  const BatchPositions out{int32_vector(at[requests]), int32_vector(at[requests])};
  for (int64_t i = 0; i < requests; ++i) {
    const int32_t before = lengths[i] - (at[i + 1] - at[i]);
    if (lengths[i] < 0 || before < 0)
      layouts::refuse("seq_lens", "is " + std::to_string(lengths[i]) + layouts::at_index(i) +
                                      ", fewer than the " + std::to_string(at[i + 1] - at[i]) +
                                      " that are appended");
    for (int32_t r = at[i]; r < at[i + 1]; ++r) {
      out.batch_indices.data<int32_t>()[r] = static_cast<int32_t>(i);
      out.positions.data<int32_t>()[r] = before + r - at[i];
    }
  }
  return out;
}

}  // namespace tandem
