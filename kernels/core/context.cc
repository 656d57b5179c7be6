// Parameters on their way to a device.
#include "kernels/core/context.h"

namespace tandem {

Tensor Context::resident_bias(const Tensor& host, DType type) {
  if (on_cpu() || host.empty() || type == DType::kF32) return resident(host);
  TANDEM_CHECK(type == DType::kF16 || type == DType::kBF16);
  const Tensor rounded(host.shape(), type);
  auto* to = static_cast<uint16_t*>(rounded.raw());
  for (int64_t i = 0; i < host.size(); ++i) {
    const float x = host.data<float>()[i];
    to[i] = type == DType::kF16 ? float_to_f16(x) : float_to_bf16(x);
  }
  return resident(rounded);
}

}  // namespace tandem
