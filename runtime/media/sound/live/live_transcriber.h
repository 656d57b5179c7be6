// Live sound → text as it is said. A plain state machine without I/O, threads or a clock. add()
// takes sound. The caller sends the windows of next() to an engine, and hands the hypotheses to
// take(). events() returns the news.
//
// A turn of speech is an item. Its sound is transcribed again and again while it grows; words that
// two hypotheses in a row agree on are settled (word_agreement.h). The window is cut where all
// words before are settled, so it stays short, and what was said before is the prompt. A new
// hypothesis is asked for when the one before has come back and enough new sound is there.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/media/sound/live/live_rate.h"
#include "runtime/media/sound/live/turn_finder.h"
#include "runtime/media/sound/live/voice_meter.h"
#include "runtime/media/sound/live/word_agreement.h"
#include "runtime/protocol/tandem.pb.h"

namespace tandem {

struct LiveSettings {
  std::optional<TurnOptions> turns = TurnOptions();  // nothing: an item ends with commit() only
  std::string language;                              // "": each item's is found out
  std::string prompt;                                // said before all
  bool operator==(const LiveSettings&) const = default;
};

// Sound to be transcribed.
struct LiveWindow {
  int number = 0;
  std::vector<int16_t> samples;
  std::string language, prompt;  // "": none
};

// What is said in a window: texts and their times, in seconds from the window's begin.
struct LiveSegment {
  std::string text;
  double start = 0, end = 0;
};
struct LiveHypothesis {
  std::string language;  // its token, or ""
  std::vector<LiveSegment> segments;
};

struct LiveEvent {
  enum class Kind : uint8_t {
    kStarted,    // a turn of speech: `ms` of the sound
    kStopped,    // the same: its end
    kCommitted,  // the item gets no more sound
    kText,       // `text` is settled; `partial` may follow it
    kCompleted,  // `text` is all of it, and `ms` how long its sound is
    kFailed,     // `error`; no more of the item's text comes
  };
  Kind kind;
  int64_t item = 0;  // in their order, from 0
  int64_t ms = 0;
  std::string text = {}, partial = {};
  proto::Error error = {};
};

class LiveTranscriber {
 public:
  static constexpr int kLeastMs = 100;             // sound that can be committed
  static constexpr int kStepMs = 500;              // new sound between two hypotheses
  static constexpr int kWindowMs = 28'000;         // the longest window
  static constexpr int kCutFromMs = 8'000;         // a longer one is cut where that can be
  static constexpr int kItemMs = 30 * 60 * 1'000;  // an item that is longer ends
  static constexpr size_t kPromptBytes = 200;      // of what was said before

  // Makes what finds speech in sound of that rate, each time that turns are asked for.
  using MeterFactory = std::function<std::unique_ptr<VoiceMeter>(int rate)>;
  // rate: of the samples that come. prompts: whether the model takes texts that were said before.
  LiveTranscriber(LiveSettings settings, int rate, bool prompts, MeterFactory make_meter);

  // For what comes from now on. A turn that goes on stays open.
  void set(LiveSettings settings);
  const LiveSettings& settings() const { return settings_; }
  // Of the windows' samples.
  int rate() const { return rate_; }

  void add(std::span<const int16_t> samples);
  // Ends the item that goes on; false: there is less than kLeastMs of it.
  bool commit();
  // Forgets sound that is in no committed item. What was settled of it stays said.
  void clear();
  // The same as commit(), and sound that is too short for it is forgotten.
  void finish();

  // Whether next() has one.
  bool has_window();
  // The next window; nothing: none is due, or one is under way.
  std::optional<LiveWindow> next();
  // Of the window under way. Answers of a window that clear() has forgotten are ignored.
  void take(int number, const LiveHypothesis& hypothesis);
  // Overload passes, and the window is asked for again when there is more sound; another error ends
  // the item.
  void fail(int number, const proto::Error& error);

  // What has happened since the last call, in order.
  std::vector<LiveEvent> events() { return std::exchange(events_, {}); }
  // All items are completed, or have failed.
  bool idle() const { return items_.empty(); }
  // Of sound that is kept.
  double seconds_waiting() const;
  void check_integrity() const;

 private:
  struct Item {
    int64_t number = 0;
    int64_t first = 0, begin = 0;  // samples of the sound: of the item, and of the window
    std::vector<int16_t> samples;  // from `begin` on
    int64_t spoken_to = 0;         // behind the last sound that may be speech
    int64_t asked_to = 0;          // what windows that were sent had
    int64_t taken_to = 0;          // and those that have come back
    int64_t not_before = 0;        // a window is sent when the sound is that long
    bool closed = false, failed = false;
    std::string language;  // once it is certain
    WordAgreement words;
    std::string text, partial;  // settled, and not settled, as they were said

    int64_t end() const { return begin + std::ssize(samples); }
  };

  int64_t samples_of(int64_t ms) const { return ms * rate_ / 1000; }
  int64_t ms_of(int64_t samples) const { return samples * 1000 / rate_; }
  void take_sound(std::span<const int16_t> samples);
  Item* open_item();
  void hear(std::span<const int16_t> window, float probability);
  void open(int64_t begin);
  void append(std::span<const int16_t> samples, bool voiced);
  void close(Item& item);
  void flush();
  bool due(const Item& item) const;
  void say(Item& item, std::string text);
  std::string settle(Item& item, const LiveHypothesis& hypothesis, int64_t length);
  void cut(Item& item, int64_t samples);
  bool is_done(const Item& item) const;
  void complete_front(std::string text);
  void forget(Item& item);
  void remember(const std::string& text);
  void complete_what_is_done();

  LiveSettings settings_;
  LiveRate input_;
  const int rate_;  // of everything behind it
  const bool prompts_;
  const MeterFactory make_meter_;
  std::unique_ptr<VoiceMeter> meter_;  // while there are turns
  std::optional<TurnFinder> finder_;
  std::vector<int16_t> unheard_;  // sound whose windows the meter has not completed
  std::vector<int16_t> before_;   // the last sound that is in no item
  int64_t heard_ = 0;             // samples that are in an item, in before_, or forgotten
  std::deque<Item> items_;        // the last one may be open
  int64_t next_item_ = 0;
  int next_window_ = 0;
  std::optional<int> under_way_;  // the number of the first item's window
  int64_t under_way_to_ = 0;      // its end
  std::string said_;              // the last of the text before the first item's window
  std::vector<LiveEvent> events_;
};

}  // namespace tandem
