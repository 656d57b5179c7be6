#include "server/api/documents/document_form.h"

#include <utility>

#include "base/error.h"
#include "base/strings/printable.h"
#include "base/strings/utf8.h"
#include "server/http/body/form.h"
#include "server/http/body_budget.h"

namespace tandem::server {

DocumentForm read_document_form(const HttpRequest& request, size_t most) {
  if (request.form == nullptr)
    throw invalid_request("content-type", "is missing; expected multipart/form-data");
  DocumentForm out;
  out.fields = nlohmann::json::object();
  bool has_file = false;
  for (const FormPart& part : request.form->parts) {
    check_utf8(part.name, "body");
    if (part.file) {
      if (part.name != "file")
        throw invalid_request(part.name, "is a file; the document is in \"file\"");
      if (request.memory && !request.memory->grow_by(4 * part.file->size()))
        throw no_body_memory(request.memory->budget());
      out.bytes = part.file->bytes("file", most);
      out.file = part.filename.value_or("");
      has_file = true;
      continue;
    }
    check_utf8(part.content, part.name);
    if (!out.fields.emplace(part.name, part.content).second)
      throw invalid_request(part.name, "is there twice");
  }
  if (!has_file) throw invalid_request("file", "is missing: the form has no file of that name");
  if (out.bytes.empty()) throw invalid_request("file", "is empty");
  // DeepL's: the name, where the upload has none, or another one.
  if (const auto name = out.fields.find("filename"); name != out.fields.end()) {
    out.file = name->get<std::string>();
    out.fields.erase("filename");
  }
  check_utf8(out.file, "filename");
  const auto format = document_format_of_file(out.file);
  if (!format)
    throw not_supported("file", in_quotes(out.file) + ": the documents that are read end in " +
                                    known_document_endings());
  check_utf8(out.bytes, "file");
  out.format = *format;
  return out;
}

std::string safe_file_name(const std::string& name) {
  const std::string_view last = std::string_view(name).substr(name.find_last_of("/\\") + 1);
  std::string out;
  for (const char c : last.substr(last.size() > 100 ? last.size() - 100 : 0)) {
    const bool is_safe = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                         (c >= 'A' && c <= 'Z') || c == '-' || c == '_' || c == '.';
    out += is_safe ? c : '_';
  }
  return out.empty() ? "document" : out;
}

}  // namespace tandem::server
