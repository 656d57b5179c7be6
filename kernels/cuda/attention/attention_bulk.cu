// attention_rows by bulk copies, without a bias; which calls it takes.
#include "kernels/cuda/attention/attention_bulk.cuh"

namespace tandem::cuda {

namespace rows {

void run_bulk(const AttentionParams& params, LaunchStream stream) {
  run_by_bulk<NoBias>(params, stream);
}

}  // namespace rows

bool bulk_copies_possible(int compute_capability, size_t shared_memory) {
  // What else a block has, beside the stages, and what the system takes of it.
  constexpr size_t kBeside = 16 << 10;
  static_assert(2 * (rows::kStagesBytes + kBeside) <= 228 << 10);
  using V = rows::Variant<BF16, BF16, rows::NoBias, 128, true>;
  static_assert(sizeof(rows::BulkSums<V, 4>) + sizeof(rows::Queries<BF16, 128, 4>) +
                    sizeof(int32_t) * rows::kMostBulkPages + 1024 + 256 <=
                kBeside);
  if (compute_capability < 90 || shared_memory < 227 << 10) return false;
  // A device may run what was compiled for an older one.
  cudaFuncAttributes attributes{};
  TANDEM_CUDA_CHECK(cudaFuncGetAttributes(&attributes, rows::rows_bulk_kernel<V, 1>));
  return attributes.ptxVersion >= 90;
}

bool takes_bulk_copies(const AttentionParams& p) {
  return p.bulk && p.pages != nullptr && p.scales == nullptr && !p.has_options() &&
         p.token_stride == p.head_dim && p.head_dim > 32 && p.head_dim <= 128 &&
         p.block_size >= rows::kLeastBulkPage && p.most_queries <= rows::kMostBulkQueries &&
         aligned_16(p);
}

}  // namespace tandem::cuda
