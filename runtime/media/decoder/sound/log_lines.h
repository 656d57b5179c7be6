// What could not be decoded, in the words of FFmpeg's libraries and in ours.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace tandem::decoder {

// Bounded, however much is wrong: each line once, with how often it was said. One may exist at a
// time: while it does, the errors that the libraries log come to it.
class LogLines {
 public:
  LogLines();
  ~LogLines();
  LogLines(const LogLines&) = delete;
  LogLines& operator=(const LogLines&) = delete;

  void add(std::string line);
  void forget();
  std::vector<std::string> texts() const;

 private:
  static constexpr size_t kMostLines = 8, kMostCharacters = 200;

  std::vector<std::pair<std::string, size_t>> lines_;
  size_t others_ = 0;  // for which there was no room
};

}  // namespace tandem::decoder
