// The labels of a model that classifies, as config.json has them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/config/config.h"

namespace tandem {

struct ModelLabels {
  // How HuggingFace's pipeline makes scores of logits: by problem_type, else by the number of
  // labels.
  enum class Activation : uint8_t { kSoftmax, kSigmoid, kNone };

  std::vector<std::string> names;  // by id
  Activation activation = Activation::kSoftmax;
  // The label that begins with "entail", in any case. Absent: none does.
  std::optional<int> entailment;
};

// id2label, or LABEL_0, … of num_labels, or of HuggingFace's default for the class. Throws
// InputError naming the key: ids that are not 0, 1, …; names that are not texts.
ModelLabels labels_of(const ModelConfig& config);

}  // namespace tandem
