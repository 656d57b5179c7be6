// The files of the tokenizers that HuggingFace runs in Python: those of SentencePiece models beside
// a vocabulary, of subwords, and of bytes.
#pragma once

#include "text/checkpoint_files.h"
#include "text/pipeline/text_pipeline.h"
#include "text/python/python_tokens.h"
#include "text/tokenizer_files.h"

namespace tandem {

bool runs_in_python(TokenizerRule::Kind kind);
// Of a rule whose kind does. Throws InputError naming the file.
TokenizerFiles combine_python_files(CheckpointFiles in, const TokenizerRule& rule);

// New tokens are numbered as if the vocabulary were the pieces of the model, fairseq's first
// tokens, and what the files add to them. The arguments outlive the result.
PythonVocabulary vocabulary_of_pieces(const TokenizerFiles& files, const TokenModel& model);

}  // namespace tandem
