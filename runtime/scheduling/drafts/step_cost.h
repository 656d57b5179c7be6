// What drafts are weighed with (docs/scheduling.md §10).
#pragma once

namespace tandem {

// Rows of a step whose computation takes as long as what a step takes however few they are, most of
// all reading the weights.
inline constexpr double kRowsOfAStep = 2.5;

}  // namespace tandem
