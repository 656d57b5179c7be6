// The normalizers of tokenizer.json, one by one.
#pragma once

#include <memory>
#include <vector>

#include "text/pipeline/text_pipeline.h"

namespace tandem {

// Spends the budget for its steps. A step that can make a long text of a short one in one go checks
// the budget itself before it does.
std::unique_ptr<Normalizer> make_normalizer_sequence(
    std::vector<std::unique_ptr<Normalizer>> steps);

// "NFC", "NFD", "NFKC" or "NFKD"; of Unicode 9, as the library. nullptr: another type.
std::unique_ptr<Normalizer> make_unicode_form(const JsonView& json);

// "BertNormalizer", "Lowercase", "Nmt", "StripAccents" or "ByteLevel": they look at characters one
// by one. nullptr: another type.
std::unique_ptr<Normalizer> make_character_normalizer(const JsonView& json);

}  // namespace tandem
