// Any bytes as a torch.save() archive. What does not begin like a zip archive is taken for the
// pickle inside of one, so that mutations reach the pickle machine.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/error.h"
#include "models/checkpoint/checkpoint.h"
#include "tests/support/files/checkpoint_writer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string file(reinterpret_cast<const char*>(data), size);
  if (!file.starts_with("PK"))
    file = tandem::test::torch_archive(file, {std::string(64, 'a'), std::string(8, 'b')});
  try {
    unsigned sum = 0;
    for (const auto& t : tandem::read_torch_pickle(reinterpret_cast<const std::byte*>(file.data()),
                                                   file.size(), "fuzz", nullptr)) {
      uint64_t count = 1;
      for (int64_t d : t.shape) count *= static_cast<uint64_t>(d);
      if (t.foreign_dtype.empty() && count * tandem::size_of(t.dtype) != t.bytes) std::abort();
      // Every byte must be readable: the sanitizer watches.
      for (size_t i = 0; i < t.bytes; ++i) sum += static_cast<unsigned>(t.data[i]);
    }
    volatile unsigned sink = sum;
    (void)sink;
  } catch (const tandem::InputError&) {
  }
  return 0;
}
