// A form that was sent as multipart/form-data: fields in memory, one file outside of it.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/media/media_source.h"
#include "server/http/body/multipart.h"
#include "server/http/body_budget.h"

namespace tandem::server {

struct FormPart {
  std::string name;
  std::optional<std::string> filename;
  std::string content;              // of a field
  std::optional<MediaSource> file;  // nothing: a field
};

struct Form {
  std::vector<FormPart> parts;
  std::shared_ptr<BodyShare> disk;  // what the file takes; null: nobody counts
};

// Collects a form. A part with a filename, and one named "file", is a file; there may be one.
class FormBuilder final : public FormSink {
 public:
  static constexpr size_t kMaxFieldBytes = 65536;  // names and contents of all fields

  // Called before memory or disk is used; throw if none is left. Absent: nothing is counted.
  struct Counters {
    std::function<void(size_t bytes)> memory = {}, disk = {};
    std::function<void()> begin_file = {};
  };
  explicit FormBuilder(Counters counters) : counters_(std::move(counters)) {}

  // FormSink. Throw InputError naming the part: too many bytes of fields, a second file.
  void begin_part(std::string name, std::optional<std::string> filename) override;
  void content(std::string_view bytes) override;
  void end_part() override {}

  // Bytes of the file that are not written yet.
  size_t unwritten() const { return unwritten_.size(); }
  // Writes them. Any thread, while nothing else is called. Throws InputError (kUnavailable).
  void write();
  // When all is written. Once.
  std::shared_ptr<Form> take(std::shared_ptr<BodyShare> disk = {});

 private:
  const Counters counters_;
  std::shared_ptr<Form> form_ = std::make_shared<Form>();
  std::optional<UnlinkedFile> file_;
  size_t file_part_ = 0;  // its place among the parts
  std::string unwritten_;
  size_t field_bytes_ = 0;
};

// The form of a whole body. Throws InputError.
std::shared_ptr<Form> read_form(std::string_view body, std::string_view boundary,
                                const FormLimits& limits = {});

}  // namespace tandem::server
