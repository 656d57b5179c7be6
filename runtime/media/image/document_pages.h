// PDF files → images of their pages, by a program of its own (docs/design/decoder.md).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/media/media_source.h"

namespace tandem {

// Whether a file that begins so is a PDF.
bool is_document(std::string_view first_bytes);

struct PageRange {
  int first = 1, last = 0;  // from 1, both included; last 0: to the end
};
// "3", "1-3", "4-", "1-3,7". Throws InputError (`field`).
std::vector<PageRange> read_page_ranges(const std::string& text, const std::string& field);

// The pages of a file, from 1, in their order; none given: all. Waits for a decoder. Throws
// InputError (`field`): the file is no PDF, broken, encrypted or too large, has no such page, or
// there are more than kMostPages.
std::vector<int> pages_of(const MediaSource& file, const std::vector<PageRange>& ranges,
                          const std::string& field);
// A page as a PNG file. dpi: of kLeastDpi to kMostDpi. Waits; throws likewise, also where it has
// more pixels than images may have.
std::string page_image(const MediaSource& file, int page, int dpi, const std::string& field);

inline constexpr int kMostPages = 1000, kLeastDpi = 20, kDefaultDpi = 150, kMostDpi = 600;

}  // namespace tandem
