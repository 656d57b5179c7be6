// Oniguruma with bounds: an expression that would take for ever on some text is an error.
#include "text/pipeline/pattern.h"

#include <oniguruma.h>

#include <array>
#include <optional>

#include "base/check.h"
#include "base/error.h"
#include "base/strings/utf8.h"
#include "text/pipeline/pattern_properties.h"

namespace tandem {
namespace {

constexpr size_t kMaxExpressionBytes = 64 * 1024;
constexpr unsigned long kMaxRetriesInMatch = 10'000'000;  // Oniguruma's own
constexpr unsigned long kMaxRetriesInSearch = 50'000'000;

const UChar* bytes_of(std::string_view text) { return reinterpret_cast<const UChar*>(text.data()); }

struct FreeRegion {
  void operator()(OnigRegion* region) const { onig_region_free(region, /*free_self=*/1); }
};
struct FreeParams {
  void operator()(OnigMatchParam* params) const { onig_free_match_param(params); }
};

}  // namespace

std::vector<Span> literal_spans(std::string_view text, std::string_view literal) {
  std::vector<Span> spans;
  for (size_t at = 0; at < text.size();) {
    const size_t found = std::min(text.find(literal, at), text.size());
    if (at < found) spans.push_back({at, found, false});
    if (found == text.size()) break;
    at = found + literal.size();
    spans.push_back({found, at, true});
  }
  return spans;
}

void Pattern::FreeRegex::operator()(re_pattern_buffer* regex) const { onig_free(regex); }

Pattern::Pattern(const JsonView& json) : file_(json.file()) {
  if (const auto string = json.find("String")) {
    literal_ = string->string();
    if (literal_.empty()) compile(*string, literal_);  // matches between all characters
    return;
  }
  const JsonView regex = json.at("Regex");
  compile(regex, regex.string());
}

void Pattern::compile(const JsonView& json, const std::string& expression) {
  if (expression.size() > kMaxExpressionBytes) json.fail("the expression is too long");
  define_pattern_properties();
  regex_t* regex = nullptr;
  OnigErrorInfo info{};
  const std::string spelt = spell_properties(expression);
  const UChar* begin = bytes_of(spelt);
  const int rc = onig_new(&regex, begin, begin + spelt.size(), ONIG_OPTION_NONE, ONIG_ENCODING_UTF8,
                          ONIG_SYNTAX_ONIGURUMA, &info);
  if (rc == ONIG_NORMAL) return regex_.reset(regex);
  std::array<UChar, ONIG_MAX_ERROR_MESSAGE_LEN> message{};
  const int length = onig_error_code_to_str(message.data(), rc, &info);
  json.fail("not a regular expression: " +
            std::string(reinterpret_cast<const char*>(message.data()),
                        static_cast<size_t>(length > 0 ? length : 0)));
}

std::vector<Span> Pattern::spans(std::string_view text) const {
  if (text.empty()) return {};
  if (!regex_) return literal_spans(text, literal_);
  const std::unique_ptr<OnigRegion, FreeRegion> region(onig_region_new());
  const std::unique_ptr<OnigMatchParam, FreeParams> params(onig_new_match_param());
  TANDEM_CHECK(region && params, "out of memory");
  onig_initialize_match_param(params.get());
  onig_set_retry_limit_in_match_of_match_param(params.get(), kMaxRetriesInMatch);
  onig_set_retry_limit_in_search_of_match_param(params.get(), kMaxRetriesInSearch);
  const UChar *begin = bytes_of(text), *end = begin + text.size();

  std::vector<Span> spans;
  size_t done = 0;
  std::optional<size_t> last_end;
  for (size_t at = 0; at <= text.size();) {
    onig_region_clear(region.get());
    const int rc = onig_search_with_param(regex_.get(), begin, end, begin + at, end, region.get(),
                                          ONIG_OPTION_NONE, params.get());
    if (rc == ONIG_MISMATCH) break;
    if (rc < 0) throw invalid_model(file_, "a regular expression takes too long on a text");
    const auto start = static_cast<size_t>(region->beg[0]);
    const auto stop = static_cast<size_t>(region->end[0]);
    if (start == stop && last_end == stop) {  // an empty match right behind the last one is none
      at += at < text.size() ? static_cast<size_t>(code_point_at(text, at).length) : 1;
      continue;
    }
    if (start < done || stop < start)
      throw not_supported(file_, "a regular expression that matches a text twice (\\K)");
    if (done < start) spans.push_back({done, start, false});
    spans.push_back({start, stop, true});
    at = done = stop;
    last_end = stop;
  }
  if (done < text.size()) spans.push_back({done, text.size(), false});
  return spans;
}

std::string Pattern::replace(std::string_view text, std::string_view content) const {
  std::string out;
  for (const Span& span : spans(text))
    out += span.matched ? content : text.substr(span.start, span.end - span.start);
  return out;
}

}  // namespace tandem
