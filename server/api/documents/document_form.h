// The form of a request about a document: one file, and fields that are texts.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "server/http/http.h"
#include "text/documents/document_format.h"

namespace tandem::server {

struct DocumentForm {
  std::string file;  // its name
  DocumentFormat format = DocumentFormat::kText;
  std::string bytes;
  nlohmann::json fields;  // an object of texts
};

// most: bytes of the file. Throws InputError naming the field: no form, no file or an empty one, a
// format that is not read, a field twice, no UTF-8.
DocumentForm read_document_form(const HttpRequest& request, size_t most);

// A file's name without folders, of characters that are safe in a header and a URL: letters, digits
// and "-_.", others as "_".
std::string safe_file_name(const std::string& name);

}  // namespace tandem::server
