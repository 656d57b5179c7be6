// A document is opened for each of its pages: descriptors are few, and files many.
#include "launcher/commands/files/page_files.h"

#include <unistd.h>

#include <utility>

#include "runtime/media/image/image_file.h"

namespace tandem::launcher {
namespace {

constexpr const char* kFileArgument = "FILE";

bool holds_document(const MediaSource& source) {
  std::string first(1024, '\0');
  const ssize_t got = pread(source.fd(), first.data(), first.size(), 0);
  return got > 0 && is_document(std::string_view(first).substr(0, static_cast<size_t>(got)));
}

}  // namespace

// Nothing: it is an image, or cannot be read.
std::optional<MediaSource> PageFiles::document(const std::string& file) {
  try {
    MediaSource source = MediaSource::open(file, file, kMaxImageBytes * 2);
    if (file == "-") input_ = source;
    if (holds_document(source)) return source;
  } catch (const InputError&) {  // image() comes to the same end
  }
  return std::nullopt;
}

void PageFiles::add_pages(const std::string& file, const MediaSource& source,
                          std::vector<std::string>& out) {
  try {
    for (const int page : pages_of(source, ranges_, file)) {
      out.push_back(file + "#page=" + std::to_string(page));
      places_[out.back()] = {file, page};
    }
  } catch (const InputError& error) {
    wrong_.emplace(file, error);
    out.push_back(file);
  }
}

std::vector<std::string> PageFiles::pages_of_files(const std::vector<std::string>& files) {
  std::vector<std::string> out;
  for (const std::string& file : files) {
    if (const auto source = document(file))
      add_pages(file, *source, out);
    else
      out.push_back(file);
  }
  return out;
}

PageFiles::Place PageFiles::place(const std::string& page) const {
  const auto found = places_.find(page);
  return found == places_.end() ? Place{page} : found->second;
}

std::string PageFiles::image(const std::string& page) const {
  const Place at = place(page);
  if (const auto error = wrong_.find(at.file); error != wrong_.end()) throw error->second;
  const bool is_input = at.file == "-" && input_.has_value();
  if (at.page > 0)
    return page_image(is_input ? *input_ : MediaSource::open(at.file, at.file), at.page, dpi_,
                      at.file);
  return is_input ? input_->bytes(kFileArgument, kMaxImageBytes)
                  : read_image_file(at.file, kFileArgument);
}

}  // namespace tandem::launcher
