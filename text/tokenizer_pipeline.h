// Building a tokenizer from what its files said; Tokenizer::load() reads them first.
#pragma once

#include <memory>

#include "text/tokenizer.h"
#include "text/tokenizer_files.h"

namespace tandem {

std::unique_ptr<Tokenizer> make_tokenizer(TokenizerFiles files);

}  // namespace tandem
