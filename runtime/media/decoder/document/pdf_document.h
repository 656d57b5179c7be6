// PDF files → pixels of their pages, by poppler.
#pragma once

#include "runtime/media/decoder/byte_source.h"
#include "runtime/media/decoder/serve.h"
#include "runtime/media/image/image.h"

namespace tandem::decoder {

// Fonts of this host, and poppler's tables: nothing can be opened once the program is locked in.
void prepare_documents();
// Pages. Throws DecodeError: no PDF, broken, encrypted, or over the bounds of image.h and of
// decoder_protocol.h.
int count_pages(ByteSource& source);
// A page from 1, at so many dots per inch, as it is shown: its crop box, turned as it says, on
// white.
Image draw_page(ByteSource& source, int page, int dpi);

inline constexpr DocumentReader kPdfDocuments = {prepare_documents, count_pages, draw_page};

}  // namespace tandem::decoder
