// The fastest algorithm of cuBLASLt for products of a size: measured once (gemm_cache.h), kept in a
// file of the user's cache for later processes.
#pragma once

#include <array>
#include <chrono>
#include <compare>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "kernels/core/types.h"

namespace tandem::cuda {

// The device and library for which the choices hold.
struct GemmDevice {
  std::string name;
  int capability = 0;    // 10 * major + minor
  uint64_t library = 0;  // cublasLtGetVersion()
};

struct GemmKey {
  int64_t rows = 0, n = 0, k = 0;  // rows: a padded_size()
  DType type = DType::kF32, out_type = DType::kF32;
  bool bias = false, relu = false;
  uint32_t x_alignment = 0, out_alignment = 0;
  auto operator<=>(const GemmKey&) const = default;
};

using GemmAlgorithm = std::array<uint64_t, 8>;  // the bytes of a cublasLtMatmulAlgo_t
using GemmChoiceMap = std::map<GemmKey, GemmAlgorithm>;

// The text of a file, and back. Absent unless the text is exactly what print_choices() wrote for
// this device.
std::string print_choices(const GemmChoiceMap& choices, const GemmDevice& device);
std::optional<GemmChoiceMap> parse_choices(std::string_view text, const GemmDevice& device);

class GemmChoices {
 public:
  // folder: "" for none. Calls `warn` once for a file that is not used, and once for one that
  // cannot be written.
  GemmChoices(const std::filesystem::path& folder, GemmDevice device,
              std::function<void(const std::string&)> warn);
  // Saves.
  ~GemmChoices();
  GemmChoices(const GemmChoices&) = delete;
  GemmChoices& operator=(const GemmChoices&) = delete;

  // Null if nothing was measured.
  const GemmAlgorithm* find(const GemmKey& key) const;
  // Saves from time to time.
  void add(const GemmKey& key, const GemmAlgorithm& algorithm);
  // Rewrites the file, merged with other processes' choices.
  void save();
  const std::filesystem::path& file() const { return file_; }

 private:
  std::optional<GemmChoiceMap> read();
  void write(const std::string& text);
  void warn(bool& told, const std::string& what);

  std::filesystem::path file_;
  GemmDevice device_;
  std::function<void(const std::string&)> warn_;
  bool told_unread_ = false, told_unwritten_ = false;
  GemmChoiceMap choices_;
  bool changed_ = false;
  std::chrono::steady_clock::time_point saved_{};
};

}  // namespace tandem::cuda
