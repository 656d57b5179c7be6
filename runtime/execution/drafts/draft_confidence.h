// What a draft model's belief in its token is worth: how often such tokens have been right.
#pragma once

#include <array>

namespace tandem {

class DraftConfidence {
 public:
  static constexpr int kBuckets = 10;

  DraftConfidence();
  // Beliefs of about the same size. belief: the token's probability, as the draft model has it.
  static int bucket_of(double belief);
  // That such a token is right, if those before it are. Little is believed before anything is
  // known.
  double likelihood(int bucket) const;
  void record(int bucket, bool right);

 private:
  struct Counts {
    double hits, trials;
  };
  std::array<Counts, kBuckets> counts_;
};

}  // namespace tandem
