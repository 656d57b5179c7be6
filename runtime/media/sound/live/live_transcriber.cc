#include "runtime/media/sound/live/live_transcriber.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/error.h"

namespace tandem {
namespace {

using News = LiveEvent::Kind;

// A hypothesis that has so much of the silence behind the speech has all of the speech.
constexpr int kSurelySilentMs = 200;
constexpr int kSureOfLanguageMs = 5'000;
// A window is cut no closer to its begin.
constexpr int kLeastCutMs = 1'000;

// The end of a text, from a word on.
std::string end_of(const std::string& text, size_t most) {
  if (text.size() <= most) return text;
  size_t at = text.size() - most;
  while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) ++at;
  const size_t blank = text.find(' ', at);
  return text.substr(blank == std::string::npos ? at : blank);
}

// Whether a phrase is said over and over to the end: the model has lost the sound.
bool repeats_itself(std::string_view text) {
  constexpr size_t kLongest = 16, kTimes = 4;  // words of the phrase
  std::vector<LiveWord> words;
  append_words(text, 0, words);
  const auto key = [&](size_t from_end) -> const std::string& {
    return words[words.size() - 1 - from_end].key;
  };
  for (size_t length = 1; length <= kLongest && length * kTimes <= words.size(); ++length) {
    size_t same = 0;
    while (same + length < words.size() && key(same) == key(same + length)) ++same;
    if (same >= (kTimes - 1) * length) return true;
  }
  return false;
}

}  // namespace

LiveTranscriber::LiveTranscriber(LiveSettings settings, int rate, bool prompts,
                                 MeterFactory make_meter)
    : input_(rate), rate_(input_.rate()), prompts_(prompts), make_meter_(std::move(make_meter)) {
  set(std::move(settings));
}

void LiveTranscriber::set(LiveSettings settings) {
  const bool same = meter_ != nullptr && settings.turns == settings_.turns;
  settings_ = std::move(settings);
  if (same || (!settings_.turns && meter_ == nullptr)) return;
  flush();
  meter_ = settings_.turns ? make_meter_(rate_) : nullptr;
  finder_.reset();
  if (!settings_.turns) return before_.clear();
  finder_.emplace(*settings_.turns);
  // Its silence is not known.
  if (Item* item = open_item()) close(*item);
}

LiveTranscriber::Item* LiveTranscriber::open_item() {
  return items_.empty() || items_.back().closed ? nullptr : &items_.back();
}

void LiveTranscriber::add(std::span<const int16_t> samples) {
  if (input_.changes()) return take_sound(input_.add(samples));
  take_sound(samples);
}

// Of rate().
void LiveTranscriber::take_sound(std::span<const int16_t> samples) {
  if (samples.empty()) return;
  if (meter_ == nullptr) {
    if (open_item() == nullptr) open(heard_);
    return append(samples, /*voiced=*/true);
  }
  unheard_.insert(unheard_.end(), samples.begin(), samples.end());
  std::vector<float> probabilities;
  meter_->add(samples, probabilities);
  const auto window = static_cast<size_t>(samples_of(VoiceMeter::kWindowMs));
  size_t at = 0;
  for (const float p : probabilities) {
    hear(std::span(unheard_).subspan(at, window), p);
    at += window;
  }
  unheard_.erase(unheard_.begin(), unheard_.begin() + static_cast<long>(at));
}

// A window of sound that the meter has heard.
void LiveTranscriber::hear(std::span<const int16_t> window, float probability) {
  const TurnFinder::News news = finder_->add(probability);
  if (news == TurnFinder::News::kBegins) {
    open(heard_ - std::ssize(before_));
    events_.push_back({News::kStarted, items_.back().number, ms_of(items_.back().begin)});
    items_.back().samples.swap(before_);
  }
  if (open_item() == nullptr) {
    before_.insert(before_.end(), window.begin(), window.end());
    const int64_t more = std::ssize(before_) - samples_of(settings_.turns->prefix_padding_ms);
    if (more > 0) before_.erase(before_.begin(), before_.begin() + more);
    heard_ += std::ssize(window);
    return;
  }
  append(window, finder_->voiced());
  if (news != TurnFinder::News::kEnds || open_item() == nullptr) return;
  events_.push_back({News::kStopped, items_.back().number, ms_of(heard_)});
  close(items_.back());
}

void LiveTranscriber::open(int64_t begin) {
  Item& item = items_.emplace_back();
  item.number = next_item_++;
  item.first = item.begin = item.spoken_to = item.asked_to = item.taken_to = begin;
}

// To the open item.
void LiveTranscriber::append(std::span<const int16_t> samples, bool voiced) {
  while (!samples.empty()) {
    if (open_item() == nullptr) open(heard_);  // without turns: the one before was long enough
    Item& item = items_.back();
    const auto room = static_cast<size_t>(samples_of(kItemMs) - (item.end() - item.first));
    const auto some = samples.first(std::min(samples.size(), room));
    item.samples.insert(item.samples.end(), some.begin(), some.end());
    heard_ += std::ssize(some);
    samples = samples.subspan(some.size());
    if (voiced) item.spoken_to = item.end();
    if (item.failed) forget(item);
    if (item.end() - item.first < samples_of(kItemMs)) continue;
    close(item);
    if (!finder_) continue;
    heard_ += std::ssize(samples);  // until speech begins
    return;
  }
}

void LiveTranscriber::close(Item& item) {
  item.closed = true;
  if (finder_) finder_->end();
  events_.push_back({News::kCommitted, item.number});
  complete_what_is_done();
}

// Sound that nobody has judged goes to the item that is open.
void LiveTranscriber::flush() {
  const std::vector<int16_t> rest = std::exchange(unheard_, {});
  if (rest.empty()) return;
  if (open_item() != nullptr)
    append(rest, /*voiced=*/true);
  else
    heard_ += std::ssize(rest);
  // The meter goes on with windows of its own.
  if (meter_ != nullptr) meter_ = make_meter_(rate_);
}

bool LiveTranscriber::commit() {
  if (input_.changes()) take_sound(input_.finish());
  Item* item = open_item();
  const int64_t there = item == nullptr ? 0 : item->end() - item->first + std::ssize(unheard_);
  if (there < samples_of(kLeastMs)) return false;
  flush();
  if ((item = open_item()) != nullptr) close(*item);
  return true;
}

void LiveTranscriber::clear() {
  if (input_.changes()) heard_ += std::ssize(input_.finish());
  heard_ += std::ssize(unheard_);
  unheard_.clear();
  before_.clear();
  if (meter_ != nullptr) meter_ = make_meter_(rate_);
  if (finder_) finder_.emplace(*settings_.turns);
  if (open_item() == nullptr) return;
  if (items_.size() == 1) {
    under_way_.reset();
    remember(items_.front().words.text_to(items_.front().words.num_settled()));
  }
  items_.pop_back();
}

void LiveTranscriber::finish() {
  if (!commit()) clear();
}

bool LiveTranscriber::due(const Item& item) const {
  if (item.failed || (!item.closed && item.end() < item.not_before)) return false;
  const int64_t step = samples_of(kStepMs);
  // More than one window holds: what is there does not change.
  if (item.closed || item.end() - item.begin >= samples_of(kWindowMs))
    return item.taken_to < item.end();
  if (item.spoken_to - item.asked_to >= step) return true;
  const int64_t sure = item.spoken_to + samples_of(kSurelySilentMs);
  return item.asked_to < sure && item.end() >= sure && item.spoken_to > item.begin;
}

bool LiveTranscriber::has_window() {
  complete_what_is_done();
  return !under_way_ && !items_.empty() && due(items_.front());
}

std::optional<LiveWindow> LiveTranscriber::next() {
  if (!has_window()) return std::nullopt;
  Item& item = items_.front();
  LiveWindow window;
  window.number = next_window_++;
  const int64_t length = std::min(std::ssize(item.samples), samples_of(kWindowMs));
  window.samples.assign(item.samples.begin(), item.samples.begin() + length);
  window.language = settings_.language.empty() ? item.language : settings_.language;
  if (prompts_) {
    window.prompt = settings_.prompt;
    if (!window.prompt.empty() && !said_.empty() && said_.front() != ' ') window.prompt += ' ';
    window.prompt += said_;
  }
  under_way_ = window.number;
  under_way_to_ = item.asked_to = item.begin + length;
  return window;
}

void LiveTranscriber::take(int number, const LiveHypothesis& hypothesis) {
  if (under_way_ != number) return;
  under_way_.reset();
  Item& item = items_.front();
  const int64_t length = under_way_to_ - item.begin;
  // A prompt may bring that about: the window is asked for again without what was said before.
  std::string heard;
  for (const LiveSegment& segment : hypothesis.segments) heard += segment.text;
  if (!said_.empty() && repeats_itself(heard)) {
    said_.clear();
    item.asked_to = item.taken_to;
    return;
  }
  item.taken_to = under_way_to_;
  if (!hypothesis.language.empty() && length >= samples_of(kSureOfLanguageMs))
    item.language = hypothesis.language;
  std::string text = settle(item, hypothesis, length);
  if (!item.closed || !is_done(item)) return say(item, std::move(text));
  complete_front(std::move(text));
  complete_what_is_done();
}

// Text that is new; says it, and what may follow it.
void LiveTranscriber::say(Item& item, std::string text) {
  if (item.text.empty()) text.erase(0, text.find_first_not_of(" \t\r\n"));
  std::string partial = item.words.partial();
  if (item.text.empty() && text.empty()) partial.erase(0, partial.find_first_not_of(" \t\r\n"));
  if (text.empty() && partial == item.partial) return;
  item.text += text;
  item.partial = partial;
  events_.push_back({News::kText, item.number, 0, std::move(text), std::move(partial)});
}

// Returns the text that the hypothesis settles.
std::string LiveTranscriber::settle(Item& item, const LiveHypothesis& hypothesis, int64_t length) {
  const auto& segments = hypothesis.segments;
  std::vector<LiveWord> words;
  for (size_t i = 0; i < segments.size(); ++i) append_words(segments[i].text, i, words);
  // Where segment i ends; nothing: that is no place to cut.
  const auto place = [&](size_t i) -> std::optional<int64_t> {
    const double seconds = segments[i].end;
    const double at = std::isfinite(seconds) ? std::clamp(seconds, 0.0, 1e6) * rate_ : 0;
    if (at < static_cast<double>(samples_of(kLeastCutMs))) return std::nullopt;
    return std::min<int64_t>(std::llround(at), length);
  };
  const auto words_to = [&](size_t i) {
    return static_cast<size_t>(std::count_if(words.begin(), words.end(),
                                             [i](const LiveWord& w) { return w.segment <= i; }));
  };
  const bool full = length >= samples_of(kWindowMs);
  size_t last = segments.size();  // of a full window: the segment that ends it
  if (full && segments.size() > 1 && place(segments.size() - 2)) last = segments.size() - 2;
  const bool whole = full && last == segments.size();  // there is no place: all of it is settled
  std::string text = item.words.take(words, full ? (whole ? words.size() : words_to(last)) : 0);
  if (full || length >= samples_of(kCutFromMs)) {
    // Behind the last segment whose words are all settled. The last one may grow yet.
    std::optional<size_t> best;
    for (size_t i = 0; i + 1 < segments.size(); ++i)
      if (place(i) && words_to(i) <= item.words.num_settled()) best = i;
    if (whole) {
      remember(item.words.text_to(item.words.heard().size()));
      text += item.words.finish();
      cut(item, length);
    } else if (best) {
      remember(item.words.text_to(words_to(*best)));
      text += item.words.cut(*best);
      cut(item, *place(*best));
    }
  }
  return text;
}

// The window begins so many samples later.
void LiveTranscriber::cut(Item& item, int64_t samples) {
  item.samples.erase(item.samples.begin(), item.samples.begin() + samples);
  item.begin += samples;
  item.asked_to = std::max(item.asked_to, item.begin);
  item.taken_to = std::max(item.taken_to, item.begin);
  item.spoken_to = std::max(item.spoken_to, item.begin);
}

void LiveTranscriber::complete_what_is_done() {
  while (!items_.empty() && items_.front().closed && !under_way_) {
    Item& item = items_.front();
    if (item.failed) {
      items_.pop_front();
      continue;
    }
    if (!is_done(item)) return;
    complete_front({});
  }
}

// Of a closed item: the last hypothesis had all of its speech.
bool LiveTranscriber::is_done(const Item& item) const {
  // (Less than that is no word.)
  if (item.end() - item.begin < samples_of(kLeastMs)) return true;
  return item.taken_to >= std::min(item.spoken_to + samples_of(kSurelySilentMs), item.end());
}

// text: what has been settled last.
void LiveTranscriber::complete_front(std::string text) {
  Item& item = items_.front();
  remember(item.words.text_to(item.words.heard().size()));
  text += item.words.finish();
  say(item, std::move(text));
  events_.push_back({News::kCompleted, item.number, ms_of(item.end() - item.first), item.text});
  items_.pop_front();
}

void LiveTranscriber::fail(int number, const proto::Error& error) {
  if (under_way_ != number) return;
  under_way_.reset();
  Item& item = items_.front();
  const bool passes = error.type() == api_name(ErrorKind::kOverloaded);
  if (passes && !item.closed && item.end() - item.begin < 2 * samples_of(kWindowMs)) {
    item.not_before = item.end() + samples_of(kStepMs);
    return;
  }
  events_.push_back({News::kFailed, item.number, 0, {}, {}, error});
  item.failed = true;
  item.words = {};
  forget(item);
  complete_what_is_done();
}

// The sound of an item that has failed.
void LiveTranscriber::forget(Item& item) {
  item.begin = item.end();
  item.samples.clear();
  item.spoken_to = item.asked_to = item.taken_to = item.begin;
}

void LiveTranscriber::remember(const std::string& text) {
  said_ = end_of(said_ + text, kPromptBytes);
  if (repeats_itself(said_)) said_.clear();  // else it would go on
}

double LiveTranscriber::seconds_waiting() const {
  size_t samples = unheard_.size();
  for (const Item& item : items_) samples += item.samples.size();
  return static_cast<double>(samples) / rate_;
}

void LiveTranscriber::check_integrity() const {
  TANDEM_CHECK(!under_way_ || !items_.empty());
  TANDEM_CHECK(said_.size() <= kPromptBytes);
  TANDEM_CHECK((meter_ != nullptr) == settings_.turns.has_value());
  TANDEM_CHECK(finder_.has_value() == settings_.turns.has_value());
  int64_t at = 0;
  for (size_t i = 0; i < items_.size(); ++i) {
    const Item& item = items_[i];
    TANDEM_CHECK(item.closed || i + 1 == items_.size(), "an item goes on before the last one");
    TANDEM_CHECK(at <= item.first && item.first <= item.begin);
    TANDEM_CHECK(item.begin <= item.taken_to && item.taken_to <= item.asked_to);
    TANDEM_CHECK(item.asked_to <= item.end() && item.begin <= item.spoken_to);
    TANDEM_CHECK(item.spoken_to <= item.end());
    TANDEM_CHECK(i == 0 || item.asked_to == item.first, "items are transcribed in their order");
    at = item.end();
    item.words.check_integrity();
  }
  TANDEM_CHECK(at <= heard_);
  if (under_way_) TANDEM_CHECK_EQ(under_way_to_, items_.front().asked_to);
  if (finder_ && !items_.empty()) TANDEM_CHECK_EQ(finder_->speaking(), !items_.back().closed);
}

}  // namespace tandem
