// The tensors of a torch.save() file: a dict of views of storages. Tensors are views into the file;
// one that is not contiguous is copied.
#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <tuple>

#include "base/strings/printable.h"
#include "models/checkpoint/checkpoint.h"
#include "models/checkpoint/torch_file.h"

namespace tandem {
namespace {

using pickle::Kind;
using pickle::Value;

constexpr size_t kMaxPickledDims = 16;

// A tensor as it was pickled: a strided view of a storage. Strides are in elements.
struct View {
  std::string_view storage;
  const TorchType* type = nullptr;
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
      : file_(file),
        keep_alive_(std::move(keep_alive)),
        copy_budget_(data.size()),
        torch_(open_torch_file(data, file)) {}

  std::vector<HostTensor> read() {
    const Value& dict = state_dict();
    std::vector<HostTensor> tensors;
    std::set<std::string_view> names;
    for (size_t i = 0; i < dict.items.size(); i += 2) {
      const Value &key = program_[dict.items[i]], &value = program_[dict.items[i + 1]];
      if (key.kind != Kind::kString)
        throw invalid_model(file_,
                            std::string("a tensor has a ") + name_of(key.kind) + " for a name");
      if (value.kind != Kind::kTensor) continue;
      if (!names.insert(key.text).second) fail(key.text, "appears twice");
      tensors.push_back(tensor(key.text, value));
    }
    if (tensors.empty()) throw invalid_model(file_, "contains no tensors");
    return tensors;
  }

 private:
  [[noreturn]] void fail(std::string_view tensor, const std::string& message) const {
    throw invalid_model(file_, "tensor " + in_quotes(tensor) + ": " + message);
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
    const TorchType* stored = type_of_storage(program_[storage.items[1]].text);
    TANDEM_CHECK(stored != nullptr);
    view.type = value.items.size() > 4 ? type_of_dtype(program_[value.items[4]].text) : stored;
    if (view.type == nullptr) fail(name, "has an unknown type");
    const std::string key(program_[storage.items[2]].text);
    const std::string shown = in_quotes(torch_.folder + key);
    const auto it = torch_.storages.find(key);
    if (it == torch_.storages.end()) fail(name, "its storage " + shown + " is missing");
    view.storage = it->second;
    const uint64_t count = non_negative(name, program_[storage.items[4]], "storage size");
    if (count > view.storage.size() / stored->size)
      fail(name, "its storage " + shown + " has " + std::to_string(view.storage.size()) +
                     " bytes, too few for " + std::to_string(count) + " elements of " +
                     stored->dtype);
    uint64_t bytes = count * stored->size;
    if (storage.items.size() > 5)
      bytes = take_part(name, program_[storage.items[5]], *stored, view);
    const uint64_t elements = bytes / view.type->size;
    view.offset = non_negative(name, program_[value.items[1]], "storage offset");
    view.shape = numbers(name, program_[value.items[2]], "size");
    view.strides = numbers(name, program_[value.items[3]], "stride");
    check_bounds(name, view, elements);
    return view;
  }

  // A storage of torch before 0.4 may be a part of another: (its key, offset, size), or None.
  // Returns the bytes.
  uint64_t take_part(std::string_view name, const Value& part, const TorchType& type,
                     View& view) const {
    if (part.kind == Kind::kNone) return view.storage.size();
    if (part.kind != Kind::kTuple || part.items.size() != 3) fail(name, "a view that is no tuple");
    const uint64_t offset = non_negative(name, program_[part.items[1]], "offset of its storage");
    const uint64_t size = non_negative(name, program_[part.items[2]], "size of its storage");
    const uint64_t there = view.storage.size() / type.size;
    if (offset > there || size > there - offset) fail(name, "its storage is outside of another");
    view.storage = view.storage.substr(offset * type.size, size * type.size);
    return view.storage.size();
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

  using CopyKey = std::tuple<const char*, const TorchType*, uint64_t, std::vector<uint64_t>,
                             std::vector<uint64_t>>;

  const std::string& file_;
  std::shared_ptr<const void> keep_alive_;
  uint64_t copy_budget_;  // bytes
  TorchFile torch_;
  const pickle::Program& program_ = torch_.program;
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
