#include "text/documents/placement.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "base/strings/utf8.h"
#include "text/sentences.h"
#include "text/unicode/unicode_classes.h"

namespace tandem {
namespace {

using Kind = InlinePart::Kind;

bool overlaps(const std::vector<PlacedRange>& taken, PlacedRange range) {
  return std::any_of(taken.begin(), taken.end(), [&](const PlacedRange& other) {
    return range.begin < other.end && other.begin < range.end;
  });
}

// Where `part` is in the text as whole words, at or behind `from` and before `end`.
std::optional<PlacedRange> find_words(std::string_view text, std::string_view part, size_t from,
                                      size_t end) {
  if (part.empty()) return std::nullopt;
  for (size_t at = text.find(part, from); at != text.npos && at + part.size() <= end;
       at = text.find(part, at + 1))
    if (!is_within_word(text, at) && !is_within_word(text, at + part.size()))
      return PlacedRange{at, at + part.size()};
  return std::nullopt;
}

bool is_character_start(std::string_view text, size_t at) {
  return at >= text.size() || (static_cast<unsigned char>(text[at]) & 0xC0) != 0x80;
}

// Whether a tag may stand here without cutting a word: an opening one before a word, others behind.
bool is_word_edge(std::string_view text, size_t at, bool opens) {
  if (at == 0 || at >= text.size()) return true;
  if (!is_character_start(text, at)) return false;
  const char32_t before = code_point_at(text, previous_position(text, at)).value;
  const char32_t behind = code_point_at(text, at).value;
  if (is_written_without_spaces(before) && is_written_without_spaces(behind)) return true;
  return opens ? is_space(before) && !is_space(behind) : !is_space(before) && is_space(behind);
}

// The edge of a word that is nearest to `at`, of those from `least` to `most`.
size_t nearest_edge(std::string_view text, size_t at, size_t least, size_t most, bool opens) {
  constexpr size_t kFarthest = 256;
  at = std::clamp(at, least, most);
  for (size_t step = 0; step <= kFarthest; ++step) {
    if (at >= least + step && is_word_edge(text, at - step, opens)) return at - step;
    if (at + step <= most && is_word_edge(text, at + step, opens)) return at + step;
  }
  while (at > least && !is_character_start(text, at)) --at;
  return is_character_start(text, at) ? at : least;
}

}  // namespace

Placement::Placement(const MarkedText& of, const std::vector<std::string>& translations)
    : of_(of), translations_(translations), places_(of.parts.size()), partners_(of.parts.size()) {
  std::unordered_map<int, size_t> pairs;
  for (size_t i = 0; i < of.parts.size(); ++i) {
    if (of.parts[i].pair < 0) continue;
    const auto [first, is_first] = pairs.emplace(of.parts[i].pair, i);
    if (is_first) continue;
    partners_[i] = first->second;
    partners_[first->second] = i;
  }
  translated_ = of.requests.whole < 0 ? std::string() : translation(of.requests.whole);
  if (translated_.empty() || !find_fixed()) join_runs();
  find_pairs();
  if (!is_consistent()) place_in_order();
}

// Fixed texts that the model has left as they were, each as often as it is there. False: it has
// not.
bool Placement::find_fixed() {
  std::vector<size_t> fixed;
  for (size_t i = 0; i < of_.parts.size(); ++i)
    if (of_.parts[i].kind == Kind::kFixed) fixed.push_back(i);
  const auto shown = [&](size_t i) {
    const InlinePart& part = of_.parts[i];
    return std::string_view(of_.text).substr(part.text_begin, part.text_end - part.text_begin);
  };
  // A longer one may have a shorter one in it.
  std::stable_sort(fixed.begin(), fixed.end(),
                   [&](size_t a, size_t b) { return shown(a).size() > shown(b).size(); });
  std::vector<PlacedRange> taken;
  const auto next = [&](std::string_view text, size_t from) {
    auto found = find_words(translated_, text, from, translated_.size());
    while (found && overlaps(taken, *found))
      found = find_words(translated_, text, found->begin + 1, translated_.size());
    return found;
  };
  for (const size_t i : fixed) {
    const auto found = next(shown(i), 0);
    if (!found) return false;
    taken.push_back(*found);
    places_[i] = found;
  }
  // One that the model has said twice is no longer fixed.
  return std::none_of(fixed.begin(), fixed.end(),
                      [&](size_t i) { return next(shown(i), 0).has_value(); });
}

// The translations of what is between fixed texts, around these as they are.
void Placement::join_runs() {
  translated_.clear();
  for (auto& place : places_) place.reset();
  size_t run = 0;
  const auto& runs = of_.requests.runs;
  const auto add_runs_until = [&](size_t end) {
    for (; run < runs.size() && runs[run].begin < end; ++run) {
      const std::string_view text =
          std::string_view(of_.text).substr(runs[run].begin, runs[run].end - runs[run].begin);
      std::string words = runs[run].text < 0 ? "" : translation(runs[run].text);
      if (words.empty()) {
        translated_ += text;
        continue;
      }
      if (text.starts_with(' ')) translated_ += ' ';
      translated_ += words;
      if (text.ends_with(' ')) translated_ += ' ';
    }
  };
  for (size_t i = 0; i < of_.parts.size(); ++i) {
    const InlinePart& part = of_.parts[i];
    if (part.kind != Kind::kFixed) continue;
    add_runs_until(part.text_begin);
    const size_t begin = translated_.size();
    translated_ += of_.text.substr(part.text_begin, part.text_end - part.text_begin);
    places_[i] = PlacedRange{begin, translated_.size()};
  }
  add_runs_until(of_.text.size());
  if (runs.empty() && translated_.empty()) translated_ = of_.text;
}

// Pairs whose text the translation has.
void Placement::find_pairs() {
  struct Found {
    const TextRequests::Content* content;
    PlacedRange place;
  };
  std::vector<Found> found;
  for (const TextRequests::Content& content : of_.requests.contents) {
    // Two pairs around the same words are around the same words again; others are not.
    const auto twin = std::find_if(found.begin(), found.end(), [&](const Found& other) {
      return other.content->begin == content.begin && other.content->end == content.end;
    });
    std::optional<PlacedRange> place;
    if (twin != found.end()) {
      place = twin->place;
    } else {
      const std::string text = content.text < 0
                                   ? of_.text.substr(content.begin, content.end - content.begin)
                                   : translation(content.text);
      const auto is_taken = [&](PlacedRange range) {
        return std::any_of(found.begin(), found.end(), [&](const Found& other) {
          return other.place.begin == range.begin && other.place.end == range.end;
        });
      };
      place = find_words(translated_, text, 0, translated_.size());
      while (place && is_taken(*place))
        place = find_words(translated_, text, place->begin + 1, translated_.size());
    }
    if (!place) continue;
    found.push_back({&content, *place});
    for (size_t i = 0; i < of_.parts.size(); ++i) {
      if (of_.parts[i].pair != content.pair) continue;
      const size_t at = of_.parts[i].kind == Kind::kOpen ? place->begin : place->end;
      places_[i] = PlacedRange{at, at};
    }
  }
}

// Whether every part has a place, and what is within a pair of tags is within it in the
// translation.
bool Placement::is_consistent() const {
  constexpr size_t kMostCompared = 256;
  struct Both {
    PlacedRange from, to;
  };
  std::vector<Both> ranges;
  for (size_t i = 0; i < of_.parts.size(); ++i) {
    const InlinePart& part = of_.parts[i];
    if (part.is_text() || part.kind == Kind::kClose) continue;
    if (!places_[i]) return false;
    if (part.kind == Kind::kFixed) {
      ranges.push_back({{part.text_begin, part.text_end}, *places_[i]});
      continue;
    }
    const auto end = part.kind == Kind::kOpen ? partners_[i] : std::nullopt;
    if (!end || !places_[*end] || places_[i]->begin == places_[*end]->end) return false;
    ranges.push_back(
        {{part.text_begin, of_.parts[*end].text_begin}, {places_[i]->begin, places_[*end]->end}});
  }
  if (ranges.size() > kMostCompared) return false;
  for (size_t i = 0; i < of_.parts.size(); ++i)
    if (of_.parts[i].kind == Kind::kClose && !places_[i]) return false;
  const auto is_inside = [](PlacedRange a, PlacedRange b) {
    return a.begin >= b.begin && a.end <= b.end;
  };
  for (size_t i = 0; i < ranges.size(); ++i)
    for (size_t k = 0; k < i; ++k) {
      const Both &a = ranges[i], &b = ranges[k];
      const bool apart = a.to.end <= b.to.begin || b.to.end <= a.to.begin;
      if (is_inside(a.from, b.from) != is_inside(a.to, b.to) ||
          is_inside(b.from, a.from) != is_inside(b.to, a.to) ||
          (!apart && !is_inside(a.to, b.to) && !is_inside(b.to, a.to)))
        return false;
    }
  return true;
}

// Keeps the places that stand in the order of the source, and forgets the others.
std::vector<Placement::Anchor> Placement::keep_ordered() {
  std::vector<size_t> before_fixed(places_.size(), translated_.size());  // begin of the next one
  for (size_t i = places_.size(), begin = translated_.size(); i-- > 0;) {
    before_fixed[i] = begin;
    if (of_.parts[i].kind == Kind::kFixed) begin = places_[i]->begin;
  }
  std::vector<Anchor> out{{0, 0}};
  for (size_t i = 0; i < places_.size(); ++i) {
    if (!places_[i]) continue;
    const InlinePart& part = of_.parts[i];
    if (places_[i]->begin < out.back().to || places_[i]->end > before_fixed[i]) {
      places_[i].reset();
      continue;
    }
    out.push_back({part.text_begin, places_[i]->begin});
    if (part.kind == Kind::kFixed) out.push_back({part.text_end, places_[i]->end});
  }
  out.push_back({text_size(), translated_.size()});
  return out;
}

// All markup in the order of the source: each part between those that are known, in proportion.
void Placement::place_in_order() {
  size_t last = 0;
  bool ordered = true;
  for (size_t i = 0; i < of_.parts.size(); ++i) {
    if (of_.parts[i].kind != Kind::kFixed) continue;
    ordered = ordered && places_[i]->begin >= last;
    last = places_[i]->end;
  }
  if (!ordered) {
    join_runs();
    find_pairs();
  }
  const std::vector<Anchor> known = keep_ordered();
  size_t at = 0, anchor = 0;
  for (size_t i = 0; i < of_.parts.size(); ++i) {
    const InlinePart& part = of_.parts[i];
    if (part.is_text()) continue;
    if (places_[i]) {
      // (Its anchors are the next ones.)
      anchor += part.kind == Kind::kFixed ? 2 : 1;
      at = places_[i]->end;
      continue;
    }
    const Anchor &low = known[anchor], &high = known[anchor + 1];
    const size_t width = high.from - low.from, offset = part.text_begin - low.from;
    const double share =
        width == 0 ? 0.0 : static_cast<double>(offset) / static_cast<double>(width);
    const size_t near = low.to + static_cast<size_t>(share * static_cast<double>(high.to - low.to));
    const size_t least = std::max(at, low.to), most = std::max(least, high.to);
    const bool behind_blank = part.text_begin > 0 && of_.text[part.text_begin - 1] == ' ';
    const bool opens = part.kind == Kind::kOpen || (part.kind == Kind::kPoint && behind_blank);
    at = nearest_edge(translated_, near, least, most, opens);
    places_[i] = PlacedRange{at, at};
  }
  widen_empty_pairs();
}

// A pair of tags around nothing gets the word behind it, or else before it, that no other markup
// is in.
void Placement::widen_empty_pairs() {
  for (size_t i = 0; i < of_.parts.size(); ++i) {
    if (of_.parts[i].kind != Kind::kOpen) continue;
    const auto close = partners_[i];
    if (!close || *close < i || places_[i]->begin != places_[*close]->begin ||
        of_.parts[*close].text_begin == of_.parts[i].text_begin)
      continue;
    size_t before = i, next = i + 1, behind = *close + 1;
    while (before > 0 && of_.parts[before - 1].is_text()) --before;
    while (next < *close && of_.parts[next].is_text()) ++next;
    while (behind < of_.parts.size() && of_.parts[behind].is_text()) ++behind;
    if (next != *close) continue;
    const size_t least = before == 0 ? 0 : places_[before - 1]->end;
    const size_t most = behind == of_.parts.size() ? translated_.size() : places_[behind]->begin;
    size_t begin = places_[i]->begin, end = begin;
    while (end < most && translated_[end] == ' ') ++end;
    if (end < most) {
      begin = end;
      while (end < most && (end == begin || !is_word_edge(translated_, end, false))) ++end;
    } else {
      end = places_[i]->begin;
      while (end > least && translated_[end - 1] == ' ') --end;
      begin = end;
      while (begin > least && (begin == end || !is_word_edge(translated_, begin, true))) --begin;
    }
    if (begin == end || begin < least || end > most) continue;
    places_[i] = PlacedRange{begin, begin};
    places_[*close] = PlacedRange{end, end};
  }
}

std::vector<size_t> Placement::order() const {
  std::vector<size_t> out;
  for (size_t i = 0; i < of_.parts.size(); ++i)
    if (!of_.parts[i].is_text()) out.push_back(i);
  // At one place ends come first. (Where places are in the source's order, so are the parts.)
  const auto before = [&](size_t a, size_t b) {
    if (places_[a]->begin != places_[b]->begin) return places_[a]->begin < places_[b]->begin;
    const bool a_ends = of_.parts[a].kind == Kind::kClose,
               b_ends = of_.parts[b].kind == Kind::kClose;
    return a_ends && !b_ends && places_[a]->end <= places_[b]->begin;
  };
  const bool in_source_order = std::is_sorted(out.begin(), out.end(), [&](size_t a, size_t b) {
    return places_[a]->begin < places_[b]->begin;
  });
  if (!in_source_order) std::stable_sort(out.begin(), out.end(), before);
  return out;
}

}  // namespace tandem
