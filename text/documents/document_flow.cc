#include "text/documents/document_flow.h"

#include <algorithm>

#include "base/check.h"
#include "base/strings/utf8.h"
#include "text/documents/fixed_texts.h"
#include "text/documents/web_addresses.h"
#include "text/documents/words.h"
#include "text/sentences.h"
#include "text/unicode/unicode_classes.h"

namespace tandem {
namespace {

using Kind = InlinePart::Kind;

constexpr std::string_view kFlowBlanks = " \t\n\r\f";
// Beyond them markup goes in proportion, and a sentence around more fixed texts is translated in
// runs alone.
constexpr size_t kMostPairs = 32, kMostFixed = 64;
constexpr size_t kLongestShown = 100;  // bytes of a fixed text that the model sees

}  // namespace

void DocumentFlow::add(Kind kind, size_t begin, size_t end, std::string_view text) {
  fill_gap(begin);
  const size_t at = text_.size();
  text_ += text;
  InlinePart* last = parts_.empty() ? nullptr : &parts_.back();
  if (kind == Kind::kText && last != nullptr && last->kind == kind && last->end == begin) {
    last->end = end;
    last->text_end = text_.size();
    return;
  }
  InlinePart part;
  part.kind = kind;
  part.begin = begin;
  part.end = end;
  part.text_begin = at;
  part.text_end = text_.size();
  parts_.push_back(std::move(part));
}

// What the parser did not name within a block.
void DocumentFlow::fill_gap(size_t until) {
  if (parts_.empty() || parts_.back().end >= until) return;
  const size_t begin = parts_.back().end;
  add(Kind::kPoint, begin, until, {});
}

void DocumentFlow::text(size_t begin, size_t end) {
  const std::string_view until = source_.substr(0, end);
  while (begin < end) {
    const size_t blank = std::min(until.find_first_of(kFlowBlanks, begin), end);
    if (blank > begin) add(Kind::kText, begin, blank, source_.substr(begin, blank - begin));
    if (blank == end) return;
    const size_t behind = std::min(until.find_first_not_of(kFlowBlanks, blank), end);
    const std::string_view run = source_.substr(blank, behind - blank);
    const bool has_blank = text_.empty() || text_.ends_with(' ');
    if (has_blank && !parts_.empty() && parts_.back().kind == Kind::kPoint &&
        parts_.back().end == blank) {
      parts_.back().end = behind;  // of blanks on both sides of an image both stay
    } else if (run == " " && !has_blank) {
      add(Kind::kText, blank, behind, run);
    } else {
      // A line end between characters of scripts without spaces is none.
      const bool joins = !has_blank && behind < end && run.find('\n') != run.npos &&
                         is_written_without_spaces(
                             code_point_at(text_, previous_position(text_, text_.size())).value) &&
                         is_written_without_spaces(code_point_at(source_, behind).value);
      add(Kind::kCharacters, blank, behind, has_blank || joins ? "" : " ");
    }
    begin = behind;
  }
}

void DocumentFlow::characters(size_t begin, size_t end, std::string_view text) {
  const bool is_blank = text.size() == 1 && kFlowBlanks.find(text[0]) != kFlowBlanks.npos;
  const bool has_blank = text_.empty() || text_.ends_with(' ');
  add(Kind::kCharacters, begin, end, !is_blank ? text : has_blank ? "" : " ");
}

int DocumentFlow::open(size_t begin, size_t end) {
  add(Kind::kOpen, begin, end, {});
  return parts_.back().pair = pairs_++;
}

void DocumentFlow::close(size_t begin, size_t end, int pair, std::string written) {
  add(pair < 0 ? Kind::kPoint : Kind::kClose, begin, end, {});
  parts_.back().pair = pair;
  parts_.back().written = std::move(written);
}

void DocumentFlow::point(size_t begin, size_t end) { add(Kind::kPoint, begin, end, {}); }

void DocumentFlow::line(size_t begin, size_t end) {
  add(Kind::kLine, begin, end, {});
  if (!text_.empty() && !text_.ends_with(' ')) add(Kind::kCharacters, end, end, " ");
}

void DocumentFlow::fixed(size_t begin, size_t end, std::string_view shown) {
  const std::string text = with_single_blanks(shown);
  add(text.empty() ? Kind::kPoint : Kind::kFixed, begin, end, text);
}

void DocumentFlow::boundary() {
  const bool has_text = std::any_of(parts_.begin(), parts_.end(), [&](const InlinePart& part) {
    return part.is_text() && has_letter(std::string_view(text_).substr(
                                 part.text_begin, part.text_end - part.text_begin));
  });
  if (has_text) {
    ++block_;
    protect();
    std::vector<TextSpan> spans;
    if (options_.sentences)
      spans = sentences_of(text_, options_.language);
    else
      spans = {trimmed(text_, {0, text_.size()})};
    // No sentence ends within what is one: code, an address, a term.
    std::vector<TextSpan> whole;
    size_t part = 0;
    for (const TextSpan& span : spans) {
      const auto cuts = [&] {
        while (part < parts_.size() && parts_[part].text_end <= whole.back().end) ++part;
        return part < parts_.size() && parts_[part].kind != Kind::kText &&
               parts_[part].text_begin < whole.back().end;
      };
      if (!whole.empty() && cuts())
        whole.back().end = span.end;
      else
        whole.push_back(span);
    }
    next_part_ = 0;
    for (const TextSpan& span : whole) add_sentence(span.begin, span.end);
  }
  text_.clear();
  parts_.clear();
}

// Makes fixed texts of web addresses and of the glossary's terms.
void DocumentFlow::protect() {
  std::vector<GlossaryMatch> matches;
  for (const TextSpan& span : web_addresses_of(text_))
    matches.push_back({span.begin, span.end, {}});
  if (options_.glossary != nullptr) {
    const size_t addresses = matches.size();
    for (const GlossaryMatch& match : options_.glossary->find(text_)) {
      const auto it = std::partition_point(
          matches.begin(), matches.begin() + static_cast<std::ptrdiff_t>(addresses),
          [&](const GlossaryMatch& address) { return address.end <= match.begin; });
      if (it == matches.begin() + static_cast<std::ptrdiff_t>(addresses) || it->begin >= match.end)
        matches.push_back(match);
    }
    std::sort(matches.begin(), matches.end(),
              [](const auto& a, const auto& b) { return a.begin < b.begin; });
  }
  if (matches.empty()) return;
  fix_texts(matches, text_, parts_);
}

// The parts of one sentence, with the tags around it whose pairs are within it.
void DocumentFlow::add_sentence(size_t begin, size_t end) {
  while (next_part_ < parts_.size() && (!(parts_[next_part_].text_end > begin))) ++next_part_;
  size_t first = next_part_, last = first;
  while (last < parts_.size() && parts_[last].text_begin < end) ++last;
  next_part_ = last;
  if (last > first && parts_[last - 1].text_end > end) --next_part_;
  while (last > first && parts_[last - 1].text_begin == parts_[last - 1].text_end) --last;
  if (first >= last) return;
  const auto is_within = [&](const InlinePart& tag) {
    for (size_t i = first; i < last; ++i)
      if (parts_[i].pair == tag.pair) return true;
    return false;
  };
  size_t from = first, to = last;
  for (size_t steps = 0; steps < kMostPairs && from > 0; ++steps, --from)
    if (parts_[from - 1].kind != Kind::kOpen || parts_[from - 1].text_end != begin ||
        !is_within(parts_[from - 1]))
      break;
  for (size_t steps = 0; steps < kMostPairs && to < parts_.size(); ++steps, ++to)
    if (parts_[to].kind != Kind::kClose || parts_[to].text_begin != end || !is_within(parts_[to]))
      break;
  MarkedText out;
  out.block = block_;
  out.text = text_.substr(begin, end - begin);
  for (size_t i = from; i < to; ++i) {
    InlinePart part = parts_[i];
    const size_t front = part.text_begin < begin ? begin - part.text_begin : 0;
    const size_t back = part.text_end > end ? part.text_end - end : 0;
    if (part.kind == Kind::kText) {
      part.begin += front;
      part.end -= back;
    }
    part.text_begin += front;
    part.text_end -= back;
    part.text_begin -= begin;
    part.text_end -= begin;
    out.parts.push_back(std::move(part));
  }
  out.begin = out.parts.front().begin;
  out.end = out.parts.back().end;
  ask(out);
  const bool asks = out.requests.whole >= 0 || !out.requests.runs.empty() || out.has_terms();
  if (asks) sentences_.push_back(std::move(out));
}

// Which texts the sentence needs translations of.
void DocumentFlow::ask(MarkedText& sentence) {
  const std::string_view text = sentence.text;
  size_t fixed = 0, longest = 0, run = 0;
  bool has_words = false;
  std::vector<TextRequests::Run> runs;
  const auto end_run = [&](size_t until) {
    if (until > run) runs.push_back({run, until, -1});
  };
  for (const InlinePart& part : sentence.parts) {
    const std::string_view words = text.substr(part.text_begin, part.text_end - part.text_begin);
    if (part.is_text()) has_words = has_words || has_letter(words);
    if (part.kind != Kind::kFixed) continue;
    ++fixed;
    longest = std::max(longest, words.size());
    end_run(part.text_begin);
    run = part.text_end;
  }
  end_run(text.size());
  if (!has_words && !sentence.has_terms()) return;
  TextRequests& requests = sentence.requests;
  if (has_words && fixed <= kMostFixed && longest <= kLongestShown)
    requests.whole = text_number(text);
  if (fixed > 0) {
    requests.runs = std::move(runs);
    for (TextRequests::Run& one : requests.runs)
      one.text = text_number(text.substr(one.begin, one.end - one.begin));
  }
  std::unordered_map<int, size_t> begins;
  for (const InlinePart& part : sentence.parts) {
    if (part.kind == Kind::kOpen) begins[part.pair] = part.text_begin;
    if (part.kind != Kind::kClose || !begins.contains(part.pair)) continue;
    const TextSpan words = trimmed(text, {begins[part.pair], part.text_end});
    if (words.begin >= words.end || words.end - words.begin == text.size()) continue;
    requests.contents.push_back({part.pair, words.begin, words.end, -1});
  }
  if (requests.contents.size() > kMostPairs) requests.contents.clear();
  for (TextRequests::Content& one : requests.contents)
    one.text = text_number(text.substr(one.begin, one.end - one.begin));
}

// -1: it has no letter, and stays as it is.
int DocumentFlow::text_number(std::string_view text) {
  if (!has_letter(text)) return -1;
  const std::string words = with_single_blanks(text);
  const auto [it, is_new] = numbers_.emplace(words, static_cast<int>(texts_.size()));
  if (is_new) texts_.push_back(words);
  return it->second;
}

}  // namespace tandem
