// Pre-tokenizers that look at characters one by one.
#include <unicode/uscript.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/strings/utf8.h"
#include "text/pipeline/pre_tokenizers/split.h"
#include "text/unicode/library_classes.h"
#include "text/unicode/unicode_classes.h"

namespace tandem {
namespace {

using CharacterClass = std::function<bool(char32_t)>;

constexpr int32_t kMaxLength = 1'000'000;

template <class Each>
void each_character(std::string_view text, const Each& each) {
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = code_point_at(text, at);
    const size_t end = at + static_cast<size_t>(c.length);
    each(c.value, at, end);
    at = end;
  }
}

// Each character of a class is a match.
class ClassSplit final : public PreTokenizer {
 public:
  ClassSplit(CharacterClass matches, SplitBehavior behavior)
      : matches_(std::move(matches)), behavior_(behavior) {}
  void split(const Word& text, GrowthBudget&, const WordSink& sink) const override {
    std::vector<Span> spans;
    each_character(text.text, [&](char32_t c, size_t start, size_t end) {
      const bool matched = matches_(c);
      if (matched || spans.empty() || spans.back().matched)
        spans.push_back({start, end, matched});
      else
        spans.back().end = end;
    });
    split_at(text, std::move(spans), behavior_, sink);
  }

 private:
  CharacterClass matches_;
  SplitBehavior behavior_;
};

// A word is characters of one kind; those of kind 0 are dropped.
class KindSplit final : public PreTokenizer {
 public:
  explicit KindSplit(int (*kind)(char32_t)) : kind_(kind) {}
  void split(const Word& text, GrowthBudget&, const WordSink& sink) const override {
    size_t begin = 0;
    int before = 0;
    const auto end_word = [&](size_t end) {
      if (before != 0 && begin < end) sink({text.text.substr(begin, end - begin)});
      begin = end;
    };
    each_character(text.text, [&](char32_t c, size_t start, size_t) {
      const int kind = kind_(c);
      if (kind != before) end_word(start);
      before = kind;
    });
    end_word(text.text.size());
  }

 private:
  int (*kind_)(char32_t);
};

// So many characters at a time.
class FixedLengthSplit final : public PreTokenizer {
 public:
  explicit FixedLengthSplit(const JsonView& json) {
    const auto length = json.find("length");
    if (!length) return;
    length_ = length->count(kMaxLength);
    if (length_ == 0) length->fail("must be more than 0");
  }
  void split(const Word& text, GrowthBudget&, const WordSink& sink) const override {
    size_t begin = 0;
    int32_t count = 0;
    each_character(text.text, [&](char32_t, size_t, size_t end) {
      if (++count < length_ && end < text.text.size()) return;
      sink({text.text.substr(begin, end - begin)});
      begin = end;
      count = 0;
    });
  }

 private:
  int32_t length_ = 5;
};

// SentencePiece's scripts: Japanese is one, and a space is of any.
int script_for_split(char32_t c) {
  if (c == 0x30FC) return USCRIPT_HAN;
  if (c == ' ') return kAnyScript;
  const int script = script_of(c);
  return script == USCRIPT_HIRAGANA || script == USCRIPT_KATAKANA ? USCRIPT_HAN : script;
}

// Where the script changes. What stands before the first character of a script is lost, as in the
// library.
class ScriptSplit final : public PreTokenizer {
 public:
  void split(const Word& text, GrowthBudget&, const WordSink& sink) const override {
    std::optional<size_t> begin;
    int last = kAnyScript;
    const auto end_word = [&](size_t end) {
      if (begin && *begin < end) sink({text.text.substr(*begin, end - *begin)});
      begin = end;
    };
    each_character(text.text, [&](char32_t c, size_t start, size_t) {
      const int script = script_for_split(c);
      if (script == kAnyScript || script == last) return;
      end_word(start);
      last = script;
    });
    if (begin) end_word(text.text.size());
  }
};

class PreTokenizerPair final : public PreTokenizer {
 public:
  PreTokenizerPair(std::unique_ptr<PreTokenizer> first, std::unique_ptr<PreTokenizer> second)
      : first_(std::move(first)), second_(std::move(second)) {}
  void split(const Word& text, GrowthBudget& budget, const WordSink& sink) const override {
    first_->split(text, budget, [&](const Word& part) { second_->split(part, budget, sink); });
  }

 private:
  std::unique_ptr<PreTokenizer> first_, second_;
};

std::unique_ptr<PreTokenizer> class_split(CharacterClass matches, SplitBehavior behavior) {
  return std::make_unique<ClassSplit>(std::move(matches), behavior);
}

// \w+|[^\w\s]+
int kind_of_word(char32_t c) {
  if (is_word(c)) return 1;
  return is_space(c) ? 0 : 2;
}

CharacterClass delimiter(const JsonView& json) {
  const std::string& text = json.string();
  if (text.empty()) json.fail("expected one character");
  const CodePoint c = code_point_at(text, 0);
  if (static_cast<size_t>(c.length) != text.size()) json.fail("expected one character");
  return [value = c.value](char32_t other) { return other == value; };
}

}  // namespace

std::unique_ptr<PreTokenizer> make_character_split(const JsonView& json) {
  const std::string type = json.at("type").string();
  if (type == "Digits")
    return class_split(is_numeric, json.at("individual_digits").boolean()
                                       ? SplitBehavior::kIsolated
                                       : SplitBehavior::kContiguous);
  if (type == "Punctuation") {
    const auto behavior = json.find("behavior");
    return class_split(is_punctuation,
                       behavior ? read_split_behavior(*behavior) : SplitBehavior::kIsolated);
  }
  if (type == "CharDelimiterSplit")
    return class_split(delimiter(json.at("delimiter")), SplitBehavior::kRemoved);
  if (type == "WhitespaceSplit") return class_split(is_space, SplitBehavior::kRemoved);
  if (type == "BertPreTokenizer")
    return std::make_unique<PreTokenizerPair>(
        class_split(is_space, SplitBehavior::kRemoved),
        class_split(is_punctuation, SplitBehavior::kIsolated));
  if (type == "Whitespace") return std::make_unique<KindSplit>(kind_of_word);
  if (type == "FixedLength") return std::make_unique<FixedLengthSplit>(json);
  if (type == "UnicodeScripts") return std::make_unique<ScriptSplit>();
  return nullptr;
}

}  // namespace tandem
