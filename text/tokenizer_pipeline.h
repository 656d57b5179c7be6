// Builds a tokenizer from the contents of its files, which Tokenizer::load() reads first.
#pragma once

#include <memory>

#include "text/tokenizer.h"
#include "text/tokenizer_files.h"

namespace tandem {

std::unique_ptr<Tokenizer> make_tokenizer(TokenizerFiles files);

}  // namespace tandem
