// Jobs of documents.
#include "runtime/media/image/document_pages.h"

#include <algorithm>
#include <charconv>

#include "base/check.h"
#include "base/error.h"
#include "runtime/media/decoder_run.h"
#include "runtime/media/image/image_file.h"
#include "runtime/media/image/png_file.h"

namespace tandem {
namespace {

constexpr size_t kMostBefore = 1024;  // bytes that may stand before a PDF's first line

decoder::Job document_job(const MediaSource& file, int page, int dpi) {
  decoder::Job job;
  job.kind = decoder::JobKind::kDocument;
  job.size = file.size();
  job.rate = dpi;
  job.channels = page;
  return job;
}

// A number from 1 at the beginning of `text`, which it is taken from; 0: there is none.
int take_page(std::string_view& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 1) return 0;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return value;
}

}  // namespace

bool is_document(std::string_view first_bytes) {
  return first_bytes.substr(0, kMostBefore).find("%PDF-") != std::string_view::npos;
}

std::vector<PageRange> read_page_ranges(const std::string& text, const std::string& field) {
  std::vector<PageRange> out;
  for (std::string_view rest = text;;) {
    PageRange range;
    range.first = range.last = take_page(rest);
    bool good = range.first > 0;
    if (good && rest.starts_with('-')) {
      rest.remove_prefix(1);
      range.last = rest.empty() || rest.starts_with(',') ? 0 : take_page(rest);
      good = rest.empty() || rest.starts_with(',') ? range.last == 0 || range.last >= range.first
                                                   : false;
    }
    if (!good || (!rest.empty() && !rest.starts_with(',')))
      throw invalid_request(field, "\"" + text + "\" is no list of pages, such as 1-3,7,9-");
    out.push_back(range);
    if (rest.empty()) return out;
    rest.remove_prefix(1);
  }
}

std::vector<int> pages_of(const MediaSource& file, const std::vector<PageRange>& ranges,
                          const std::string& field) {
  DecoderRun run(DecoderPool::of_documents(), file, document_job(file, 0, 0), field);
  std::string payload;
  if (run.next(payload) != decoder::FrameKind::kDone) run.fail_as_nonsense();
  const int count = static_cast<int>(std::clamp(run.length(), 0.0, 1e9));
  std::vector<int> out;
  for (const PageRange& range : ranges.empty() ? std::vector<PageRange>{{}} : ranges) {
    const int last = range.last == 0 ? count : range.last;
    if (range.first > count || last > count)
      throw invalid_request(field, "has " + std::to_string(count) + " pages, none of number " +
                                       std::to_string(std::max(range.first, last)));
    if (static_cast<size_t>(last - range.first) + 1 + out.size() > size_t{kMostPages})
      throw InputError(ErrorKind::kResource,
                       field + ": more than " + std::to_string(kMostPages) +
                           " pages at once; choose some of them",
                       field);
    for (int page = range.first; page <= last; ++page) out.push_back(page);
  }
  return out;
}

std::string page_image(const MediaSource& file, int page, int dpi, const std::string& field) {
  TANDEM_CHECK(dpi >= kLeastDpi && dpi <= kMostDpi);
  DecoderRun run(DecoderPool::of_documents(), file, document_job(file, page, dpi), field);
  return png_file(receive_image(run, field));
}

}  // namespace tandem
