// HuggingFace's activation functions.
#pragma once

#include <cstdint>
#include <string_view>

namespace tandem {

enum class Activation : uint8_t {
  kNone,         // "linear"
  kRelu,         // "relu"
  kGelu,         // "gelu", "gelu_python": x/2 (1 + erf(x/sqrt 2))
  kGeluTanh,     // "gelu_new", "gelu_pytorch_tanh", "gelu_fast", …: one function to the last bits
  kQuickGelu,    // "quick_gelu": x sigmoid(1.702 x)
  kSilu,         // "silu", "swish"
  kTanh,         // "tanh"
  kSigmoid,      // "sigmoid"
  kClippedGelu,  // "gelu_10": gelu in [-10, 10]
  kHardSwish,    // "hardswish": x relu6(x + 3) / 6
  kLaplace,      // "laplace": Phi((x - 0.707107) / 0.282095)
  kLeakyRelu,    // "leaky_relu": 0.01 x below 0
  kMish,         // "mish": x tanh(softplus x)
  kRelu2,        // "relu2": relu(x)^2
  kRelu6,        // "relu6": min(relu(x), 6)
  kSqrtSoftplus,  // "sqrtsoftplus": sqrt(softplus x)
};

constexpr float kLaplaceMean = 0.707107f, kLaplaceDeviation = 0.282095f;
constexpr float kLeak = 0.01f;
constexpr float kGeluClip = 10.0f;

constexpr int kNumActivations = 16;

// By their names in config.json, all those of HuggingFace that have no weights. Throws InputError
// (field "activation_function") for other names.
Activation activation_from_name(std::string_view name);
// Whether HuggingFace has a function of that name whose weights are learned, which no layer has.
bool is_learned_activation(std::string_view name);

}  // namespace tandem
