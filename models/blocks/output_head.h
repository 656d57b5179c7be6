// What stands on a decoder in place of a language model's head.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "models/config/config.h"
#include "parallel/layers/layers.h"

namespace tandem {

// A few outputs of each hidden state, whole on every rank: nothing is exchanged. Small beside a
// layer, so on a CPU it computes in f32, whatever the model's type.
class OutputHead {
 public:
  // HuggingFace's classification heads: "dense", tanh, "out_proj".
  static OutputHead of_labels(const Weights& w, const Build& b, int64_t d_model, int64_t outputs);
  // One linear layer: the logits of an answer's start and of its end.
  static OutputHead of_spans(const Weights& w, const Build& b, int64_t d_model);

  Tensor forward(const Tensor& hidden) const;  // [rows, d_model] → [rows, outputs]

 private:
  struct Layers;
  explicit OutputHead(std::shared_ptr<const Layers> layers) : layers_(std::move(layers)) {}
  std::shared_ptr<const Layers> layers_;
};

// The head of a class that classifies (`classification_head`) or answers (`qa_outputs`); nothing
// for other classes.
std::optional<OutputHead> find_output_head(const Weights& root, const Build& b,
                                           const ModelConfig& c);

}  // namespace tandem
