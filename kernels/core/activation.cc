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
      {"gelu", Activation::kGelu},
      {"gelu_new", Activation::kGeluTanh},
      {"gelu_fast", Activation::kGeluTanh},
      {"gelu_pytorch_tanh", Activation::kGeluTanh},
      {"quick_gelu", Activation::kQuickGelu},
      {"silu", Activation::kSilu},
      {"swish", Activation::kSilu},
      {"tanh", Activation::kTanh},
      {"sigmoid", Activation::kSigmoid},
  };
  for (const auto& entry : kNames)
    if (entry.name == name) return entry.activation;
  std::string known;
  for (const auto& entry : kNames) known += (known.empty() ? "" : ", ") + std::string(entry.name);
  throw InputError(
      ErrorKind::kNotSupported,
      "activation_function: \"" + std::string(name) + "\" is not known, expected one of " + known,
      "activation_function");
}

}  // namespace tandem
