// A torch.save() archive: a zip file with NAME/data.pkl, a pickled dict of tensors, and
// NAME/data/KEY, the bytes of each storage. Tensors are views into the archive; one that is not
// contiguous is copied.
#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <set>
#include <tuple>

#include "base/printable.h"
#include "models/checkpoint/checkpoint.h"
#include "models/checkpoint/pickle_machine.h"
#include "models/checkpoint/zip_reader.h"

namespace tandem {
namespace {

using pickle::Kind;
using pickle::Program;
using pickle::Value;

constexpr size_t kMaxPickledDims = 16;

struct StorageType {
  std::string_view name;
  const char* dtype;  // where DType has none
  size_t size;
  std::optional<DType> known;
};

constexpr StorageType kStorageTypes[] = {
    {"FloatStorage", "float32", 4, DType::kF32},
    {"HalfStorage", "float16", 2, DType::kF16},
    {"BFloat16Storage", "bfloat16", 2, DType::kBF16},
    {"LongStorage", "int64", 8, DType::kI64},
    {"IntStorage", "int32", 4, DType::kI32},
    {"ByteStorage", "uint8", 1, DType::kU8},
    {"BoolStorage", "bool", 1, DType::kU8},
    {"CharStorage", "int8", 1, std::nullopt},
    {"ShortStorage", "int16", 2, std::nullopt},
    {"DoubleStorage", "float64", 8, std::nullopt},
    {"ComplexHalfStorage", "complex32", 4, std::nullopt},
    {"ComplexFloatStorage", "complex64", 8, std::nullopt},
    {"ComplexDoubleStorage", "complex128", 16, std::nullopt},
};

// A tensor as it was pickled: a strided view of a storage. Strides are in elements.
struct View {
  std::string_view storage;
  const StorageType* type = nullptr;
  uint64_t offset = 0, count = 0;  // elements
  std::vector<uint64_t> shape, strides;

  bool contiguous() const {
    uint64_t expected = 1;
    for (size_t i = shape.size(); i-- > 0;) {
      if (shape[i] != 1 && strides[i] != expected) return false;
      expected *= shape[i];
    }
    return true;
  }
};

class PickleReader {
 public:
  PickleReader(std::string_view data, const std::string& file,
               std::shared_ptr<const void> keep_alive)
      : file_(file), keep_alive_(std::move(keep_alive)), copy_budget_(data.size()) {
    check_format(data);
    entries_ = read_zip(data, file);
    find_prefix();
  }

  std::vector<HostTensor> read() {
    const std::string where = file_ + " (" + prefix_ + "data.pkl)";
    program_ = pickle::run(entries_.at(prefix_ + "data.pkl"), where);
    const Value& dict = state_dict();
    std::vector<HostTensor> tensors;
    std::set<std::string_view> names;
    for (size_t i = 0; i < dict.items.size(); i += 2) {
      const Value &key = program_[dict.items[i]], &value = program_[dict.items[i + 1]];
      check_name(key);
      if (!names.insert(key.text).second) fail(key.text, "appears twice");
      if (value.kind != Kind::kTensor)
        fail(key.text, std::string("is a ") + name_of(value.kind) + ", not a tensor");
      tensors.push_back(tensor(key.text, value));
    }
    if (tensors.empty()) throw invalid_model(file_, "contains no tensors");
    return tensors;
  }

 private:
  [[noreturn]] void fail(std::string_view tensor, const std::string& message) const {
    throw invalid_model(file_, "tensor " + in_quotes(tensor) + ": " + message);
  }

  void check_format(std::string_view data) const {
    if (data.starts_with("PK\x03\x04")) return;
    const bool tar = data.size() > 262 && data.substr(257, 5) == "ustar";
    if (data.starts_with("\x80") || tar)
      throw invalid_model(file_,
                          "is in the format of torch before 1.6, which is not a zip archive; "
                          "save it again as safetensors");
    throw invalid_model(file_, "is not a zip archive made by torch.save()");
  }

  // All entries lie in one folder, whose name is arbitrary.
  void find_prefix() {
    static constexpr std::string_view kPickle = "data.pkl";
    bool found = false;
    for (const auto& [name, content] : entries_) {
      if (!name.ends_with(kPickle)) continue;
      const std::string prefix = name.substr(0, name.size() - kPickle.size());
      const size_t slash = prefix.find('/');
      if (!prefix.empty() && slash != prefix.size() - 1) continue;
      if (found) throw invalid_model(file_, "contains two data.pkl");
      prefix_ = prefix;
      found = true;
    }
    if (!found) throw invalid_model(file_, "contains no data.pkl: not made by torch.save()");
    const auto order = entries_.find(prefix_ + "byteorder");
    if (order != entries_.end() && order->second != "little")
      throw invalid_model(file_, "byteorder is " + in_quotes(order->second) + ", expected little");
  }

  // The dict of tensors: the pickled object itself, or its "state_dict".
  const Value& state_dict() const {
    const Value& root = program_[program_.result];
    if (root.kind != Kind::kDict)
      throw invalid_model(
          file_, std::string("contains a ") + name_of(root.kind) + ", expected a dict of tensors");
    for (size_t i = 0; i < root.items.size(); i += 2) {
      const Value& value = program_[root.items[i + 1]];
      if (program_[root.items[i]].text == "state_dict" && value.kind == Kind::kDict) return value;
    }
    return root;
  }

  void check_name(const Value& key) const {
    if (key.kind != Kind::kString)
      throw invalid_model(file_,
                          std::string("a tensor has a ") + name_of(key.kind) + " for a name");
    const bool plain =
        std::all_of(key.text.begin(), key.text.end(), [](char c) { return c >= 0x20 && c < 0x7f; });
    if (!plain || key.text.empty()) fail(key.text, "the name is not printable ASCII");
  }

  HostTensor tensor(std::string_view name, const Value& value) {
    const View view = parse(name, value);
    HostTensor t;
    t.name = name;
    t.file = file_;
    t.dtype = view.type->known.value_or(DType::kU8);
    if (!view.type->known) t.foreign_dtype = view.type->dtype;
    t.shape.assign(view.shape.begin(), view.shape.end());
    t.bytes = static_cast<size_t>(view.count) * view.type->size;
    t.keep_alive = keep_alive_;
    if (view.count == 0 || view.contiguous())
      t.data = reinterpret_cast<const std::byte*>(view.storage.data()) +
               (view.count == 0 ? 0 : view.offset * view.type->size);
    else
      t.data = materialise(name, view, t);
    return t;
  }

  uint64_t non_negative(std::string_view name, const Value& v, const char* what) const {
    if (v.kind != Kind::kInt || v.integer < 0)
      fail(name, std::string(what) + " is " +
                     (v.kind == Kind::kInt ? std::to_string(v.integer) : name_of(v.kind)));
    return static_cast<uint64_t>(v.integer);
  }

  std::vector<uint64_t> numbers(std::string_view name, const Value& v, const char* what) const {
    if (v.kind != Kind::kTuple && v.kind != Kind::kList)
      fail(name, std::string(what) + " is a " + name_of(v.kind));
    if (v.items.size() > kMaxPickledDims)
      fail(name,
           std::string(what) + " has more than " + std::to_string(kMaxPickledDims) + " values");
    std::vector<uint64_t> out;
    for (pickle::Index i : v.items) out.push_back(non_negative(name, program_[i], what));
    return out;
  }

  // Checks everything: what it returns may be read.
  View parse(std::string_view name, const Value& value) const {
    View view;
    const Value& storage = program_[value.items[0]];
    if (storage.kind != Kind::kStorage)
      fail(name, std::string("its storage is a ") + name_of(storage.kind));
    const std::string_view type = program_[storage.items[1]].text;
    view.type = std::find_if(std::begin(kStorageTypes), std::end(kStorageTypes),
                             [&](const StorageType& t) { return t.name == type; });
    TANDEM_CHECK(view.type != std::end(kStorageTypes));
    const std::string entry = prefix_ + "data/" + std::string(program_[storage.items[2]].text);
    const auto it = entries_.find(entry);
    if (it == entries_.end()) fail(name, "its storage " + in_quotes(entry) + " is missing");
    view.storage = it->second;
    const uint64_t elements = non_negative(name, program_[storage.items[4]], "storage size");
    if (elements > view.storage.size() / view.type->size)
      fail(name, "its storage " + in_quotes(entry) + " has " + std::to_string(view.storage.size()) +
                     " bytes, too few for " + std::to_string(elements) + " elements of " +
                     view.type->dtype);
    view.offset = non_negative(name, program_[value.items[1]], "storage offset");
    view.shape = numbers(name, program_[value.items[2]], "size");
    view.strides = numbers(name, program_[value.items[3]], "stride");
    check_bounds(name, view, elements);
    return view;
  }

  void check_bounds(std::string_view name, View& view, uint64_t elements) const {
    if (view.shape.size() != view.strides.size())
      fail(name, "has " + std::to_string(view.shape.size()) + " dimensions and " +
                     std::to_string(view.strides.size()) + " strides");
    view.count = 1;
    uint64_t last = view.offset;  // the highest element that is touched
    bool overflow = false;
    for (size_t i = 0; i < view.shape.size(); ++i) {
      uint64_t reach = 0;
      overflow |= __builtin_mul_overflow(view.count, view.shape[i], &view.count);
      if (view.shape[i] == 0) continue;
      overflow |= __builtin_mul_overflow(view.shape[i] - 1, view.strides[i], &reach);
      overflow |= __builtin_add_overflow(last, reach, &last);
    }
    if (!overflow && view.count == 0) return;
    if (overflow || last >= elements)
      fail(name, "offset, size and stride reach beyond its storage of " + std::to_string(elements) +
                     " elements");
    // A broadcast view (stride 0) could stand for any number of elements.
    if (view.count > elements)
      fail(name, "has " + std::to_string(view.count) + " elements over a storage of " +
                     std::to_string(elements));
  }

  // A contiguous copy; the same view under two names is copied once.
  const std::byte* materialise(std::string_view name, const View& view, HostTensor& t) {
    auto& copy = copies_[{view.storage.data(), view.type, view.offset, view.shape, view.strides}];
    if (copy == nullptr) {
      // Views of one storage must not multiply the file.
      if (t.bytes > copy_budget_) fail(name, "too many views that are not contiguous");
      copy_budget_ -= t.bytes;
      copy = std::make_shared<std::vector<std::byte>>(t.bytes);
      gather(view, copy->data());
    }
    t.keep_alive = copy;
    return copy->data();
  }

  static void gather(const View& view, std::byte* to) {
    const size_t size = view.type->size, dims = view.shape.size();
    std::array<uint64_t, kMaxPickledDims> index{};
    uint64_t from = view.offset;
    for (uint64_t i = 0; i < view.count; ++i, to += size) {
      std::memcpy(to, view.storage.data() + from * size, size);
      for (size_t d = dims; d-- > 0;) {
        from += view.strides[d];
        if (++index[d] < view.shape[d]) break;
        from -= view.shape[d] * view.strides[d];
        index[d] = 0;
      }
    }
  }

  using CopyKey = std::tuple<const char*, const StorageType*, uint64_t, std::vector<uint64_t>,
                             std::vector<uint64_t>>;

  const std::string& file_;
  std::shared_ptr<const void> keep_alive_;
  uint64_t copy_budget_;  // bytes
  std::map<std::string, std::string_view> entries_;
  std::string prefix_;  // of the entries: "NAME/"
  Program program_;
  std::map<CopyKey, std::shared_ptr<std::vector<std::byte>>> copies_;
};

}  // namespace

std::vector<HostTensor> read_torch_pickle(const std::byte* data, size_t size,
                                          const std::string& name,
                                          std::shared_ptr<const void> keep_alive) {
  return PickleReader({reinterpret_cast<const char*>(data), size}, name, std::move(keep_alive))
      .read();
}

}  // namespace tandem
