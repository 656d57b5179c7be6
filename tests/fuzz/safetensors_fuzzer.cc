// Any bytes as a safetensors file: an error, or tensors that lie in the file.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "base/error.h"
#include "models/checkpoint/checkpoint.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const auto* begin = reinterpret_cast<const std::byte*>(data);
    for (const auto& t : tandem::read_safetensors(begin, size, "fuzz", nullptr)) {
      if (t.bytes > size || t.data < begin || t.data + t.bytes > begin + size) std::abort();
      uint64_t count = 1;
      for (int64_t d : t.shape) count *= static_cast<uint64_t>(d);
      if (t.foreign_dtype.empty() && count * tandem::size_of(t.dtype) != t.bytes) std::abort();
    }
  } catch (const tandem::InputError&) {
  }
  return 0;
}
