// A pickle interpreter that can build containers of tensors and nothing else. It knows a closed
// list of globals, as names, not code, and refuses everything else. Time and memory are linear in
// the size of the pickle: each opcode makes at most one value, and values are shared, never copied.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::pickle {

enum class Kind : uint8_t {
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,  // also bytes
  kList,
  kTuple,
  kDict,  // also an OrderedDict; items alternate keys and values
  kGlobal,
  // A persistent id; items: ("storage", type, key, location, number of elements), and before torch
  // 1.6 a view of it, or None.
  kStorage,
  kTensor,  // items: storage, offset, size, stride, and of _rebuild_tensor_v3 the type
};

const char* name_of(Kind kind);

enum class Global : uint8_t {
  kOrderedDict,
  kRebuildTensor,
  kRebuildTypedTensor,  // _rebuild_tensor_v3
  kRebuildParameter,
  kRebuildFromType,  // of a subclass of torch.Tensor, which is read as a tensor
  kSize,             // torch.Size: a tuple
  kDevice,           // torch.device
  kStorageType,      // Value::text says which, "UntypedStorage" too
  kType,             // a dtype or a class; Value::text says which
};

using Index = uint32_t;  // of a value in Program::values

struct Value {
  Kind kind = Kind::kNone;
  Global global = Global::kOrderedDict;
  int64_t integer = 0;    // kBool, kInt; of an integer beyond 64 bits the least one
  std::string_view text;  // kString, kGlobal: into the pickle; the bytes of such an integer
  std::vector<Index> items;
};

struct Program {
  std::vector<Value> values;
  Index result = 0;
  size_t size = 0;  // bytes of the pickle
  const Value& operator[](Index i) const { return values[i]; }
};

// Runs the pickle that `data` begins with. Throws InputError naming `where` and the offset of the
// opcode at fault. The views in the values point into `data`.
Program run(std::string_view data, const std::string& where);

}  // namespace tandem::pickle
