// Variables of the environment (environment.h).
#include <charconv>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/error.h"
#include "kernels/cuda/environment.h"
#include "kernels/cuda/linear/linear_best.h"
#include "kernels/cuda/linear/norm_tiles.h"

namespace tandem::cuda {
namespace {

bool environment_says(const char* variable, std::string_view value) {
  const char* said = std::getenv(variable);
  return said != nullptr && said == value;
}

}  // namespace

bool dependent_launches_wanted() { return environment_says("TANDEM_DEPENDENT_LAUNCH", "1"); }

bool bulk_copies_wanted() { return environment_says("TANDEM_BULK_COPIES", "1"); }

// Up to 64 rows a launch less counts for more than a norm that several blocks make, above it
// perhaps not: an estimate.
int normed_rows_wanted() {
  if (environment_says("TANDEM_FUSED_NORMS", "0")) return 0;
  return environment_says("TANDEM_FUSED_NORMS", "1") ? kMostNormTileRows : 64;
}

// Up to 64 rows the weights' bytes bound the head, so that logits and a launch less are won; above
// it cuBLASLt's product may be ahead by as much: an estimate too.
int best_rows_wanted() {
  constexpr const char* kVariable = "TANDEM_HEAD_BEST_ROWS";
  const char* said = std::getenv(kVariable);
  if (said == nullptr) return 64;
  const std::string_view text = said;
  int rows = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rows);
  if (error != std::errc() || end != text.data() + text.size() || rows < 0 ||
      rows > kMostBestTileRows)
    throw InputError(ErrorKind::kInvalidRequest,
                     std::string(kVariable) + ": '" + said + "' is no number of rows from 0 to " +
                         std::to_string(kMostBestTileRows),
                     kVariable);
  return rows;
}

}  // namespace tandem::cuda
