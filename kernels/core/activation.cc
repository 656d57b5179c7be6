#include "kernels/core/activation.h"

#include <string>

#include "base/error.h"

namespace tandem {

Activation activation_from_name(std::string_view name) {
  static constexpr struct {
    std::string_view name;
    Activation activation;
  } kNames[] = {
      {"linear", Activation::kNone},
      {"relu", Activation::kRelu},
      {"relu2", Activation::kRelu2},
      {"relu6", Activation::kRelu6},
      {"leaky_relu", Activation::kLeakyRelu},
      {"gelu", Activation::kGelu},
      {"gelu_python", Activation::kGelu},
      {"gelu_10", Activation::kClippedGelu},
      {"gelu_new", Activation::kGeluTanh},
      {"gelu_fast", Activation::kGeluTanh},
      {"gelu_accurate", Activation::kGeluTanh},
      {"gelu_pytorch_tanh", Activation::kGeluTanh},
      {"gelu_python_tanh", Activation::kGeluTanh},
      {"quick_gelu", Activation::kQuickGelu},
      {"silu", Activation::kSilu},
      {"swish", Activation::kSilu},
      {"tanh", Activation::kTanh},
      {"sigmoid", Activation::kSigmoid},
      {"hardswish", Activation::kHardSwish},
      {"laplace", Activation::kLaplace},
      {"mish", Activation::kMish},
      {"sqrtsoftplus", Activation::kSqrtSoftplus},
  };
  for (const auto& entry : kNames)
    if (entry.name == name) return entry.activation;
  std::string known;
  for (const auto& entry : kNames) known += (known.empty() ? "" : ", ") + std::string(entry.name);
  throw InputError(
      ErrorKind::kNotSupported,
      "activation_function: \"" + std::string(name) +
          (is_learned_activation(name) ? "\" has weights of its own, which no layer has"
                                       : "\" is not known") +
          ", expected one of " + known,
      "activation_function");
}

bool is_learned_activation(std::string_view name) { return name == "prelu" || name == "xielu"; }

}  // namespace tandem
