// A row for each type: its name, and how its values are read.
#include "parallel/layers/element_types.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string_view>

#include "base/check.h"

namespace tandem {
namespace {

template <class Stored, float (*Value)(Stored)>
void convert(const std::byte* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) {
    Stored v;
    std::memcpy(&v, from + static_cast<size_t>(i) * sizeof(v), sizeof(v));
    to[i] = Value(v);
  }
}

// Rounds to nearest.
template <class T>
float number(T v) {
  return static_cast<float>(v);
}
// (What a double has beyond a float's range is undefined in C++.)
float narrowed(double v) {
  constexpr double kLeastInfinite = 0x1.ffffffp127;  // halfway to 2^128
  if (v >= kLeastInfinite) return HUGE_VALF;
  if (v <= -kLeastInfinite) return -HUGE_VALF;
  return static_cast<float>(v);
}
// e5m2 is the upper half of an f16.
float e5m2(uint8_t v) { return f16_to_float(static_cast<uint16_t>(v << 8)); }

template <class T>
constexpr auto kNumbers = convert<T, number<T>>;

struct ElementType {
  std::string_view name;  // HostTensor::dtype_name()
  size_t bytes;
  void (*convert)(const std::byte* from, int64_t count, float* to);
};

const ElementType kTypes[] = {
    {"float64", 8, convert<double, narrowed>},
    {"float8_e4m3fn", 1, convert<uint8_t, e4m3_to_float>},
    {"float8_e5m2", 1, convert<uint8_t, e5m2>},
    {"int64", 8, kNumbers<int64_t>},
    {"int32", 4, kNumbers<int32_t>},
    {"int16", 2, kNumbers<int16_t>},
    {"int8", 1, kNumbers<int8_t>},
    {"uint64", 8, kNumbers<uint64_t>},
    {"uint32", 4, kNumbers<uint32_t>},
    {"uint16", 2, kNumbers<uint16_t>},
    {"uint8", 1, kNumbers<uint8_t>},  // and bool
};

const ElementType* type_of(const HostTensor& t) {
  const std::string name = t.dtype_name();
  const auto* it = std::find_if(std::begin(kTypes), std::end(kTypes),
                                [&](const ElementType& type) { return type.name == name; });
  return it == std::end(kTypes) ? nullptr : it;
}

}  // namespace

bool is_layer_type(const HostTensor& t) {
  return t.foreign_dtype.empty() &&
         (t.dtype == DType::kF32 || t.dtype == DType::kF16 || t.dtype == DType::kBF16);
}

bool becomes_float(const HostTensor& t) { return type_of(t) != nullptr; }

HostTensor as_float(const HostTensor& t) {
  const ElementType* type = type_of(t);
  TANDEM_CHECK(type != nullptr, "a type without numbers");
  int64_t count = 1;
  for (const int64_t d : t.shape) count *= d;
  TANDEM_CHECK_EQ(t.bytes, static_cast<size_t>(count) * type->bytes);
  const auto values = std::make_shared<Tensor>(Shape{count}, DType::kF32);
  if (count > 0) type->convert(t.data, count, values->data<float>());
  HostTensor out = t;
  out.data = reinterpret_cast<const std::byte*>(values->raw());
  out.dtype = DType::kF32;
  out.foreign_dtype.clear();
  out.bytes = static_cast<size_t>(count) * sizeof(float);
  out.keep_alive = values;
  return out;
}

Tensor to_float(const Tensor& t) {
  if (t.dtype() == DType::kF32) return t;
  const Tensor out(t.shape(), DType::kF32);
  const auto* from = static_cast<const uint16_t*>(t.raw());
  for (int64_t i = 0; i < t.size(); ++i)
    out.data<float>()[i] =
        t.dtype() == DType::kBF16 ? bf16_to_float(from[i]) : f16_to_float(from[i]);
  return out;
}

}  // namespace tandem
