#include "text/pipeline/growth_budget.h"

#include <string>

#include "base/error.h"

namespace tandem {
namespace {

// For each byte of a text, and for any text. ByteLevel at most doubles one; the worst character
// (U+FDFA in NFKD, then ByteLevel) becomes 22 times as long.
constexpr size_t kMaxGrowth = 16, kMaxMore = size_t{1} << 20;

size_t limit_of(size_t text_bytes) { return kMaxGrowth * text_bytes + kMaxMore; }

}  // namespace

GrowthBudget::GrowthBudget(std::string_view file, size_t text_bytes)
    : file_(file), text_bytes_(text_bytes), left_(limit_of(text_bytes)) {}

void GrowthBudget::check(size_t before, size_t after) const {
  if (after <= before || after - before <= left_) return;
  throw invalid_model(std::string(file_), "its stages add more than " +
                                              std::to_string(limit_of(text_bytes_)) +
                                              " bytes to a text of " + std::to_string(text_bytes_));
}

void GrowthBudget::spend(size_t before, size_t after) {
  check(before, after);
  if (after > before) left_ -= after - before;
}

}  // namespace tandem
