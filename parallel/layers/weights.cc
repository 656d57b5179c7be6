#include "parallel/layers/weights.h"

#include <cstring>

namespace tandem {

std::optional<HostTensor> Weights::find(std::string_view name, const Shape& shape) const {
  const std::string full = (*this / name).scope();
  const HostTensor* t = source_->find(full);
  if (t == nullptr) return std::nullopt;
  if (t->shape != shape)
    throw invalid_model(t->file, "tensor " + full + " has shape " + to_string(t->shape) +
                                     ", the configuration needs " + to_string(shape));
  const bool is_float =
      t->dtype == DType::kF32 || t->dtype == DType::kF16 || t->dtype == DType::kBF16;
  if (!is_float || !t->foreign_dtype.empty())
    throw invalid_model(t->file, "tensor " + full + " has type " + t->dtype_name() +
                                     ", expected float32, float16 or bfloat16");
  return *t;
}

HostTensor Weights::get(std::string_view name, const Shape& shape) const {
  auto t = find(name, shape);
  if (!t)
    throw invalid_model(source_->location(), "tensor " + (*this / name).scope() + " is missing");
  return *t;
}

Tensor to_float(const HostTensor& t, int64_t begin, int64_t count) {
  Tensor out({count}, DType::kF32);
  float* to = out.data<float>();
  if (t.dtype == DType::kF32) {
    std::memcpy(to, t.data + begin * 4, static_cast<size_t>(count) * 4);
    return out;
  }
  TANDEM_CHECK(t.dtype == DType::kF16 || t.dtype == DType::kBF16);
  for (int64_t i = 0; i < count; ++i) {
    uint16_t v;
    std::memcpy(&v, t.data + (begin + i) * 2, 2);
    to[i] = t.dtype == DType::kBF16 ? bf16_to_float(v) : f16_to_float(v);
  }
  return out;
}

}  // namespace tandem
