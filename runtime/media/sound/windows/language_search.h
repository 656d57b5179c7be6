// What is spoken, by the windows of a sound: faster-whisper's rule.
#pragma once

#include <cstdint>
#include <vector>

namespace tandem {

// The first window that is sure of a language says it; else the language that most windows find
// likeliest, the earlier one of two. A plain state machine.
class LanguageSearch {
 public:
  // windows: that are asked at most, 1 or more; a probability above the threshold is sure.
  LanguageSearch(int64_t windows, double threshold) : windows_(windows), threshold_(threshold) {}

  // The next window's likeliest language, and its probability among languages.
  void add(int32_t language, double probability);
  bool done() const { return sure_ || asked_ == windows_; }
  int64_t asked() const { return asked_; }
  // Whether probabilities matter.
  bool compares() const { return windows_ > 1; }
  int32_t language() const;  // of a search that is done

 private:
  struct Vote {
    int32_t language;
    int64_t windows;
  };
  int64_t windows_, asked_ = 0;
  double threshold_;
  bool sure_ = false;
  std::vector<Vote> votes_;
};

}  // namespace tandem
