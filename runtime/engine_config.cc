#include "runtime/engine_config.h"

#include <sched.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <thread>

#include "kernels/core/error.h"

namespace tandem {
namespace {

void check_range(const char* flag, int64_t value, int64_t least, int64_t most) {
  if (value < least || value > most)
    throw invalid_request(flag, std::to_string(value) + " is out of range, expected " +
                                    std::to_string(least) + " to " + std::to_string(most));
}

}  // namespace

void EngineConfig::check() const {
  check_range("--threads", threads, 0, 1024);
  check_range("--max-num-seqs", max_num_seqs, 1, 1 << 20);
  check_range("--max-num-batched-tokens", max_num_batched_tokens, 1, 1 << 24);
  check_range("--block-size", block_size, 1, 1024);
  if (num_gpu_blocks_override)
    check_range("--num-gpu-blocks-override", *num_gpu_blocks_override, 1, 1 << 28);
}

DType resolve_dtype(const EngineConfig& config, std::optional<DType> checkpoint_dtype) {
  if (config.dtype) return *config.dtype;
  return checkpoint_dtype == DType::kBF16 ? DType::kBF16 : DType::kF32;
}

int default_threads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1u, std::thread::hardware_concurrency());
}

size_t parse_bytes(const std::string& text, const std::string& flag) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  std::string unit(rest, end);
  for (char& c : unit) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  double scale = 0;
  if (unit.empty() || unit == "b") scale = 1;
  for (int i = 0; i < 4; ++i) {
    const std::string prefix(1, "kmgt"[i]);
    if (unit == prefix || unit == prefix + "ib") scale = std::ldexp(1.0, 10 * (i + 1));
    if (unit == prefix + "b") scale = std::pow(1000.0, i + 1);
  }
  if (error != std::errc() || scale == 0 || !(number >= 0) || number * scale > std::ldexp(1.0, 60))
    throw invalid_request(flag,
                          "\"" + text + "\" is not a size; write 4GiB, 512M or a number of bytes");
  return static_cast<size_t>(number * scale);
}

}  // namespace tandem
