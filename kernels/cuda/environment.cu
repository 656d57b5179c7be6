// Variables of the environment (environment.h).
#include <charconv>
#include <cstdlib>
#include <limits>
#include <string>
#include <string_view>

#include "base/error.h"
#include "kernels/cuda/environment.h"
#include "kernels/cuda/linear/cluster_tiles.h"
#include "kernels/cuda/linear/direct_tiles.h"
#include "kernels/cuda/linear/linear_best.h"
#include "kernels/cuda/linear/wide_tiles.h"
#include "kernels/cuda/step/step_params.h"

namespace tandem::cuda {
namespace {

bool environment_says(const char* variable, std::string_view value) {
  const char* said = std::getenv(variable);
  return said != nullptr && said == value;
}

// A number of rows from 0 to `most`.
std::optional<int> rows_of(const char* variable, int64_t most) {
  const char* said = std::getenv(variable);
  if (said == nullptr) return std::nullopt;
  const std::string_view text = said;
  int rows = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rows);
  if (error != std::errc() || end != text.data() + text.size() || rows < 0 || rows > most)
    throw InputError(ErrorKind::kInvalidRequest,
                     std::string(variable) + ": '" + said + "' is no number of rows from 0 to " +
                         std::to_string(most),
                     variable);
  return rows;
}

}  // namespace

// On an H100 a step of BART-large takes 7 % less time with them at 1 row, 4 % at 32, and 3 % more
// at 64: blocks that wait take room from those they wait for.
int64_t dependent_rows_wanted() {
  if (environment_says("TANDEM_DEPENDENT_LAUNCH", "0")) return 0;
  if (environment_says("TANDEM_DEPENDENT_LAUNCH", "1")) return std::numeric_limits<int64_t>::max();
  return 32;
}

// On an H100 it is ahead of logits and a choice at any number of rows.
int best_rows_wanted() {
  return rows_of("TANDEM_HEAD_BEST_ROWS", kMostBestTileRows).value_or(kMostBestTileRows);
}

std::optional<int> direct_rows_wanted() { return rows_of("TANDEM_DIRECT_ROWS", kMostDirectRows); }

int cluster_rows_wanted() { return rows_of("TANDEM_CLUSTER_ROWS", kMostClusterRows).value_or(0); }

int64_t wide_rows_wanted() {
  const int rows = rows_of("TANDEM_WIDE_TILES_ROWS", kMostWideRows).value_or(0);
  return rows > 0 ? rows : std::numeric_limits<int64_t>::max();
}

int step_rows_wanted() { return rows_of("TANDEM_STEP_KERNEL_ROWS", step::kMostRows).value_or(0); }

}  // namespace tandem::cuda
