// A target language by name → the ids that the decoder or the encoder gets for it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/config/config.h"
#include "runtime/protocol/tandem.pb.h"
#include "runtime/request/params/params_resolver.h"
#include "text/languages.h"

namespace tandem {

// The languages of a model whose tokenizer has no names for them (opus-mt-en-de), by its files.
struct OwnLanguages {
  // Codes; empty: not known, several ("mul"), or named by each request.
  std::string source, target;
  bool any_source = false;  // one of several, which the model need not be told

  static OwnLanguages of(const ModelConfig& config, const LanguageSet& languages);
  // The options without languages that are the model's own anyway. Throws InputError (src_lang,
  // tgt_lang) where they name another.
  proto::GenerationOptions without(proto::GenerationOptions options) const;
};

// Whether a translation says nothing unless its target is named: the model has several, and its
// settings begin with none of them. (A text may begin with the token of an opus-mt model.)
bool needs_target_language(const ModelConfig& config, const LanguageSet& languages);

// The options with the id of their tgt_lang where the family's rule wants it: forced_bos_token_id
// or decoder_start_token_id (a source's prefix is add_source_prefix()'s). A target that is scored
// brings a first token of its own. Throws InputError: no such language, or another token than the
// one that the options name.
proto::GenerationOptions with_target_language(const proto::Prompt& prompt,
                                              proto::GenerationOptions options,
                                              const LanguageSet& languages,
                                              const ParamsResolver& resolver);

// Of a family whose sources begin with the target's language: puts it before the ids, unless they
// begin with it. Throws InputError if they begin with another one.
void add_source_prefix(const proto::GenerationOptions& options, const LanguageSet& languages,
                       std::vector<int32_t>& ids);

}  // namespace tandem
