// The files of the tokenizers that HuggingFace runs in Python: those of SentencePiece models beside
// a vocabulary, of subwords, and of bytes.
#pragma once

#include "text/checkpoint_files.h"
#include "text/tokenizer_files.h"

namespace tandem {

bool runs_in_python(TokenizerRule::Kind kind);
// Of a rule whose kind does. Throws InputError naming the file.
TokenizerFiles combine_python_files(CheckpointFiles in, const TokenizerRule& rule);

}  // namespace tandem
