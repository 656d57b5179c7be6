// Files of glossaries.
#pragma once

#include <string>

#include "text/documents/glossary.h"

namespace tandem::launcher {

// By the ending of its name: .tsv or .csv. Throws InputError naming `field`.
Glossary read_glossary_file(const std::string& file, const std::string& field);

}  // namespace tandem::launcher
