// Input: an adapter_config.json, a byte 0, and an adapter_model.safetensors. What is accepted
// changes modules of the base alone, in their shapes, by finite scalings of a rank that is allowed.
#include <unistd.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "models/adapters/adapter.h"
#include "models/adapters/inspect_adapter.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

void check(bool condition) {
  if (!condition) std::abort();
}

// Of this process; gone with it.
struct AdapterDirectory {
  AdapterDirectory() { fs::create_directories(path); }
  ~AdapterDirectory() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  void write(const char* name, std::string_view content) const {
    fs::remove(path / name);  // a file that is cut to nothing may be written to the disk at once
    std::ofstream(path / name, std::ios::binary) << content;
  }
  const fs::path path = fs::temp_directory_path() / ("adapter_fuzzer." + std::to_string(getpid()));
};

void read(const fs::path& directory) {
  const std::vector<AdaptableModule> base = {{"model.encoder.layers.0.self_attn.q_proj", 6, 8},
                                             {"model.encoder.layers.1.self_attn.q_proj", 6, 8},
                                             {"model.encoder.embed_tokens", 20, 8, true},
                                             {"lm_head", 20, 8}};
  Adapter adapter = Adapter::open(directory, "model", 256);
  check(!adapter_to_text(inspect_adapter(directory)).empty());
  adapter.check_modules(base);
  size_t found = 0;
  for (const AdaptableModule& module : base) {
    const ModuleChange* change = adapter.find(module.name);
    if (change == nullptr) continue;
    ++found;
    if (change->weight) {
      check(change->weight->shape == Shape({module.rows, module.columns}));
      continue;
    }
    check(change->a && change->b && std::isfinite(change->scaling));
    const int64_t rank = change->a->shape.at(0);
    check(rank >= 1 && rank <= 256 && change->b->shape.at(1) == rank);
    check(change->b->shape.at(0) == (module.table ? module.columns : module.rows));
  }
  check(found == adapter.changes().size());
}

}  // namespace
}  // namespace tandem

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const tandem::AdapterDirectory directory;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t end = input.find('\0');
  if (end == std::string_view::npos) return 0;
  directory.write("adapter_config.json", input.substr(0, end));
  directory.write("adapter_model.safetensors", input.substr(end + 1));
  try {
    tandem::read(directory.path);
  } catch (const tandem::InputError&) {
  }
  return 0;
}
