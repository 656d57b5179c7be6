// How the weights of linear layers are stored on a device.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tandem {

// Integers and 8-bit floats with scales in f32 (kernels/cuda/linear/quantized_weight.h).
enum class Quantization : uint8_t {
  kNone,
  kInt8,  // a scale for each output feature
  kInt4,  // a scale and a zero point for each 128 weights of an output feature
  kFp8,   // e4m3, a scale for each output feature
  // kFp8, and each row of the input is rounded to e4m3 with its own scale, if the device multiplies
  // e4m3 (compute capability 8.9) and the sizes are multiples of 16.
  kFp8Inputs,
};

// The words of --quantization. (kFp8Inputs is chosen by a model for some of its layers.)
constexpr const char* name_of(Quantization q) {
  switch (q) {
    case Quantization::kNone: return "none";
    case Quantization::kInt8: return "int8";
    case Quantization::kInt4: return "int4";
    case Quantization::kFp8:
    case Quantization::kFp8Inputs: return "fp8";
  }
  return "?";
}

constexpr std::optional<Quantization> quantization_named(std::string_view name) {
  for (const Quantization q :
       {Quantization::kNone, Quantization::kInt8, Quantization::kInt4, Quantization::kFp8})
    if (name == name_of(q)) return q;
  return std::nullopt;
}

// For layers whose inputs have many rows: the encoder's.
constexpr Quantization of_many_rows(Quantization q) {
  return q == Quantization::kFp8 ? Quantization::kFp8Inputs : q;
}

}  // namespace tandem
