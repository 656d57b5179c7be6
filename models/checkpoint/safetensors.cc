// The safetensors format:
//   file   := u64 n (little-endian) | header, n bytes of JSON | data
//   header := {"__metadata__": {string: string}?, NAME: {"dtype", "shape", "data_offsets"}, ...}
// Offsets count from the start of the data. As in the reference implementation, the tensors cover
// the data exactly: no overlap, no hole, nothing behind the last one.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "base/json.h"
#include "base/strings/printable.h"
#include "models/checkpoint/checkpoint.h"

namespace tandem {
namespace {

using nlohmann::json;

constexpr uint64_t kMaxHeader = 100'000'000;
constexpr size_t kMaxDims = 16;
constexpr int kMaxIgnoredDepth = 64;

struct FileDType {
  std::string_view name;
  unsigned bits;
  std::optional<DType> dtype;
  const char* foreign = nullptr;  // torch's name, where there is no dtype
};

// clang-format off
constexpr FileDType kDTypes[] = {
    {"F32", 32, DType::kF32},   {"F16", 16, DType::kF16},   {"BF16", 16, DType::kBF16},
    {"I32", 32, DType::kI32},   {"I64", 64, DType::kI64},   {"U8", 8, DType::kU8},
    {"BOOL", 8, DType::kU8},
    {"F64", 64, {}, "float64"}, {"C64", 64, {}, "complex64"}, {"I8", 8, {}, "int8"},
    {"I16", 16, {}, "int16"},   {"U16", 16, {}, "uint16"},  {"U32", 32, {}, "uint32"},
    {"U64", 64, {}, "uint64"},
    {"F8_E4M3", 8, {}, "float8_e4m3fn"},       {"F8_E5M2", 8, {}, "float8_e5m2"},
    {"F8_E8M0", 8, {}, "float8_e8m0fnu"},      {"F8_E4M3FNUZ", 8, {}, "float8_e4m3fnuz"},
    {"F8_E5M2FNUZ", 8, {}, "float8_e5m2fnuz"}, {"F6_E2M3", 6, {}, "float6_e2m3"},
    {"F6_E3M2", 6, {}, "float6_e3m2"},         {"F4", 4, {}, "float4"},
};
// clang-format on

struct Entry {
  std::string name;
  const FileDType* dtype = nullptr;
  bool has_shape = false, has_offsets = false;
  std::vector<uint64_t> shape, offsets;
  uint64_t begin = 0, end = 0;  // the two offsets
};

// Reads the header as a stream of events, without a document in between: memory stays proportional
// to the number of tensors, and every deviation is reported where it occurs.
class HeaderReader final : public json::json_sax_t {
 public:
  HeaderReader(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  std::vector<Entry> read() {
    json::sax_parse(text_.begin(), text_.end(), this);
    return std::move(entries_);
  }

  bool null() override { return scalar("null", nullptr); }
  bool boolean(bool) override { return scalar("a boolean", nullptr); }
  bool number_float(double, const std::string&) override { return scalar("a fraction", nullptr); }
  bool binary(binary_t&) override { return scalar("binary", nullptr); }
  bool number_integer(int64_t value) override {
    if (numbers_ == nullptr) return scalar("a number", nullptr);
    fail(std::string(field_) + " has the negative value " + std::to_string(value));
  }
  bool number_unsigned(uint64_t value) override {
    if (numbers_ == nullptr) return scalar("a number", nullptr);
    if (numbers_->size() == kMaxDims)
      fail(std::string(field_) + " has more than " + std::to_string(kMaxDims) + " values");
    numbers_->push_back(value);
    return true;
  }
  bool string(std::string& value) override { return scalar("a string", &value); }

  bool key(std::string& key) override {
    if (ignored_depth_ > 0 || where_ == Where::kMetadata) return true;
    if (where_ == Where::kHeader) {
      if (!names_.insert(key).second) fail_at("tensor " + in_quotes(key) + ": appears twice");
      entries_.emplace_back().name = key;
      return true;
    }
    field_ = key == "dtype"          ? "dtype"
             : key == "shape"        ? "shape"
             : key == "data_offsets" ? "data_offsets"
                                     : "";
    const Entry& e = entries_.back();
    const bool twice = (field_ == "dtype" && e.dtype) || (field_ == "shape" && e.has_shape) ||
                       (field_ == "data_offsets" && e.has_offsets);
    if (twice) fail(std::string(field_) + " appears twice");
    return true;
  }

  bool start_object(size_t) override {
    if (ignoring()) return deeper();
    switch (where_) {
      case Where::kTop: where_ = Where::kHeader; return true;
      case Where::kHeader:
        where_ = entries_.back().name == "__metadata__" ? Where::kMetadata : Where::kTensor;
        field_ = {};
        return true;
      default: return scalar("an object", nullptr);
    }
  }
  bool end_object() override {
    if (ignored_depth_ > 0) return --ignored_depth_, true;
    if (where_ == Where::kMetadata) entries_.pop_back();
    where_ = where_ == Where::kHeader ? Where::kTop : Where::kHeader;
    return true;
  }
  bool start_array(size_t) override {
    if (ignoring()) return deeper();
    if (where_ == Where::kTop || numbers_ != nullptr || field_ == "dtype" ||
        where_ != Where::kTensor)
      return scalar("an array", nullptr);
    Entry& e = entries_.back();
    (field_ == "shape" ? e.has_shape : e.has_offsets) = true;
    numbers_ = field_ == "shape" ? &e.shape : &e.offsets;
    return true;
  }
  bool end_array() override {
    if (ignored_depth_ > 0) return --ignored_depth_, true;
    numbers_ = nullptr;
    return true;
  }

  bool parse_error(size_t byte, const std::string&, const json::exception& e) override {
    fail_at("malformed JSON: " + json_error(text_, e, byte));
  }

 private:
  enum class Where { kTop, kHeader, kMetadata, kTensor };

  // A field of a tensor that the format does not name; later versions may add one.
  bool ignoring() const {
    return ignored_depth_ > 0 || (where_ == Where::kTensor && field_.empty());
  }
  bool deeper() {
    if (++ignored_depth_ > kMaxIgnoredDepth) fail("nested too deep");
    return true;
  }

  // A value that is not a container, or one that may not stand here.
  bool scalar(const char* what, const std::string* value) {
    if (ignoring()) return true;
    if (numbers_ != nullptr) fail(std::string(field_) + " contains " + what);
    switch (where_) {
      case Where::kTop: fail_at(std::string("is ") + what + ", expected an object");
      case Where::kMetadata:
        if (value != nullptr) return true;
        fail_at(std::string("__metadata__ contains ") + what + ", expected strings");
      case Where::kHeader:
        if (entries_.back().name == "__metadata__" && std::strcmp(what, "null") == 0)
          return entries_.pop_back(), true;
        fail(std::string("is ") + what + ", expected an object");
      case Where::kTensor: break;
    }
    if (field_ != "dtype") fail(std::string(field_) + " is " + what + ", expected an array");
    if (value == nullptr) fail(std::string("dtype is ") + what + ", expected a string");
    const auto* type = std::find_if(std::begin(kDTypes), std::end(kDTypes),
                                    [&](const FileDType& t) { return t.name == *value; });
    if (type == std::end(kDTypes)) fail("unknown dtype " + in_quotes(*value));
    entries_.back().dtype = type;
    return true;
  }

  [[noreturn]] void fail(const std::string& message) const {
    fail_at("tensor " + in_quotes(entries_.back().name) + ": " + message);
  }
  [[noreturn]] void fail_at(const std::string& message) const {
    throw invalid_model(file_, "header: " + message);
  }

  std::string_view text_;
  const std::string& file_;
  Where where_ = Where::kTop;
  std::string_view field_;                    // of the tensor that is being read; empty: ignored
  std::vector<uint64_t>* numbers_ = nullptr;  // the array that is being read
  int ignored_depth_ = 0;
  std::vector<Entry> entries_;
  std::unordered_set<std::string> names_;
};

std::string_view read_header(const std::byte* data, size_t size, const std::string& file) {
  if (size < 8)
    throw invalid_model(
        file, "has " + std::to_string(size) + " bytes, too short for a safetensors header");
  uint64_t n = 0;
  for (int i = 7; i >= 0; --i) n = n << 8 | static_cast<uint64_t>(data[i]);
  if (n > kMaxHeader)
    throw invalid_model(file, "header of " + std::to_string(n) + " bytes, at most " +
                                  std::to_string(kMaxHeader) + " are allowed");
  if (n > size - 8)
    throw invalid_model(file, "header of " + std::to_string(n) + " bytes, but the file has " +
                                  std::to_string(size) + ": truncated, or not a safetensors file");
  const std::string_view header(reinterpret_cast<const char*>(data) + 8, static_cast<size_t>(n));
  if (header.empty() || header[0] != '{')
    throw invalid_model(file, "header: does not begin with {, not a safetensors file");
  if (header.find('\0') != std::string_view::npos)
    throw invalid_model(file, "header: contains a NUL byte");
  return header;
}

// Bytes of a tensor by its type and shape; nullopt on overflow or a fraction of a byte.
std::optional<uint64_t> byte_size(const Entry& e) {
  uint64_t bits = 1;
  for (uint64_t d : e.shape) {
    if (d > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
    if (__builtin_mul_overflow(bits, d, &bits)) return std::nullopt;
  }
  if (__builtin_mul_overflow(bits, uint64_t{e.dtype->bits}, &bits)) return std::nullopt;
  if (bits % 8 != 0) return std::nullopt;
  return bits / 8;
}

void check_fields(Entry& e, const std::string& file) {
  const auto fail = [&](const std::string& message) {
    throw invalid_model(file, "header: tensor " + in_quotes(e.name) + ": " + message);
  };
  if (e.dtype == nullptr) fail("dtype is missing");
  if (!e.has_shape) fail("shape is missing");
  if (!e.has_offsets) fail("data_offsets is missing");
  if (e.offsets.size() != 2)
    fail("data_offsets has " + std::to_string(e.offsets.size()) + " values, expected 2");
  e.begin = e.offsets[0];
  e.end = e.offsets[1];
}

std::string range(const Entry& e) {
  return "data_offsets [" + std::to_string(e.begin) + ", " + std::to_string(e.end) + "]";
}

// A copy or a download that has stopped.
void check_whole(const std::vector<Entry>& entries, uint64_t header_size, uint64_t data_size,
                 const std::string& file) {
  constexpr uint64_t kMostBytes = uint64_t{1} << 50;  // beyond, the header is wrong
  const auto last = std::max_element(entries.begin(), entries.end(),
                                     [](const Entry& a, const Entry& b) { return a.end < b.end; });
  if (last == entries.end() || last->end <= data_size || last->end > kMostBytes) return;
  throw invalid_model(file, "is truncated: it has " + std::to_string(header_size + data_size) +
                                " of " + std::to_string(header_size + last->end) +
                                " bytes; download or copy it again (header: tensor " +
                                in_quotes(last->name) + ": " + range(*last) +
                                " lie outside of the data of " + std::to_string(data_size) +
                                " bytes)");
}

// Checks that the entries, sorted by offset, tile [0, data_size).
void check_layout(const std::vector<Entry>& entries, uint64_t data_size, const std::string& file) {
  uint64_t expected = 0;
  for (const Entry& e : entries) {
    const auto fail = [&](const std::string& message) {
      throw invalid_model(file, "header: tensor " + in_quotes(e.name) + ": " + message);
    };
    if (e.begin > e.end) fail(range(e) + " end before they begin");
    if (e.end > data_size)
      fail(range(e) + " lie outside of the data of " + std::to_string(data_size) +
           " bytes: the file is truncated, or its header is wrong");
    const auto size = byte_size(e);
    if (!size || *size != e.end - e.begin) {
      Shape shape(e.shape.begin(), e.shape.end());
      fail(range(e) + " do not fit dtype " + std::string(e.dtype->name) + " and shape " +
           to_string(shape) + (size ? " (" + std::to_string(*size) + " bytes)" : ""));
    }
    if (e.begin < expected) fail(range(e) + " overlap the tensor before it");
    if (e.begin > expected)
      fail(range(e) + " leave a hole behind byte " + std::to_string(expected));
    expected = e.end;
  }
  if (expected != data_size)
    throw invalid_model(file, std::to_string(data_size - expected) +
                                  " bytes behind the last tensor that belong to none");
}

}  // namespace

std::vector<HostTensor> read_safetensors(const std::byte* data, size_t size,
                                         const std::string& name,
                                         std::shared_ptr<const void> keep_alive) {
  const std::string_view header = read_header(data, size, name);
  std::vector<Entry> entries = HeaderReader(header, name).read();
  for (Entry& e : entries) check_fields(e, name);
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  check_whole(entries, 8 + header.size(), size - 8 - header.size(), name);
  check_layout(entries, size - 8 - header.size(), name);

  std::vector<HostTensor> tensors;
  tensors.reserve(entries.size());
  const std::byte* base = data + 8 + header.size();
  for (Entry& e : entries) {
    HostTensor t;
    t.name = std::move(e.name);
    t.file = name;
    t.data = base + e.begin;
    t.bytes = static_cast<size_t>(e.end - e.begin);
    t.dtype = e.dtype->dtype.value_or(DType::kU8);
    if (!e.dtype->dtype) t.foreign_dtype = e.dtype->foreign;
    t.shape.assign(e.shape.begin(), e.shape.end());
    t.keep_alive = keep_alive;
    tensors.push_back(std::move(t));
  }
  return tensors;
}

}  // namespace tandem
