// HuggingFace's activation functions.
#pragma once

#include <cstdint>
#include <string_view>

namespace tandem {

enum class Activation : uint8_t {
  kNone,       // "linear"
  kRelu,       // "relu"
  kGelu,       // "gelu": x/2 (1 + erf(x/sqrt 2))
  kGeluTanh,   // "gelu_new", "gelu_pytorch_tanh", "gelu_fast"
  kQuickGelu,  // "quick_gelu": x sigmoid(1.702 x)
  kSilu,       // "silu", "swish"
  kTanh,       // "tanh"
  kSigmoid,    // "sigmoid"
};

// By their names in config.json. Throws InputError (field "activation_function") for other names.
Activation activation_from_name(std::string_view name);

}  // namespace tandem
