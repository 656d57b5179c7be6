#include "models/blocks/changed_weights.h"

#include "base/check.h"

namespace tandem {

void ChangedWeights::put(const Weights& scope, std::string_view name, Shape shape,
                         std::vector<float> values) {
  const auto kept = std::make_shared<const std::vector<float>>(std::move(values));
  HostTensor out;
  out.name = (scope / name).scope();
  out.file = location();
  out.data = reinterpret_cast<const std::byte*>(kept->data());
  out.dtype = DType::kF32;
  out.shape = std::move(shape);
  out.keep_alive = kept;
  out.bytes = kept->size() * sizeof(float);
  own_[out.name] = std::move(out);
}

void ChangedWeights::put_rows(const Weights& scope, std::string_view name, const HostTensor& of,
                              int64_t begin, int64_t end) {
  const int64_t rows = of.shape[0];
  TANDEM_CHECK(0 <= begin && begin <= end && end <= rows);
  const size_t row_bytes = of.bytes / static_cast<size_t>(rows);
  HostTensor out = of;
  out.name = (scope / name).scope();
  out.shape[0] = end - begin;
  out.data += static_cast<size_t>(begin) * row_bytes;
  out.bytes = static_cast<size_t>(end - begin) * row_bytes;
  own_[out.name] = std::move(out);
}

void split_halves(ChangedWeights& changed, const Weights& both, const Weights& first,
                  const Weights& second, int64_t rows, int64_t columns) {
  const HostTensor weight = both.get("weight", {2 * rows, columns}),
                   bias = both.get("bias", {2 * rows});
  for (const auto& [name, of] : {std::pair("weight", &weight), std::pair("bias", &bias)}) {
    changed.put_rows(first, name, *of, 0, rows);
    changed.put_rows(second, name, *of, rows, 2 * rows);
  }
}

std::vector<float> values_of(const HostTensor& t) {
  const Tensor values = to_float(t);
  return {values.data<float>(), values.data<float>() + values.size()};
}

}  // namespace tandem
