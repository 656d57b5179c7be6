// Texts within a block that are not translated.
#pragma once

#include <string>
#include <vector>

#include "text/documents/glossary.h"
#include "text/documents/marked_text.h"

namespace tandem {

// Makes a fixed part of each match, which are in the order of the text. Targets take the place of
// the text; without one the text stays. What has markup within it, or cuts what the source writes
// in another way, is left as it was.
void fix_texts(const std::vector<GlossaryMatch>& matches, std::string& text,
               std::vector<InlinePart>& parts);

}  // namespace tandem
