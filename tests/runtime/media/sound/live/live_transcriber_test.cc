// The policy of live transcription over simulated speech, in virtual time.
#include "runtime/media/sound/live/live_transcriber.h"

#include <gtest/gtest.h>

#include <map>

#include "base/error.h"
#include "tests/runtime/media/sound/live/spoken_words.h"

namespace tandem::live_transcriber_test {
namespace {

using Kind = LiveEvent::Kind;
using test::any;
using test::Speech;

std::string without(std::string text, char c) {
  text.erase(std::remove(text.begin(), text.end(), c), text.end());
  return text;
}

// What a client makes of the events, and whether they are in order.
struct Client {
  struct Item {
    bool started = false, stopped = false, committed = false, ended = false;
    std::string text, partial;
  };
  std::map<int64_t, Item> items;
  std::string transcript;
  int failed = 0;
  int64_t last_ended = -1;

  void take(const LiveEvent& event) {
    Item& item = items[event.item];
    const bool of_sound = event.kind == Kind::kStopped || event.kind == Kind::kCommitted;
    EXPECT_TRUE(!item.ended || of_sound);
    switch (event.kind) {
      case Kind::kStarted: EXPECT_FALSE(std::exchange(item.started, true)); break;
      case Kind::kStopped: EXPECT_TRUE(item.started && !std::exchange(item.stopped, true)); break;
      case Kind::kCommitted: EXPECT_FALSE(std::exchange(item.committed, true)); break;
      case Kind::kText:
        item.text += event.text;
        item.partial = event.partial;
        break;
      case Kind::kCompleted:
        EXPECT_TRUE(item.committed);
        EXPECT_EQ(item.text, event.text) << "the settled texts are all of it";
        EXPECT_EQ(item.partial, "");
        if (!event.text.empty()) transcript += (transcript.empty() ? "" : " ") + event.text;
        [[fallthrough]];
      case Kind::kFailed:
        failed += event.kind == Kind::kFailed;
        item.ended = true;
        EXPECT_LT(last_ended, event.item);
        last_ended = event.item;
    }
  }
};

struct Simulation {
  struct Options {
    bool turns = true, times = true;
    double slips = 0;
    int64_t least_delay = 50, most_delay = 400;  // of the engine
    bool at_once = false;                        // all sound is there from the beginning
    double failures = 0;                         // overload
  };
  Simulation(Speech s, uint32_t seed, Options o)
      : speech(std::move(s)),
        options(o),
        random(seed),
        live(settings(), test::kSpokenRate, true,
             [](int) { return std::make_unique<test::SpokenMeter>(); }) {}

  LiveSettings settings() const {
    LiveSettings out;
    if (!options.turns) out.turns.reset();
    return out;
  }

  void run() {
    size_t given = 0;
    while (given < speech.samples.size() || under_way) {
      const int64_t next_sound = options.at_once ? now : static_cast<int64_t>(given) + piece;
      if (under_way && (answer_at <= next_sound || given == speech.samples.size())) {
        now = std::max(now, answer_at);
        answer();
      } else {
        now = std::max(now, next_sound);
        const auto some =
            std::min<size_t>(static_cast<size_t>(piece), speech.samples.size() - given);
        live.add(std::span(speech.samples).subspan(given, some));
        given += some;
        piece = any(random, 1, 300);
        if (given == speech.samples.size()) live.finish();
      }
      pump();
    }
    EXPECT_TRUE(live.idle());
  }

  void answer() {
    const LiveWindow window = std::move(*under_way);
    under_way.reset();
    if (std::bernoulli_distribution(options.failures)(random)) {
      proto::Error error;
      error.set_type(api_name(ErrorKind::kOverloaded));
      return live.fail(window.number, error);
    }
    live.take(window.number, test::hear_window(window, random, options.slips, options.times));
  }

  void pump() {
    live.check_integrity();
    for (const LiveEvent& event : live.events()) {
      client.take(event);
      const std::string text = without(event.text, ',');
      for (size_t at = text.find('w'); event.kind == Kind::kText && at != text.npos;
           at = text.find('w', at + 1))
        settled_at[std::stoi(text.substr(at + 1))] = now;
    }
    auto window = live.next();
    live.check_integrity();
    if (!window) return;
    EXPECT_FALSE(under_way) << "a second window";
    EXPECT_LE(std::ssize(window->samples), LiveTranscriber::kWindowMs);
    EXPECT_LE(window->prompt.size(), LiveTranscriber::kPromptBytes);
    under_way = std::move(window);
    answer_at = now + any(random, options.least_delay, options.most_delay);
    ++windows;
  }

  Speech speech;
  Options options;
  std::mt19937 random;
  LiveTranscriber live;
  Client client;
  std::optional<LiveWindow> under_way;
  int64_t now = 0, answer_at = 0, piece = 20;
  int windows = 0;
  std::map<int, int64_t> settled_at;  // words
};

// Every word once, in order, and soon.
TEST(LiveTranscriber, SettlesEachWordOnce) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 60; ++round) {
    Simulation s(test::make_speech(random, 5, round % 3 == 0 ? 150 : 15), random(), {});
    s.run();
    ASSERT_EQ(without(s.client.transcript, ','), s.speech.text());
    EXPECT_EQ(s.client.items.size(), 5u);
    std::vector<int64_t> delays;
    for (const test::SpokenWord& word : s.speech.words)
      delays.push_back(s.settled_at.at(word.number) - word.end);
    std::sort(delays.begin(), delays.end());
    EXPECT_LE(delays[delays.size() / 2], 2000);
    EXPECT_LE(delays.back(), 3500);
    const auto most = std::ssize(s.speech.samples) / LiveTranscriber::kStepMs + 3 * 5;
    EXPECT_LE(s.windows, most) << "windows are not asked for without new sound";
  }
}

TEST(LiveTranscriber, AnEngineThatIsSlow) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 40; ++round) {
    Simulation s(test::make_speech(random, 3, 200), random(),
                 {.turns = round % 2 == 0, .least_delay = 1000, .most_delay = 15000});
    s.run();
    EXPECT_EQ(without(s.client.transcript, ','), s.speech.text());
  }
}

TEST(LiveTranscriber, SoundThatIsThereAtOnce) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 40; ++round) {
    Simulation s(test::make_speech(random, 3, 200), random(),
                 {.turns = round % 2 == 0, .at_once = true});
    s.run();
    EXPECT_EQ(without(s.client.transcript, ','), s.speech.text());
  }
}

// What is said wrongly once in a while, models that say no times, overload: nothing is taken back,
// whatever is heard, and it comes to an end.
TEST(LiveTranscriber, HypothesesThatDiffer) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 80; ++round) {
    Simulation s(test::make_speech(random, 3, 120), random(),
                 {.turns = round % 2 == 0,
                  .times = round % 3 != 0,
                  .slips = 0.2,
                  .most_delay = 3000,
                  .at_once = round % 5 == 0,
                  .failures = round % 7 == 0 ? 0.3 : 0});
    s.run();
    const auto words = std::ranges::count(s.client.transcript, ' ') + 1;
    if (s.client.failed == 0) {
      EXPECT_NEAR(static_cast<double>(words), static_cast<double>(s.speech.words.size()),
                  3 + static_cast<double>(s.speech.words.size()) / 5);
    }
  }
}

// Whatever a client does in between.
TEST(LiveTranscriber, CommitsAndClears) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  for (int round = 0; round < 100; ++round) {
    std::mt19937 random(seed + static_cast<uint32_t>(round));
    Simulation s(test::make_speech(random, 4, 30), random(), {.turns = round % 2 == 0});
    for (size_t at = 0; at < s.speech.samples.size();) {
      const auto some =
          std::min<size_t>(static_cast<size_t>(any(random, 1, 2000)), s.speech.samples.size() - at);
      s.live.add(std::span(s.speech.samples).subspan(at, some));
      at += some;
      LiveSettings settings = s.live.settings();
      switch (any(random, 0, 9)) {
        case 0: s.live.commit(); break;
        case 1: s.live.clear(); break;
        case 2:
          if (!settings.turns.has_value())
            settings.turns = TurnOptions{.silence_duration_ms = 300};
          else
            settings.turns.reset();
          s.live.set(settings);
          break;
        case 3:
          if (!s.under_way) break;
          s.live.fail(s.under_way->number, {});
          s.under_way.reset();
          break;
        default: break;
      }
      s.live.check_integrity();
      if (s.under_way && any(random, 0, 2) > 0) s.answer();
      if (auto window = s.live.next()) {
        s.under_way = std::move(window);  // (clear() forgets one)
      }
      for (const LiveEvent& event : s.live.events()) s.client.take(event);
    }
    s.live.finish();
    for (int i = 0; i < 1000 && !s.live.idle(); ++i) {
      if (s.under_way) s.answer();
      s.live.check_integrity();
      if (auto window = s.live.next()) s.under_way = std::move(window);
    }
    EXPECT_TRUE(s.live.idle());
    EXPECT_EQ(s.live.seconds_waiting(), 0);
  }
}

LiveTranscriber without_turns() {
  LiveSettings settings;
  settings.turns.reset();
  settings.prompt = "Names.";
  return LiveTranscriber(settings, test::kSpokenRate, true, nullptr);
}

TEST(LiveTranscriber, TooLittleToCommit) {
  LiveTranscriber live = without_turns();
  EXPECT_FALSE(live.commit());
  live.add(std::vector<int16_t>(99, 1));
  EXPECT_FALSE(live.commit());
  live.add(std::vector<int16_t>(1, 1));
  EXPECT_TRUE(live.commit());
  EXPECT_FALSE(live.commit());
  const auto window = live.next();
  ASSERT_TRUE(window);
  EXPECT_EQ(window->samples.size(), 100u);
  EXPECT_EQ(window->prompt, "Names.");
  live.take(window->number, {.language = "", .segments = {{" Hello, there.", 0, 0.1}}});
  auto events = live.events();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[1].text, "Hello, there.");
  EXPECT_EQ(events[2].text, "Hello, there.");
  live.add(std::vector<int16_t>(600, 1));
  EXPECT_EQ(live.next()->prompt, "Names. Hello, there.");
}

TEST(LiveTranscriber, SoundOfARateWithoutWholeWindows) {
  LiveSettings settings;
  settings.turns.reset();
  LiveTranscriber live(settings, 44100, true, nullptr);
  EXPECT_EQ(live.rate(), 16000);
  live.add(std::vector<int16_t>(4000, 100));
  EXPECT_FALSE(live.commit());
  live.clear();
  live.add(std::vector<int16_t>(4410, 100));
  EXPECT_TRUE(live.commit()) << "the last samples count";
  const auto window = live.next();
  ASSERT_TRUE(window);
  EXPECT_EQ(window->samples.size(), 1600u);
  EXPECT_EQ(window->samples[800], 100);
  live.take(window->number, {});
  EXPECT_EQ(live.events().back().ms, 100);
  live.check_integrity();
}

// A model that has lost the sound says a phrase over and over, and goes on where that is its
// prompt.
TEST(LiveTranscriber, WhatRepeatsItselfIsNoPrompt) {
  const auto say = [](LiveTranscriber& live, const std::string& text) {
    const auto window = live.next();
    ASSERT_TRUE(window);
    live.take(window->number, {.language = "", .segments = {{text, 0, 0.6}}});
    live.check_integrity();
  };
  std::string loop;
  for (int i = 0; i < 6; ++i) loop += " You can't.";
  loop += " You";
  LiveTranscriber live = without_turns();
  live.add(std::vector<int16_t>(600, 1));
  live.commit();
  say(live, " Hello, there.");
  live.add(std::vector<int16_t>(600, 1));
  live.commit();
  live.events();
  say(live, loop);
  EXPECT_TRUE(live.events().empty()) << "not believed";
  auto again = live.next();
  ASSERT_TRUE(again) << "without what was said before";
  EXPECT_EQ(again->prompt, "Names.");
  EXPECT_EQ(again->samples.size(), 600u);
  live.take(again->number, {.language = "", .segments = {{" World.", 0, 0.6}}});
  EXPECT_EQ(live.events().back().text, "World.");
  // Where there was none it is taken, but is nobody's prompt.
  LiveTranscriber other = without_turns();
  other.add(std::vector<int16_t>(600, 1));
  other.commit();
  say(other, loop);
  EXPECT_EQ(other.events().back().kind, Kind::kCompleted);
  other.add(std::vector<int16_t>(600, 1));
  EXPECT_EQ(other.next()->prompt, "Names.");
}

TEST(LiveTranscriber, AnErrorEndsTheItem) {
  LiveTranscriber live = without_turns();
  live.add(std::vector<int16_t>(600, 1));
  proto::Error error;
  error.set_type("invalid_request_error");
  live.fail(live.next()->number, error);
  auto events = live.events();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, Kind::kFailed);
  live.add(std::vector<int16_t>(5000, 1));
  EXPECT_FALSE(live.next()) << "its sound is of no use";
  EXPECT_EQ(live.seconds_waiting(), 0);
  EXPECT_TRUE(live.commit());
  EXPECT_TRUE(live.idle());
  live.add(std::vector<int16_t>(600, 1));
  EXPECT_TRUE(live.next()) << "the next item has another chance";
  live.check_integrity();
}

TEST(LiveTranscriber, AnItemHasAnEnd) {
  LiveTranscriber live = without_turns();
  const std::vector<int16_t> minute(60'000, 1);
  for (int i = 0; i < 31; ++i) {
    live.add(minute);
    while (const auto window = live.next()) live.take(window->number, {});
    live.check_integrity();
    EXPECT_LE(live.seconds_waiting(), 60);
  }
  int committed = 0;
  for (const LiveEvent& event : live.events()) committed += event.kind == Kind::kCommitted;
  EXPECT_EQ(committed, 1);
  EXPECT_FALSE(live.idle());
}

}  // namespace
}  // namespace tandem::live_transcriber_test
