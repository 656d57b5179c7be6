#include <algorithm>

#include "text/documents/readers/document_readers.h"

namespace tandem {

void read_lines(DocumentFlow& flow) {
  const std::string_view source = flow.source();
  for (size_t at = 0; at < source.size();) {
    const size_t end = std::min(source.find_first_of("\n\r", at), source.size());
    flow.text(at, end);
    flow.boundary();
    at = end + 1;
  }
}

}  // namespace tandem
