// The normalizers of tokenizer.json, one by one.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "text/pipeline/text_pipeline.h"

namespace tandem {

// `file` is for errors of texts that grow too much.
std::unique_ptr<Normalizer> make_normalizer_sequence(std::vector<std::unique_ptr<Normalizer>> steps,
                                                     std::string file);
// Throws InputError if a normalizer lets a text grow so much that its file must be damaged.
void check_normalized_size(const std::string& file, size_t before, size_t after);

// "NFC", "NFD", "NFKC" or "NFKD"; of Unicode 9, as the library. nullptr: another type.
std::unique_ptr<Normalizer> make_unicode_form(const JsonView& json);

// "BertNormalizer", "Lowercase", "Nmt", "StripAccents" or "ByteLevel": they look at characters one
// by one. nullptr: another type.
std::unique_ptr<Normalizer> make_character_normalizer(const JsonView& json);

}  // namespace tandem
