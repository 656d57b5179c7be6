// How two texts that are one input are cut to a length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace tandem {

// How a pair of texts is cut to a number of tokens, those around the texts included.
struct PairCut {
  std::optional<size_t> most = {};  // absent: it is not cut
  // Of the first one alone, unless nothing of it would be left: then nothing is cut. Otherwise the
  // longer one is cut first, then both.
  bool only_first = false;
  // An empty second text is none, as where HuggingFace's tokenizers are called; those in Python
  // join it all the same.
  bool empty_is_none = false;
};

// Cuts the ids of both texts, as HuggingFace's tokenizers do. around: tokens that stand around
// them.
void cut_pair(std::vector<int32_t>& first, std::vector<int32_t>& second, const PairCut& cut,
              size_t around);

}  // namespace tandem
