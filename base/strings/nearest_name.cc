#include "base/strings/nearest_name.h"

#include <algorithm>
#include <cctype>
#include <numeric>

namespace tandem {
namespace {

// Levenshtein distance; a swap of neighbours counts one.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before, previous(b.size() + 1), current(b.size() + 1);
  std::iota(previous.begin(), previous.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    current[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      current[j] = std::min(
          {previous[j] + 1, current[j - 1] + 1, previous[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        current[j] = std::min(current[j], before[j - 2] + 1);
    }
    before = previous;
    std::swap(previous, current);
  }
  return previous[b.size()];
}

// Lower case, without separators: "maxNewTokens", "max-new-tokens" and "max_new_tokens" are one.
std::string folded(std::string_view name) {
  std::string out;
  for (const char c : name)
    if (c != '_' && c != '-' && c != ' ')
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

}  // namespace

std::optional<std::string> nearest_name(std::string_view name,
                                        const std::vector<std::string>& candidates) {
  if (name.empty() || name.size() > 64) return std::nullopt;
  const std::string wanted = folded(name);
  std::optional<std::string> best;
  size_t best_distance = std::min(std::max<size_t>(2, wanted.size() / 3), wanted.size() / 2) + 1;
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(wanted, folded(candidate));
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string suggestion(std::string_view name, const std::vector<std::string>& candidates) {
  const auto nearest = nearest_name(name, candidates);
  return nearest ? " (did you mean " + *nearest + "?)" : "";
}

}  // namespace tandem
