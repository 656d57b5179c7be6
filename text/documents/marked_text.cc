#include "text/documents/marked_text.h"

#include <algorithm>

#include "base/check.h"
#include "text/documents/placement.h"
#include "text/documents/words.h"

namespace tandem {

bool MarkedText::has_terms() const {
  return std::any_of(parts.begin(), parts.end(),
                     [](const InlinePart& part) { return part.is_term; });
}

std::string MarkedText::written(std::string_view source,
                                const std::vector<std::string>& translations,
                                const EncodeText& encode) const {
  const std::string_view as_it_was = source.substr(begin, end - begin);
  const std::string given = with_single_blanks(text);  // to the model
  if (!has_terms() &&
      (requests.whole < 0 ? requests.runs.empty()
                          : translations.at(static_cast<size_t>(requests.whole)) == given))
    return std::string(as_it_was);
  const Placement placement(*this, translations);
  const std::string_view words = placement.translated();
  if (!has_terms() && with_single_blanks(words) == given) return std::string(as_it_was);
  if (words.find_first_not_of(' ') == words.npos) return std::string(as_it_was);
  std::string out;
  size_t at = 0;
  bool after_line = false;
  const auto write_until = [&](size_t until, bool before_markup, bool before_line) {
    std::string_view text = words.substr(at, until - at);
    if (after_line && text.starts_with(' ')) text.remove_prefix(1);
    if (before_line && text.ends_with(' ')) text.remove_suffix(1);
    if (!text.empty()) {
      out += encode(text, at == 0, before_markup);
      after_line = false;
    }
    at = until;
  };
  for (const size_t i : placement.order()) {
    const InlinePart& part = parts[i];
    const PlacedRange place = placement.place(i);
    TANDEM_CHECK_LE(at, place.begin);
    write_until(place.begin, /*before_markup=*/true, part.kind == InlinePart::Kind::kLine);
    after_line = part.kind == InlinePart::Kind::kLine;
    if (part.kind == InlinePart::Kind::kLine && (out.empty() || place.begin == words.size()))
      after_line = false;  // a line of its own would be empty
    else if (part.is_term)
      out += encode(part.written, at == 0, false);
    else
      out += part.written.empty() ? source.substr(part.begin, part.end - part.begin)
                                  : std::string_view(part.written);
    at = place.end;
  }
  write_until(words.size(), false, false);
  return out;
}

}  // namespace tandem
