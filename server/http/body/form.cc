#include "server/http/body/form.h"

#include <utility>

#include "base/error.h"

namespace tandem::server {

void FormBuilder::begin_part(std::string name, std::optional<std::string> filename) {
  FormPart part;
  part.name = std::move(name);
  part.filename = std::move(filename);
  if (part.filename || part.name == "file") {
    if (file_) throw invalid_request(part.name, "is a second file; a request has one");
    if (counters_.begin_file) counters_.begin_file();
    file_.emplace(part.name);
    file_part_ = form_->parts.size();
  } else {
    if (counters_.memory) counters_.memory(part.name.size());
    field_bytes_ += part.name.size();
  }
  form_->parts.push_back(std::move(part));
}

void FormBuilder::content(std::string_view bytes) {
  if (file_ && file_part_ + 1 == form_->parts.size()) {
    if (counters_.disk) counters_.disk(bytes.size());
    unwritten_ += bytes;
    return;
  }
  FormPart& part = form_->parts.back();
  field_bytes_ += bytes.size();
  if (field_bytes_ > kMaxFieldBytes)
    throw invalid_request(part.name, "with it the fields beside the file have more than " +
                                         std::to_string(kMaxFieldBytes) + " bytes");
  if (counters_.memory) counters_.memory(bytes.size());
  part.content += bytes;
}

void FormBuilder::write() {
  if (file_) file_->append(unwritten_);
  unwritten_.clear();
}

std::shared_ptr<Form> FormBuilder::take(std::shared_ptr<BodyShare> disk) {
  if (file_) form_->parts[file_part_].file = std::move(*file_).finish();
  form_->disk = std::move(disk);
  return std::move(form_);
}

std::shared_ptr<Form> read_form(std::string_view body, std::string_view boundary,
                                const FormLimits& limits) {
  FormBuilder builder({});
  FormParser parser(boundary, builder, limits);
  parser.put(body);
  parser.finish();
  builder.write();
  return builder.take();
}

}  // namespace tandem::server
