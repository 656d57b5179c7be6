// Ends of sequences (stop_rules.h).
#include "runtime/sampling/stop_rules.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace tandem {

namespace {

bool contains(const auto& ids, int32_t id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

}  // namespace

bool eos_is_forced(const proto::SamplingParams& params, int64_t output_len) {
  return !params.forced_eos_token_id().empty() && output_len == params.max_tokens();
}

StopDecision check_stop(const proto::SamplingParams& params, int32_t token, int output_len) {
  if (eos_is_forced(params, output_len)) return {SequenceStatus::kFinishedLength, ""};
  if (!params.ignore_eos() && contains(params.eos_token_id(), token))
    return {SequenceStatus::kFinishedStopped, ""};
  if (output_len >= params.min_tokens_stop() && contains(params.stop_token_ids(), token))
    return {SequenceStatus::kFinishedStopped, std::to_string(token)};
  if (output_len >= params.max_tokens()) return {SequenceStatus::kFinishedLength, ""};
  return {};
}

StopStringMatcher::StopStringMatcher(std::vector<std::string> stops, bool include)
    : include_(include) {
  for (std::string& stop : stops) {
    TANDEM_CHECK(!stop.empty());
    Automaton automaton{std::move(stop), {}, 0};
    const std::string& text = automaton.text;
    automaton.failure.assign(text.size() + 1, 0);
    for (size_t i = 1, border = 0; i < text.size(); ++i) {
      while (border > 0 && text[i] != text[border]) border = automaton.failure[border];
      if (text[i] == text[border]) ++border;
      automaton.failure[i + 1] = static_cast<uint32_t>(border);
    }
    automata_.push_back(std::move(automaton));
  }
}

StopStringMatcher::StopStringMatcher(const proto::SamplingParams& params)
    : StopStringMatcher({params.stop().begin(), params.stop().end()},
                        params.include_stop_str_in_output()) {}

bool StopStringMatcher::Automaton::step(char c) {
  while (matched > 0 && (matched == text.size() || text[matched] != c)) matched = failure[matched];
  if (text[matched] == c) ++matched;
  return matched == text.size();
}

std::string StopStringMatcher::release(size_t bytes) {
  std::string out = held_.substr(0, bytes);
  held_.erase(0, bytes);
  emitted_ += out.size();
  return out;
}

// held_ ends with the match.
void StopStringMatcher::stop_at(const Automaton& match) {
  stopped_ = true;
  stop_string_ = match.text;
  if (!include_) held_.resize(held_.size() - match.text.size());
}

std::string StopStringMatcher::append(std::string_view piece, bool may_stop) {
  if (stopped_) return "";
  if (automata_.empty()) {
    emitted_ += piece.size();
    return std::string(piece);
  }
  for (const char c : piece) {
    held_ += c;
    const Automaton* match = nullptr;
    for (Automaton& automaton : automata_)
      if (automaton.step(c) && (!match || automaton.text.size() > match->text.size()))
        match = &automaton;
    if (match && may_stop) {
      stop_at(*match);
      return release(held_.size());
    }
  }
  // What could still become a match: the longest proper prefix of a stop string.
  size_t keep = 0;
  for (const Automaton& a : automata_)
    keep = std::max<size_t>(keep, a.matched == a.text.size() ? a.failure[a.matched] : a.matched);
  return release(held_.size() - keep);
}

std::string StopStringMatcher::finish() { return stopped_ ? "" : release(held_.size()); }

void TokenStopMatcher::append(std::string text) {
  size_t longest = 0;
  for (const std::string& stop : stops_) longest = std::max(longest, stop.size());
  texts_.push_back(std::move(text));
  while (texts_.size() > longest) texts_.pop_front();
}

const std::string* TokenStopMatcher::match() const {
  for (const std::string& stop : stops_)
    if (!texts_.empty() && ends(stop)) return &stop;
  return nullptr;
}

// The end of the string lies in the last token, which goes on or begins before it.
bool TokenStopMatcher::ends(const std::string& stop) const {
  const std::string& last = texts_.back();
  for (size_t end = 1; end <= last.size(); ++end) {
    const size_t matched = std::min(end, stop.size());
    if (last.compare(end - matched, matched, stop, stop.size() - matched, matched) == 0 &&
        continues(stop, matched))
      return true;
  }
  return false;
}

// Backwards from the token before the last; `matched` bytes at the string's end are there. Only the
// first token of a match may begin before the string.
bool TokenStopMatcher::continues(const std::string& stop, size_t matched) const {
  for (auto text = texts_.rbegin() + 1; matched < stop.size(); ++text) {
    if (text == texts_.rend()) return false;
    const size_t rest = stop.size() - matched, common = std::min(rest, text->size());
    if (text->compare(text->size() - common, common, stop, rest - common, common) != 0)
      return false;
    matched += text->size();
  }
  return true;
}

}  // namespace tandem
