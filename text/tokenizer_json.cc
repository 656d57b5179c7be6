// Checked access to the JSON of tokenizer files.
#include "text/tokenizer_json.h"

#include <fstream>
#include <system_error>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/strings/printable.h"

namespace tandem {
namespace {

// The largest tokenizer.json of a published model has about 40 MB.
constexpr uintmax_t kMaxFileBytes = uintmax_t{128} << 20;
constexpr size_t kMaxWhat = 500;  // characters of a message, which quotes the file

}  // namespace

JsonView JsonView::at(const std::string& key) const {
  const auto found = object().find(key);
  const std::string path = key_.empty() ? key : key_ + "." + key;
  if (found == value_->end()) JsonView(*value_, file_, path).fail("missing");
  return JsonView(*found, file_, path);
}

std::optional<JsonView> JsonView::find(const std::string& key) const {
  const auto found = object().find(key);
  if (found == value_->end() || found->is_null()) return std::nullopt;
  return JsonView(*found, file_, key_.empty() ? key : key_ + "." + key);
}

JsonView JsonView::at(size_t index) const {
  return JsonView((*value_)[index], file_, key_ + "[" + std::to_string(index) + "]");
}

size_t JsonView::size() const {
  if (!value_->is_array()) fail(std::string("expected an array, found ") + value_->type_name());
  return value_->size();
}

const std::string& JsonView::string() const {
  if (!value_->is_string()) fail(std::string("expected a string, found ") + value_->type_name());
  return value_->get_ref<const std::string&>();
}

bool JsonView::boolean() const {
  if (!value_->is_boolean())
    fail(std::string("expected true or false, found ") + value_->type_name());
  return value_->get<bool>();
}

int32_t JsonView::id() const {
  if (!value_->is_number_integer())
    fail(std::string("expected a token id, found ") + value_->type_name());
  const bool negative = !value_->is_number_unsigned() && value_->get<int64_t>() < 0;
  if (negative || value_->get<uint64_t>() >= uint64_t{kMaxVocabulary})
    fail("token id " + value_->dump() + " is not between 0 and " +
         std::to_string(kMaxVocabulary - 1));
  return value_->get<int32_t>();
}

int32_t JsonView::count(int32_t most) const {
  if (!value_->is_number_integer() || *value_ < 0 || *value_ > most)
    fail("expected a number from 0 to " + std::to_string(most) + ", found " + value_->dump());
  return value_->get<int32_t>();
}

const nlohmann::json& JsonView::object() const {
  if (!value_->is_object()) fail(std::string("expected an object, found ") + value_->type_name());
  return *value_;
}

void JsonView::fail(const std::string& what) const {
  throw InputError(
      ErrorKind::kInvalidModel,
      file_ + ": " + (key_.empty() ? "" : printable(key_) + ": ") + printable(what, kMaxWhat),
      file_);
}

void JsonView::fail_unsupported(const std::string& what) const {
  throw InputError(
      ErrorKind::kNotSupported,
      file_ + ": " + (key_.empty() ? "" : printable(key_) + ": ") + printable(what, kMaxWhat),
      file_);
}

std::string read_text_file(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error))
    throw invalid_model(file.string(), std::filesystem::exists(file, error)
                                           ? "not a file"
                                           : "is missing; the tokenizer needs it");
  const uintmax_t bytes = std::filesystem::file_size(file, error);
  if (error || bytes > kMaxFileBytes)
    throw invalid_model(file.string(), "larger than " + std::to_string(kMaxFileBytes) + " bytes");
  std::ifstream in(file, std::ios::binary);
  std::string text(bytes, '\0');
  in.read(text.data(), static_cast<std::streamsize>(bytes));
  if (!in || static_cast<uintmax_t>(in.gcount()) != bytes)
    throw invalid_model(file.string(), "cannot be read");
  refuse_lfs_pointer(text, file);
  return text;
}

}  // namespace tandem
