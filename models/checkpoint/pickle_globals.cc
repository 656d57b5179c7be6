#include "models/checkpoint/pickle_globals.h"

#include <algorithm>
#include <iterator>

namespace tandem::pickle {
namespace {

constexpr struct {
  std::string_view module, name;
  Global global;
} kGlobals[] = {
    {"collections", "OrderedDict", Global::kOrderedDict},
    {"torch._utils", "_rebuild_tensor", Global::kRebuildTensor},
    {"torch._utils", "_rebuild_tensor_v2", Global::kRebuildTensor},
    {"torch._utils", "_rebuild_tensor_v3", Global::kRebuildTypedTensor},
    {"torch._utils", "_rebuild_parameter", Global::kRebuildParameter},
    {"torch._utils", "_rebuild_parameter_with_state", Global::kRebuildParameter},
    {"torch._tensor", "_rebuild_from_type_v2", Global::kRebuildFromType},
    {"torch", "Size", Global::kSize},
    {"torch", "device", Global::kDevice},
    {"torch.storage", "UntypedStorage", Global::kStorageType},
    {"torch.nn.parameter", "Parameter", Global::kType},
};

// Of torch.
constexpr std::string_view kStorageTypes[] = {
    "FloatStorage",      "HalfStorage", "BFloat16Storage",     "DoubleStorage",
    "LongStorage",       "IntStorage",  "ShortStorage",        "CharStorage",
    "ByteStorage",       "BoolStorage", "ComplexFloatStorage", "ComplexDoubleStorage",
    "ComplexHalfStorage"};
constexpr std::string_view kTypes[] = {
    "float32",         "float16",         "bfloat16",       "float64",       "int64",
    "int32",           "int16",           "int8",           "uint8",         "bool",
    "uint16",          "uint32",          "uint64",         "float8_e4m3fn", "float8_e5m2",
    "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu", "complex32",     "complex64",
    "complex128",      "Tensor"};

bool contains(const auto& names, std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

}  // namespace

std::optional<Global> find_global(std::string_view module, std::string_view name) {
  for (const auto& known : kGlobals)
    if (known.module == module && known.name == name) return known.global;
  if (module != "torch") return std::nullopt;
  if (contains(kStorageTypes, name)) return Global::kStorageType;
  if (contains(kTypes, name)) return Global::kType;
  return std::nullopt;
}

}  // namespace tandem::pickle
