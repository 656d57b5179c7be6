// Parameters on their way to a device, and memory of the host that is asked for ahead.
#include "kernels/core/context.h"

#include <algorithm>

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

void Context::commit(const Tensor& t, size_t bytes) {
  constexpr size_t kPage = 4096, kHugePage = size_t{2} << 20;  // any size would be right
  bytes = std::min(bytes, t.bytes());
  auto* first = static_cast<volatile std::byte*>(t.raw());
  pool().run(static_cast<int64_t>((bytes + kHugePage - 1) / kHugePage), [&](int64_t task, int) {
    const size_t begin = static_cast<size_t>(task) * kHugePage;
    for (size_t i = begin; i < std::min(bytes, begin + kHugePage); i += kPage) first[i] = {};
  });
}

void Context::commit_scratch(size_t bytes) {
  commit(scratch_.make({static_cast<int64_t>(bytes)}, DType::kU8), bytes);
  workspace(bytes);
  commit(workspace_, bytes);
}

}  // namespace tandem
