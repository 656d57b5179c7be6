// attention_rows of pages and rows in the queries' type, without a bias; the way to the others.
#include "kernels/cuda/attention/attention_rows.cuh"

namespace tandem::cuda {
namespace rows {

// attention_rows_bias.cu, attention_rows_options.cu, attention_rows_f8.cu,
// attention_rows_f8_options.cu, attention_rows_i8.cu, attention_rows_i8_options.cu
void run_with_bias(const AttentionParams& params, LaunchStream stream);
void run_with_options(const AttentionParams& params, LaunchStream stream);
void run_f8(const AttentionParams& params, LaunchStream stream);
void run_f8_with_options(const AttentionParams& params, LaunchStream stream);
void run_i8(const AttentionParams& params, LaunchStream stream);
void run_i8_with_options(const AttentionParams& params, LaunchStream stream);

void run_in_8_bits(const AttentionParams& params, LaunchStream stream) {
  TANDEM_CHECK(params.pages != nullptr, "rows in 8 bits");
  const bool options = params.has_options() || params.bias != nullptr;
  if (params.page_type == DType::kI8) {
    (options ? run_i8_with_options : run_i8)(params, stream);
  } else {
    (options ? run_f8_with_options : run_f8)(params, stream);
  }
}

}  // namespace rows

void attention_rows(const AttentionParams& params, LaunchStream stream) {
  if (params.work_count == 0) return;
  TANDEM_CHECK(params.head_dim >= 1 && params.head_dim <= 256);
  TANDEM_CHECK(params.most_queries >= 1 && params.most_queries <= kRowsPerBlock);
  if (params.scales != nullptr) {
    rows::run_in_8_bits(params, stream);
  } else if (params.has_options()) {
    rows::run_with_options(params, stream);
  } else if (params.bias != nullptr) {
    rows::run_with_bias(params, stream);
  } else {
    rows::run<void, rows::NoBias>(params, stream);
  }
}

}  // namespace tandem::cuda
