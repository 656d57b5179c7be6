// The library's models that look words up. "WordLevel": whole words. "WordPiece": the longest
// pieces from left to right.
#pragma once

#include <memory>

#include "text/pipeline/text_pipeline.h"

namespace tandem {

std::unique_ptr<TokenModel> make_word_level_model(const JsonView& json);
std::unique_ptr<TokenModel> make_word_piece_model(const JsonView& json);

}  // namespace tandem
