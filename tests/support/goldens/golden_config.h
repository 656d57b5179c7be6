// Engines for golden checkpoints.
#pragma once

#include <filesystem>
#include <string>

#include "runtime/execution/engine_config.h"
#include "tests/support/goldens/goldens.h"

namespace tandem::testing {

// As the flag has it.
inline const char* preemption_name(PreemptionMode mode) {
  switch (mode) {
    case PreemptionMode::kAuto: return "auto";
    case PreemptionMode::kRecompute: return "recompute";
    case PreemptionMode::kSwap: return "swap";
  }
  return "";
}

// fp32 on one thread, with memory for a few requests.
inline EngineConfig golden_config(const std::string& checkpoint) {
  EngineConfig config;
  config.mutable_loading()->set_model(golden_dir(checkpoint).string());
  config.mutable_loading()->set_dtype(name_of(DType::kF32));
  config.mutable_loading()->set_threads(1);
  config.mutable_cache()->set_kv_cache_memory(size_t{64} << 20);
  config.mutable_cache()->set_swap_space(size_t{16} << 20);
  config.set_seed(1);
  config.mutable_loading()->add_cudagraph_capture_sizes(0);  // nothing is recorded at start
  return config;
}

// fp32 on one thread, with few small blocks.
inline EngineConfig small_config(const std::filesystem::path& model) {
  EngineConfig config;
  config.mutable_loading()->set_model(model.string());
  config.mutable_loading()->set_dtype(name_of(DType::kF32));
  config.mutable_cache()->set_block_size(4);
  config.mutable_cache()->set_num_gpu_blocks_override(64);
  config.mutable_loading()->set_threads(1);
  config.mutable_loading()->add_cudagraph_capture_sizes(0);
  return config;
}

}  // namespace tandem::testing
