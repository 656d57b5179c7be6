// Text as a format writes it, so that nothing in it is markup.
#pragma once

#include "text/documents/document_format.h"
#include "text/documents/marked_text.h"

namespace tandem {

EncodeText encoder_of(DocumentFormat format);

}  // namespace tandem
