// The template of a tokenizer class around texts, and the settings of tokenizer_config.json that
// all classes share.
#pragma once

#include "text/pipeline/special_tokens.h"
#include "text/tokenizer_files.h"
#include "text/tokenizer_rule.h"

namespace tandem {

// Puts the class's template into the document of `out`, unless tokenizer.json's template counts.
// Notes its tokens and languages there. A class without a template has BOS and EOS if
// tokenizer_config.json says so and there is no tokenizer.json.
void add_template(const TokenizerRule& rule, const OptionalFile& config,
                  const SpecialTokens& tokens, bool has_tokenizer_json, TokenizerFiles& out);

// `tidies`: the class's clean_up_tokenization_spaces. Throws InputError naming the key.
void read_settings(const OptionalFile& config, bool tidies, TokenizerFiles& out);

}  // namespace tandem
