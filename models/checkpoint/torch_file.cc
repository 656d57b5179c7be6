// Since torch 1.6, a zip file with NAME/data.pkl, the pickled object, and NAME/data/KEY, the bytes
// of each storage. Before,
//   file    := pickle of a magic number | pickle of a version | pickle of the machine's types |
//              pickle of the object | pickle of a list of keys | storage for each key
//   storage := i64 elements (little-endian) | elements
#include "models/checkpoint/torch_file.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "base/strings/printable.h"
#include "models/checkpoint/zip_reader.h"

namespace tandem {
namespace {

using pickle::Kind;
using pickle::Program;
using pickle::Value;

constexpr TorchType kTypes[] = {
    {"FloatStorage", "float32", 4, DType::kF32},
    {"HalfStorage", "float16", 2, DType::kF16},
    {"BFloat16Storage", "bfloat16", 2, DType::kBF16},
    {"LongStorage", "int64", 8, DType::kI64},
    {"IntStorage", "int32", 4, DType::kI32},
    {"ByteStorage", "uint8", 1, DType::kU8},
    {"BoolStorage", "bool", 1, DType::kU8},
    {"UntypedStorage", "uint8", 1, DType::kU8},
    {"CharStorage", "int8", 1, {}},
    {"ShortStorage", "int16", 2, {}},
    {"DoubleStorage", "float64", 8, {}},
    {"ComplexHalfStorage", "complex32", 4, {}},
    {"ComplexFloatStorage", "complex64", 8, {}},
    {"ComplexDoubleStorage", "complex128", 16, {}},
    {"", "uint16", 2, {}},
    {"", "uint32", 4, {}},
    {"", "uint64", 8, {}},
    {"", "float8_e4m3fn", 1, {}},
    {"", "float8_e5m2", 1, {}},
    {"", "float8_e4m3fnuz", 1, {}},
    {"", "float8_e5m2fnuz", 1, {}},
    {"", "float8_e8m0fnu", 1, {}},
};

// 0x1950a86a20f9469cfc6c, and the version behind it.
constexpr std::string_view kMagic = "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
constexpr int64_t kVersion = 1001;

TorchFile open_archive(std::string_view data, const std::string& file) {
  static constexpr std::string_view kPickle = "data.pkl";
  const auto entries = read_zip(data, file);
  // All entries lie in one folder, whose name is arbitrary.
  std::optional<std::string> prefix;
  for (const auto& [name, content] : entries) {
    if (!name.ends_with(kPickle)) continue;
    const std::string before = name.substr(0, name.size() - kPickle.size());
    if (!before.empty() && before.find('/') != before.size() - 1) continue;
    if (prefix) throw invalid_model(file, "contains two data.pkl");
    prefix = before;
  }
  if (!prefix) throw invalid_model(file, "contains no data.pkl: not made by torch.save()");
  const auto order = entries.find(*prefix + "byteorder");
  if (order != entries.end() && order->second != "little")
    throw invalid_model(file, "byteorder is " + in_quotes(order->second) + ", expected little");
  TorchFile out;
  out.folder = *prefix + "data/";
  const std::string where = file + " (" + *prefix + "data.pkl)";
  out.program = pickle::run(entries.at(*prefix + "data.pkl"), where);
  for (const auto& [name, content] : entries)
    if (name.starts_with(out.folder)) out.storages[name.substr(out.folder.size())] = content;
  return out;
}

class LegacyReader {
 public:
  LegacyReader(std::string_view data, const std::string& file) : data_(data), file_(file) {}

  TorchFile read() {
    check_head();
    TorchFile out;
    out.program = next("object");
    const std::map<std::string_view, const TorchType*> types = types_of(out.program);
    const Program keys = next("keys of storages");
    const Value& list = keys[keys.result];
    if (list.kind != Kind::kList) throw invalid_model(file_, "has no list of storages");
    for (const pickle::Index i : list.items) {
      const Value& key = keys[i];
      const auto type = key.kind == Kind::kString ? types.find(key.text) : types.end();
      if (type == types.end())
        throw invalid_model(file_, "storage " + in_quotes(key.text) + " belongs to no tensor");
      out.storages[std::string(key.text)] = storage(key.text, type->second->size);
    }
    return out;
  }

 private:
  Program next(const std::string& what) {
    const std::string where = file_ + " (" + what + ")";
    Program program = pickle::run(data_.substr(at_), where);
    at_ += program.size;
    return program;
  }

  void check_head() {
    const Program magic = next("magic number");
    const Value& number = magic[magic.result];
    if (number.kind != Kind::kInt || number.text != kMagic)
      throw invalid_model(file_, "is a pickle that torch.save() did not make");
    const Program version = next("version");
    const Value& of_format = version[version.result];
    if (of_format.kind != Kind::kInt || of_format.integer != kVersion)
      throw invalid_model(file_, "is of an unknown version of torch's format");
    const Program machine = next("types of the machine");
    const Value& types = machine[machine.result];
    for (size_t i = 0; types.kind == Kind::kDict && i + 1 < types.items.size(); i += 2)
      if (machine[types.items[i]].text == "little_endian" &&
          machine[types.items[i + 1]].integer == 0)
        throw invalid_model(file_, "was written on a big-endian machine");
  }

  static std::map<std::string_view, const TorchType*> types_of(const Program& program) {
    std::map<std::string_view, const TorchType*> types;
    for (const Value& value : program.values)
      if (value.kind == Kind::kStorage)
        types.try_emplace(program[value.items[2]].text,
                          type_of_storage(program[value.items[1]].text));
    return types;
  }

  std::string_view storage(std::string_view key, size_t size) {
    const auto fail = [&](const std::string& message) {
      throw invalid_model(file_, "storage " + in_quotes(key) + ": " + message);
    };
    if (data_.size() - at_ < 8) fail("truncated");
    uint64_t count = 0;
    for (size_t i = 8; i-- > 0;) count = count << 8 | static_cast<uint8_t>(data_[at_ + i]);
    at_ += 8;
    if (count > (data_.size() - at_) / size)
      fail(std::to_string(count) + " elements of " + std::to_string(size) +
           " bytes, but the file ends before");
    const std::string_view out = data_.substr(at_, static_cast<size_t>(count) * size);
    at_ += out.size();
    return out;
  }

  std::string_view data_;
  const std::string& file_;
  size_t at_ = 0;
};

const TorchType* find_type(const auto& fits) {
  const auto* it = std::find_if(std::begin(kTypes), std::end(kTypes), fits);
  return it == std::end(kTypes) ? nullptr : it;
}

}  // namespace

const TorchType* type_of_storage(std::string_view storage) {
  return find_type([&](const TorchType& t) { return !t.storage.empty() && t.storage == storage; });
}

const TorchType* type_of_dtype(std::string_view dtype) {
  return find_type([&](const TorchType& t) { return t.dtype == dtype; });
}

TorchFile open_torch_file(std::string_view data, const std::string& file) {
  if (data.starts_with("PK\x03\x04")) return open_archive(data, file);
  if (data.starts_with("\x80")) return LegacyReader(data, file).read();
  if (data.size() > 262 && data.substr(257, 5) == "ustar")
    throw invalid_model(file, "is a tar archive, the format of torch before 0.1.10; save it again");
  throw invalid_model(file, "is not a zip archive made by torch.save()");
}

}  // namespace tandem
