// Engines for golden checkpoints.
#pragma once

#include <filesystem>
#include <string>

#include "runtime/execution/engine_config.h"
#include "tests/support/goldens/goldens.h"

namespace tandem::testing {

// fp32 on one thread, with memory for a few requests.
inline EngineConfig golden_config(const std::string& checkpoint) {
  EngineConfig config;
  config.model = golden_dir(checkpoint);
  config.dtype = DType::kF32;
  config.threads = 1;
  config.kv_cache_memory = size_t{64} << 20;
  config.swap_space = size_t{16} << 20;
  config.seed = 1;
  config.cudagraph_capture_sizes.emplace();  // nothing is recorded at start
  return config;
}

// fp32 on one thread, with few small blocks.
inline EngineConfig small_config(const std::filesystem::path& model) {
  EngineConfig config;
  config.model = model;
  config.dtype = DType::kF32;
  config.block_size = 4;
  config.num_gpu_blocks_override = 64;
  config.threads = 1;
  config.cudagraph_capture_sizes.emplace();
  return config;
}

}  // namespace tandem::testing
