// Files of images, and of documents, which are read page by page.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "runtime/media/image/document_pages.h"
#include "runtime/media/media_source.h"

namespace tandem::launcher {

// Used by one thread.
class PageFiles {
 public:
  // ranges: of every document; none: all of its pages.
  PageFiles(std::vector<PageRange> ranges, int dpi) : ranges_(std::move(ranges)), dpi_(dpi) {}

  // What stands for each page, in order: a document's are "scan.pdf#page=2", an image's the file. A
  // file that cannot be read stays one, and image() says why. Waits for decoders.
  std::vector<std::string> pages_of_files(const std::vector<std::string>& files);

  struct Place {
    std::string file;
    int page = 0;  // of a document, from 1
  };
  Place place(const std::string& page) const;
  // The bytes of a file of an image. Throws InputError, also for what was wrong with the document.
  std::string image(const std::string& page) const;

 private:
  std::optional<MediaSource> document(const std::string& file);
  void add_pages(const std::string& file, const MediaSource& source, std::vector<std::string>& out);

  std::vector<PageRange> ranges_;
  int dpi_;
  std::map<std::string, Place> places_;      // of documents' pages
  std::map<std::string, InputError> wrong_;  // by file
  std::optional<MediaSource> input_;         // standard input, which is read once
};

}  // namespace tandem::launcher
