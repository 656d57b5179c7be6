#include "runtime/execution/compute_type.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "models/inspect.h"

namespace tandem {
namespace {

// Upper bound without a look at the values: tied tensors count as often as the file has them.
size_t most_weight_bytes(const Checkpoint& checkpoint, DType dtype) {
  size_t elements = 0;
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    size_t count = 1;
    for (const int64_t d : tensor.shape) count *= static_cast<size_t>(d);
    elements += count;
  }
  return elements * size_of(dtype);
}

}  // namespace

void check_weights_fit(const ModelConfig& config, const Checkpoint& checkpoint, DType dtype,
                       int ranks, size_t available, const Stage* stage) {
  const auto part = [ranks](uint64_t bytes) { return bytes / static_cast<uint64_t>(ranks); };
  if (part(most_weight_bytes(checkpoint, dtype)) <= available) return;
  uint64_t needed = 0;
  std::string others;
  const std::vector<InspectReport::Memory> known = inspect(config, checkpoint).memory;
  for (const DType type : {DType::kF32, DType::kBF16, DType::kI8, DType::kI4}) {
    const auto memory = std::find_if(known.begin(), known.end(),
                                     [&](const auto& m) { return m.dtype == name_of(type); });
    if (memory == known.end()) continue;
    uint64_t bytes = part(memory->weight_bytes);
    // A stage's are known roughly, the model's to the byte.
    if (stage != nullptr) bytes = std::min(bytes, stage->bytes_of_rank(type, ranks));
    if (type == dtype)
      needed = bytes;
    else if (bytes <= available)
      others += (others.empty() ? "" : ", ") + memory->dtype + " (" + human_bytes(bytes) + ")";
  }
  if (needed <= available) return;
  const std::string whose = stage != nullptr ? " on a rank with " + stage->text()
                                             : std::string(ranks > 1 ? " on each rank" : "");
  throw InputError(ErrorKind::kResource,
                   std::string("--dtype: in ") + name_of(dtype) + " the weights take " +
                       human_bytes(needed) + whose + ", and " + human_bytes(available) +
                       " of memory are free; " +
                       (others.empty() ? "no type fits" : "what fits: " + others),
                   "--dtype");
}

std::string dtype_named(const std::string& name) {
  static const std::map<std::string_view, const char*> kNames = {
      {"fp32", "float32"},      {"f32", "float32"},       {"fp16", "float16"},
      {"f16", "float16"},       {"bf16", "bfloat16"},     {"default", "auto"},
      {"int8_float32", "int8"}, {"int8_float16", "int8"}, {"int8_bfloat16", "int8"}};
  const auto it = kNames.find(name);
  return it == kNames.end() ? name : it->second;
}

std::string describe_compute_type(DType dtype, std::optional<DType> stored, bool on_cpu) {
  const std::string computes = std::string("computes in ") + name_of(dtype);
  const std::string exact = "--dtype float32 gives HuggingFace's tokens exactly";
  if (!on_cpu) return computes;
  if (dtype == DType::kF32)
    return computes + ": HuggingFace's tokens exactly; --dtype int8 is faster and changes some";
  if (dtype == DType::kBF16)
    return computes + (stored == DType::kBF16 ? ", the type of the files" : "") +
           ": some tokens differ from HuggingFace's; " + exact + ", --dtype int8 is faster";
  return computes + ": some tokens differ from HuggingFace's; " + exact;
}

}  // namespace tandem
