#include "text/pair_cut.h"

#include <algorithm>

namespace tandem {

void cut_pair(std::vector<int32_t>& first, std::vector<int32_t>& second, const PairCut& cut,
              size_t around) {
  if (!cut.most) return;
  const size_t total = first.size() + second.size(), most = *cut.most - std::min(around, *cut.most);
  if (total <= most) return;
  if (cut.only_first) {
    if (first.size() > total - most) first.resize(first.size() - (total - most));
    return;
  }
  auto& shorter = first.size() > second.size() ? second : first;
  auto& longer = first.size() > second.size() ? first : second;
  size_t keep = shorter.size();
  size_t keep_longer = keep > most ? keep : std::max(keep, most - keep);
  if (keep + keep_longer > most) {
    keep = most / 2;
    keep_longer = keep + most % 2;
  }
  shorter.resize(std::min(keep, shorter.size()));
  longer.resize(std::min(keep_longer, longer.size()));
}

}  // namespace tandem
