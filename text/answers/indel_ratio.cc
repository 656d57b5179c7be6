// By the longest common subsequence.
#include "text/answers/indel_ratio.h"

#include <algorithm>
#include <vector>

namespace tandem {

double indel_ratio(std::u32string_view a, std::u32string_view b) {
  const size_t both = a.size() + b.size();
  if (both == 0) return 1.0;
  std::vector<size_t> row(b.size() + 1, 0);  // common to a[0, i) and b[0, j)
  for (const char32_t c : a) {
    size_t diagonal = 0;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t above = row[j + 1];
      row[j + 1] = c == b[j] ? diagonal + 1 : std::max(above, row[j]);
      diagonal = above;
    }
  }
  return 1.0 - static_cast<double>(both - 2 * row.back()) / static_cast<double>(both);
}

}  // namespace tandem
