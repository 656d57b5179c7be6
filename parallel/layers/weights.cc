#include "parallel/layers/weights.h"

#include <cstring>

#include "parallel/layers/element_types.h"

namespace tandem {

HostTensor WeightSource::in_layer_type(const HostTensor& t) {
  if (is_layer_type(t)) return t;
  if (!becomes_float(t))
    throw invalid_model(t.file, "tensor " + t.name + " has type " + t.dtype_name() +
                                    ", which does not become float32");
  auto& kept = converted_[{t.data, t.bytes, t.dtype_name()}];
  HostTensor out = t;
  if (const auto values = std::static_pointer_cast<const Tensor>(kept.lock())) {
    out.data = reinterpret_cast<const std::byte*>(values->raw());
    out.dtype = DType::kF32;
    out.foreign_dtype.clear();
    out.bytes = values->bytes();
    out.keep_alive = values;
    return out;
  }
  out = as_float(t);
  kept = out.keep_alive;
  return out;
}

std::optional<HostTensor> Weights::find(std::string_view name, const Shape& shape) const {
  const std::string full = (*this / name).scope();
  const HostTensor* t = source_->find(full);
  if (t == nullptr) return std::nullopt;
  if (t->shape != shape)
    throw invalid_model(t->file, "tensor " + full + " has shape " + to_string(t->shape) +
                                     ", the configuration needs " + to_string(shape));
  return source_->in_layer_type(*t);
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
