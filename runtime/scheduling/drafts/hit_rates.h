// How often looked-up drafts were right.
#pragma once

#include <array>

namespace tandem {

// How often what was looked up was right, by how much of the text agreed before; of all sequences
// together. What is long ago counts less.
class HitRates {
 public:
  static constexpr int kMostLength = 16;  // longer agreements count as this

  HitRates();
  double of(int length) const;
  void record(int length, bool hit);

 private:
  struct Counts {
    double hits, trials;
  };
  std::array<Counts, kMostLength> counts_;
};

}  // namespace tandem
