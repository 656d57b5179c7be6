// What HuggingFace's pipelines make of the logits of labels: probabilities, and the order of labels
// that a request names (zero-shot classification).
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "runtime/protocol/tandem.pb.h"

namespace tandem {

// logits: as many as there are names.
std::vector<double> probabilities_of(const proto::Labels& labels, std::span<const float> logits);
// The place of the largest number, the first of equals; `values` is not empty.
size_t place_of_largest(std::span<const float> values);

// Labels that a request names, each a hypothesis behind the text: how likely is it to follow?
struct ZeroShot {
  std::vector<std::string> labels;
  std::string hypothesis_template = "This example is {}.";
  bool multi_label = false;  // each for itself: entailment against contradiction

  // The second text for a label: the template's "{}" or "{0}" is the label, "{{" and "}}" are
  // braces. Throws InputError (hypothesis_template): no such place, another one, a lone brace.
  std::string hypothesis(size_t label) const;
  // Throws InputError naming the field: no labels, an empty one, a template without a place.
  void check() const;
};

struct RankedLabel {
  size_t label;  // its place among those of the request
  double score;
};
// The best first; of equals the later one, as in HuggingFace. logits: of each label's pair, as many
// as the model has labels. A model without a label of entailment has the last one for it.
std::vector<RankedLabel> rank_labels(const ZeroShot& asked, const proto::Labels& of_model,
                                     std::span<const std::vector<float>> logits);

}  // namespace tandem
