// What BART and the families made after it share: learned positions with an offset of 2, a layer
// norm behind the embeddings, one table of tokens.
#pragma once

#include <memory>

#include "models/blocks/seq2seq.h"

namespace tandem {

// kPre: each side ends with a norm, "layer_norm". Throws InputError naming the tensor that is
// missing or of another shape.
std::unique_ptr<Model> make_bart_shape(const ModelConfig& c, const Weights& root, const Build& b,
                                       NormPlace norms);

}  // namespace tandem
