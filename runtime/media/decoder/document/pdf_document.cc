// Poppler's C++ interface. It says what is wrong with a file by being silent.
#include "runtime/media/decoder/document/pdf_document.h"

#include <poppler/cpp/poppler-document.h>
#include <poppler/cpp/poppler-global.h>
#include <poppler/cpp/poppler-page-renderer.h>
#include <poppler/cpp/poppler-page.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <string>

#include "runtime/media/decoder/decode_error.h"
#include "runtime/media/decoder/document/known_files.h"
#include "runtime/media/decoder_protocol.h"

namespace tandem::decoder {
namespace {

using DocumentPtr = std::unique_ptr<poppler::document>;

// A page with a line of text: what poppler opens for the first one is open then.
constexpr char kSmallDocument[] =
    "%PDF-1.1\n"
    "1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n"
    "2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n"
    "3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 72 72]/Contents 4 0 R"
    "/Resources<</Font<</F 5 0 R>>>>>>endobj\n"
    "4 0 obj<</Length 32>>stream\nBT /F 12 Tf 9 9 Td (a) Tj ET    \nendstream endobj\n"
    "5 0 obj<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>endobj\n"
    "trailer<</Root 1 0 R/Size 6>>\n";

void say_nothing(const std::string&, void*) {}

DocumentPtr open_document(ByteSource& source) {
  if (source.size() > kMostDocumentBytes)
    throw too_large("has more than " + std::to_string(kMostDocumentBytes >> 20) +
                    " MiB, the most that a document may have");
  poppler::byte_array bytes(static_cast<size_t>(source.size()));
  size_t got = 0;
  while (got < bytes.size()) {
    const size_t count = source.read(got, bytes.data() + got, bytes.size() - got);
    if (count == 0) throw unreadable("cannot be read to its end");
    got += count;
  }
  DocumentPtr document(poppler::document::load_from_data(&bytes));
  if (!document) throw unreadable("is no PDF that can be read");
  if (document->is_locked()) throw unreadable("is encrypted: it opens with a password only");
  return document;
}

}  // namespace

void prepare_documents() {
  poppler::set_debug_error_function(say_nothing, nullptr);
  know_fonts();
  know_folder("/usr/share/poppler");
  // Kept: with the last document poppler forgets what it knows.
  static poppler::document* const kept =
      poppler::document::load_from_raw_data(kSmallDocument, sizeof kSmallDocument - 1);
  if (kept == nullptr) return;
  const std::unique_ptr<poppler::page> page(kept->create_page(0));
  if (page) poppler::page_renderer().render_page(page.get());
}

int count_pages(ByteSource& source) {
  const DocumentPtr document = open_document(source);
  if (document->pages() < 1) throw unreadable("has no page");
  return document->pages();
}

Image draw_page(ByteSource& source, int page_number, int dpi) {
  const DocumentPtr document = open_document(source);
  const std::unique_ptr<poppler::page> page(page_number >= 1 && page_number <= document->pages()
                                                ? document->create_page(page_number - 1)
                                                : nullptr);
  if (!page) throw unreadable("has no page " + std::to_string(page_number));
  const poppler::rectf box = page->page_rect();
  const double scale = dpi / 72.0, width = std::ceil(box.width() * scale),
               height = std::ceil(box.height() * scale);
  const std::string named = "page " + std::to_string(page_number);
  if (!(width >= 1 && height >= 1)) throw unreadable(named + " has no size");
  if (width > kMaxImageSide || height > kMaxImageSide || width * height > kMaxImagePixels)
    throw too_large(named + " has more pixels at " + std::to_string(dpi) +
                    " dots per inch than are read");
  poppler::page_renderer renderer;
  renderer.set_render_hints(poppler::page_renderer::antialiasing |
                            poppler::page_renderer::text_antialiasing);
  renderer.set_image_format(poppler::image::format_rgb24);
  const poppler::image drawn = renderer.render_page(page.get(), dpi, dpi);
  if (!drawn.is_valid() || drawn.width() < 1 || drawn.height() < 1)
    throw unreadable(named + " cannot be drawn");
  Image out = Image::black(drawn.width(), drawn.height());
  for (int y = 0; y < out.height; ++y)
    std::memcpy(out.row(y), drawn.const_data() + int64_t{y} * drawn.bytes_per_row(),
                size_t{3} * static_cast<size_t>(out.width));
  return out;
}

}  // namespace tandem::decoder
