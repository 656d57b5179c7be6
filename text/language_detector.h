// Which language a text is in. CLD2 (Debian's libcld2): 83 languages, naive Bayes over n-grams, no
// model to download, about a megabyte of text a millisecond; libexttextcat knows languages by files
// of fingerprints of whole documents and is wrong about single sentences.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tandem {

struct DetectedLanguage {
  std::string code;   // BCP 47: "en", "zh-Hant"
  double confidence;  // 0 to 1
};

// The likeliest first, at most three; none of a text that has no words of a known language. `text`
// is UTF-8 (of what is not, nothing is detected). Any thread.
std::vector<DetectedLanguage> detect_languages(std::string_view text);

}  // namespace tandem
