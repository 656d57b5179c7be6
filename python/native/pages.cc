// A file is opened anew for each page: the caller keeps it, as a file or in memory.
#include "python/native/pages.h"

#include <cstdint>
#include <vector>

#include "base/error.h"
#include "runtime/media/image/document_pages.h"
#include "runtime/media/media_source.h"

using nlohmann::json;

namespace tandem::library {
namespace {

constexpr const char* kField = "image";

MediaSource source_of(const json& request, std::string_view bytes) {
  const auto path = request.find("path");
  if (path == request.end()) return MediaSource::of_bytes(bytes, kField);
  return MediaSource::open(path->get<std::string>(), kField);
}

}  // namespace

json pdf_pages(const json& request, std::string_view bytes) {
  const std::string wanted = request.value("pages", std::string());
  const std::vector<PageRange> ranges =
      wanted.empty() ? std::vector<PageRange>() : read_page_ranges(wanted, "pages");
  return {{"pages", pages_of(source_of(request, bytes), ranges, kField)}};
}

std::string pdf_page_image(const json& request, std::string_view bytes) {
  const int64_t dpi = request.value("dpi", int64_t{kDefaultDpi});
  if (dpi < kLeastDpi || dpi > kMostDpi)
    throw invalid_request("dpi", std::to_string(dpi) + " is not from " + std::to_string(kLeastDpi) +
                                     " to " + std::to_string(kMostDpi));
  return page_image(source_of(request, bytes), request.value("page", 0), static_cast<int>(dpi),
                    kField);
}

}  // namespace tandem::library
