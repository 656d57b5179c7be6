// Split by PCRE2, with limits: an expression that would take for ever on some text is an error.
#include "text/pipeline/pre_tokenizers/split_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/utf8.h"

namespace tandem {
namespace {

constexpr uint32_t kMatchLimit = 1'000'000, kHeapLimitKiB = 64 * 1024;
constexpr size_t kMaxExpressionBytes = 64 * 1024;

// White_Space, and everything else, as the inside of a character class.
constexpr char kSpaces[] =
    R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr char kNotSpaces[] =
    R"(\x{0}-\x{8}\x{e}-\x{1f}\x{21}-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff})"
    R"(\x{200b}-\x{2027}\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{d7ff})"
    R"(\x{e000}-\x{10ffff})";

constexpr char kWord[] = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{b2}\x{b3}\x{b9}\x{bc}-\x{be})";
constexpr char kHex[] = "0-9a-fA-F";

std::string escape(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       static_cast<unsigned char>(c) >= 0x80;
    if (!plain) out.push_back('\\');
    out.push_back(c);
  }
  return out;
}

// What stands for \`c` in a character class.
std::string translate_member(char c, const JsonView& json) {
  switch (c) {
    case 's': return kSpaces;
    case 'S': return kNotSpaces;
    case 'w': return kWord;
    case 'h': return kHex;
    case 'W':
    case 'H': json.fail_unsupported("\\W and \\H in a character class are not supported");
    default: return {'\\', c};
  }
}

// What stands for \`c` elsewhere.
std::string translate_escape(char c) {
  const auto in = [](const std::string& members) { return "[" + members + "]"; };
  const std::string word = in(kWord);
  const std::string after_word = "(?<=" + word + ")", after_other = "(?<!" + word + ")";
  const std::string before_word = "(?=" + word + ")", before_other = "(?!" + word + ")";
  switch (c) {
    case 's': return in(kSpaces);
    case 'S': return in(kNotSpaces);
    case 'w': return word;
    case 'W': return "[^" + std::string(kWord) + "]";
    case 'h': return in(kHex);
    case 'H': return "[^" + std::string(kHex) + "]";
    case 'b': return "(?:" + after_word + before_other + "|" + after_other + before_word + ")";
    case 'B': return "(?:" + after_word + before_word + "|" + after_other + before_other + ")";
    default: return {'\\', c};
  }
}

}  // namespace

std::string translate_expression(const JsonView& json) {
  const std::string& expression = json.string();
  std::string out;
  bool in_class = false;
  size_t class_start = 0;  // where the first member of the class stands
  for (size_t i = 0; i < expression.size(); ++i) {
    const char c = expression[i];
    const char next = i + 1 < expression.size() ? expression[i + 1] : '\0';
    if (c == '\\' && i + 1 < expression.size()) {
      out += in_class ? translate_member(next, json) : translate_escape(next);
      ++i;
    } else if (in_class && ((c == '[' && next != ':') || (c == '&' && next == '&'))) {
      json.fail_unsupported("sets in a character class are not supported");
    } else {
      if (!in_class && c == '[') {
        in_class = true;
        class_start = i + (next == '^' ? 2 : 1);
      } else if (in_class && c == ']' && i > class_start) {
        in_class = false;
      }
      out += c;
    }
  }
  return out;
}

void SplitPreTokenizer::FreeCode::operator()(pcre2_real_code_8* code) const {
  pcre2_code_free(code);
}

SplitPreTokenizer::SplitPreTokenizer(const JsonView& json) {
  static constexpr std::array<std::pair<const char*, Behavior>, 5> kBehaviors = {{
      {"Isolated", Behavior::kIsolated},
      {"Removed", Behavior::kRemoved},
      {"MergedWithPrevious", Behavior::kMergedWithPrevious},
      {"MergedWithNext", Behavior::kMergedWithNext},
      {"Contiguous", Behavior::kContiguous},
  }};
  const JsonView behavior = json.at("behavior");
  const auto found = std::find_if(kBehaviors.begin(), kBehaviors.end(), [&](const auto& entry) {
    return behavior.string() == entry.first;
  });
  if (found == kBehaviors.end()) behavior.fail("there is no behaviour " + behavior.string());
  behavior_ = found->second;
  invert_ = json.at("invert").boolean();
  const JsonView pattern = json.at("pattern");
  if (const auto text = pattern.find("String")) {
    compile(*text, escape(text->string()));
  } else {
    const JsonView regex = pattern.at("Regex");
    compile(regex, translate_expression(regex));
  }
}

void SplitPreTokenizer::compile(const JsonView& pattern, const std::string& expression) {
  if (expression.size() > kMaxExpressionBytes) pattern.fail("the expression is too long");
  where_ = pattern.file();
  int error = 0;
  PCRE2_SIZE offset = 0;
  code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression.data()), expression.size(),
                            PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                            &error, &offset, nullptr));
  if (!code_) {
    std::array<PCRE2_UCHAR, 256> message{};
    pcre2_get_error_message(error, message.data(), message.size());
    pattern.fail("not a regular expression: " +
                 std::string(reinterpret_cast<const char*>(message.data())));
  }
  pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);  // without it, matching is only slower
}

std::vector<SplitPreTokenizer::Range> SplitPreTokenizer::find_ranges(std::string_view text) const {
  const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> data(
      pcre2_match_data_create_from_pattern(code_.get(), nullptr), &pcre2_match_data_free);
  const std::unique_ptr<pcre2_match_context, decltype(&pcre2_match_context_free)> context(
      pcre2_match_context_create(nullptr), &pcre2_match_context_free);
  TANDEM_CHECK(data && context, "out of memory");
  pcre2_set_match_limit(context.get(), kMatchLimit);
  pcre2_set_heap_limit(context.get(), kHeapLimitKiB);

  std::vector<Range> ranges;
  size_t done = 0;
  std::optional<size_t> last_end;
  for (size_t at = 0; at <= text.size();) {
    const auto match = [&](uint32_t options) {
      return pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                         PCRE2_NO_UTF_CHECK | options, data.get(), context.get());
    };
    int rc = match(0);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT) rc = match(PCRE2_NO_JIT);
    if (rc == PCRE2_ERROR_NOMATCH) break;
    if (rc < 0)
      throw invalid_model(where_, "pre_tokenizer: the regular expression takes too long on a text");
    const PCRE2_SIZE* place = pcre2_get_ovector_pointer(data.get());
    const size_t start = std::max<size_t>(place[0], done), end = std::max<size_t>(place[1], start);
    const bool empty_again = start == end && last_end == end;  // right behind the last match
    if (!empty_again) {
      if (done < start) ranges.push_back({done, start, invert_});
      ranges.push_back({start, end, !invert_});
      done = end;
      last_end = end;
    }
    at = end;
    if (start == end)
      at += end < text.size() ? static_cast<size_t>(code_point_at(text, end).length) : 1;
  }
  if (done < text.size()) ranges.push_back({done, text.size(), invert_});
  return ranges;
}

std::vector<SplitPreTokenizer::Range> SplitPreTokenizer::merge_ranges(
    std::vector<Range> ranges) const {
  const bool backwards = behavior_ == Behavior::kMergedWithNext;
  if (backwards) std::reverse(ranges.begin(), ranges.end());
  std::vector<Range> merged;
  bool previous = false;
  for (const Range& range : ranges) {
    const bool merge =
        behavior_ == Behavior::kContiguous ? range.matched == previous : range.matched && !previous;
    previous = range.matched;
    if (!merge || merged.empty()) {
      merged.push_back(range);
    } else if (backwards) {
      merged.back().start = range.start;
    } else {
      merged.back().end = range.end;
    }
  }
  if (backwards) std::reverse(merged.begin(), merged.end());
  return merged;
}

void SplitPreTokenizer::split(std::string_view text, const TextSink& word) const {
  std::vector<Range> ranges = find_ranges(text);
  const bool removed = behavior_ == Behavior::kRemoved;
  if (!removed && behavior_ != Behavior::kIsolated) ranges = merge_ranges(std::move(ranges));
  for (const Range& range : ranges) {
    if (range.start == range.end || (removed && range.matched)) continue;
    word(text.substr(range.start, range.end - range.start));
  }
}

}  // namespace tandem
