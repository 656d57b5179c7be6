// How alike two texts are.
#pragma once

#include <string_view>

namespace tandem {

// ratio() of the Python package Levenshtein: 1 less the insertions and deletions that make one text
// of the other, as a share of both lengths. Time is the product of the lengths.
double indel_ratio(std::u32string_view a, std::u32string_view b);

}  // namespace tandem
