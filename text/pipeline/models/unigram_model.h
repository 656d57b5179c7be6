// The token model "Unigram" of tokenizer.json: the most likely segmentation of each word.
#pragma once

#include <memory>

#include "text/pipeline/text_pipeline.h"

namespace tandem {

// Its keys: vocab ([["token", score], …]), unk_id, byte_fallback. The same sums, and the same
// choice of equals, as in HuggingFace's tokenizers. Throws InputError naming the key.
std::unique_ptr<TokenModel> make_unigram_model(const JsonView& json);

}  // namespace tandem
