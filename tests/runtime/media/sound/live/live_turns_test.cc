#include "runtime/media/sound/live/live_turns.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <semaphore>
#include <string>
#include <thread>
#include <vector>

namespace tandem::live_turns_test {
namespace {

using Turn = std::unique_ptr<LiveTurns::Turn>;

TEST(LiveTurns, OneAfterTheOther) {
  LiveTurns turns;
  std::string came;
  const auto ask = [&](char who) { return turns.ask([&, who] { came += who; }); };
  Turn a = ask('a');
  EXPECT_TRUE(a->has_come());
  EXPECT_EQ(came, "") << "whoever asks sees it";
  Turn b = ask('b'), c = ask('c'), d = ask('d');
  EXPECT_FALSE(b->has_come());
  EXPECT_EQ(turns.num_waiting(), 3);
  turns.check_integrity();
  a->begin(1);
  c.reset();  // has lost interest
  EXPECT_EQ(came, "");
  a->end(2);
  a.reset();
  EXPECT_EQ(came, "b");
  EXPECT_TRUE(b->has_come());
  EXPECT_EQ(turns.num_under_way(), 1);
  b.reset();  // nothing was due any more
  EXPECT_EQ(came, "bd");
  turns.check_integrity();
  d->begin(3);
  d->begin(4);  // its sound was cleared: another window
  d.reset();    // which has failed
  EXPECT_EQ(turns.num_under_way(), 0);
  turns.check_integrity();
}

TEST(LiveTurns, ThreadsAskAtOnce) {
  LiveTurns turns;
  std::atomic<int> windows{0};
  const auto session = [&](int number) {
    for (int i = 0; i < 200; ++i) {
      const auto came = std::make_shared<std::binary_semaphore>(0);  // may outlive the turn
      const Turn turn = turns.ask([came] { came->release(); });
      if ((i + number) % 7 == 0 && !turn->has_come()) continue;  // gone, or called meanwhile
      if (!turn->has_come()) came->acquire();
      turn->begin(windows);
      turn->end(++windows);
    }
  };
  std::vector<std::thread> sessions;
  for (int i = 0; i < 4; ++i) sessions.emplace_back(session, i);
  for (std::thread& thread : sessions) thread.join();
  EXPECT_GE(windows, 4 * 200 * 6 / 7 - 4);
  EXPECT_EQ(turns.num_under_way() + turns.num_waiting(), 0);
  turns.check_integrity();
}

// Another one may be under way now and then, so that the costs can be told apart.
TEST(LiveTurns, TriesOneMore) {
  LiveTurns turns;
  int together = 0;
  double now = 0;
  for (int i = 0; i < 400; ++i) {
    Turn a = turns.ask([] {}), b = turns.ask([] {});
    ASSERT_TRUE(a->has_come());
    together += b->has_come();
    turns.check_integrity();
    a->begin(now);
    if (b->has_come()) b->begin(now);
    now += b->has_come() ? 2 : 1;  // the machine is busy with one
    a->end(now);
    if (b->has_come()) b->end(now);
  }
  EXPECT_GE(together, 8);
  EXPECT_LE(together, 40);
}

TEST(WindowSeconds, WhatIsSharedDecides) {
  const auto best = [](double alone, double each, int sessions) {
    WindowSeconds seconds;
    for (int i = 0; i < 100; ++i) {
      const double at_once = 1 + i % 3;
      seconds.add(at_once, alone + each * at_once);
    }
    return seconds.best(sessions);
  };
  EXPECT_EQ(WindowSeconds().best(8), 1);
  EXPECT_EQ(best(0.04, 0.32, 4), 1);
  EXPECT_EQ(best(0.15, 0.01, 8), 8);
  EXPECT_EQ(best(1, 1, 6), 3);
  EXPECT_EQ(best(1, 0, 5), 5) << "engines of their own";
  EXPECT_EQ(best(1, 1, 1), 1);
}

TEST(WindowSeconds, WithoutASpreadNothingChanges) {
  WindowSeconds seconds;
  for (int i = 0; i < 100; ++i) seconds.add(3, 1);
  EXPECT_EQ(seconds.best(8), 3);
  EXPECT_EQ(seconds.best(2), 2);
}

// An engine whose encoders compute one after the other, and whose decoders share steps while no
// encoder computes.
class SimulatedEngine {
 public:
  SimulatedEngine(double encoder, double decoder) : encoder_(encoder), decoder_(decoder) {}
  void add(size_t session, double scale) {
    windows_.push_back({session, encoder_, decoder_ * scale});
  }
  // Seconds until the next window comes back, if no other comes.
  std::optional<double> next() const {
    if (windows_.empty()) return std::nullopt;
    double encoders = 0, least = INFINITY;
    for (const Window& w : windows_) {
      if (w.encoder > 0)
        encoders += w.encoder;
      else
        least = std::min(least, w.decoder);
    }
    if (encoders == 0) return least;
    const auto first = std::find_if(windows_.begin(), windows_.end(),
                                    [](const Window& w) { return w.encoder > 0; });
    return first->encoder;  // or a stage of one
  }
  // Returns the sessions whose windows have come back.
  std::vector<size_t> pass(double seconds) {
    const auto first = std::find_if(windows_.begin(), windows_.end(),
                                    [](const Window& w) { return w.encoder > 0; });
    if (first != windows_.end()) {
      first->encoder = std::max(0.0, first->encoder - seconds);
      if (first->encoder < 1e-9) first->encoder = 0;
      return {};
    }
    std::vector<size_t> ended;
    for (Window& w : windows_) {
      w.decoder -= seconds;
      if (w.decoder < 1e-9) ended.push_back(w.session);
    }
    std::erase_if(windows_, [](const Window& w) { return w.decoder < 1e-9; });
    return ended;
  }

 private:
  struct Window {
    size_t session;
    double encoder, decoder;
  };
  double encoder_, decoder_;
  std::deque<Window> windows_;
};

// Sessions that speak all the time. Mean seconds from a word to the end of the second window that
// has it.
double latency(int sessions, double encoder, double decoder, bool in_turns, uint64_t seed) {
  struct Session {
    Turn turn;
    bool under_way = false;
    std::vector<double> cut, back;  // of its windows
  };
  LiveTurns turns;
  std::vector<Session> all(static_cast<size_t>(sessions));
  SimulatedEngine engine(encoder, decoder);
  std::mt19937_64 random(seed);
  double now = 0;
  while (now < 400) {
    for (size_t i = 0; i < all.size(); ++i) {
      Session& s = all[i];
      if (s.under_way) continue;
      if (in_turns) {
        if (s.turn == nullptr) s.turn = turns.ask([] {});
        if (!s.turn->has_come()) continue;
        s.turn->begin(now);
      }
      s.under_way = true;
      s.cut.push_back(now);
      engine.add(i, std::uniform_real_distribution<>(0.7, 1.3)(random));
    }
    turns.check_integrity();
    const double step = engine.next().value();
    now += step;
    for (const size_t i : engine.pass(step)) {
      all[i].under_way = false;
      all[i].back.push_back(now);
      if (in_turns) all[i].turn->end(now);
      all[i].turn.reset();
    }
  }
  double sum = 0, words = 0;
  for (const Session& s : all)
    for (double word = 100; word < 380; word += 0.37) {
      const auto first =
          static_cast<size_t>(std::lower_bound(s.cut.begin(), s.cut.end(), word) - s.cut.begin());
      if (first + 1 >= s.back.size()) continue;
      sum += s.back[first + 1] - word;
      ++words;
    }
  return sum / words;
}

// Beside windows that are sent as soon as the ones before have come back.
TEST(LiveTurns, WordsAreSettledSooner) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  const auto ratio = [&](int sessions, double encoder, double decoder) {
    return latency(sessions, encoder, decoder, true, seed) /
           latency(sessions, encoder, decoder, false, seed);
  };
  EXPECT_LT(ratio(4, 0.32, 0.04), 0.85) << "a laptop";
  EXPECT_LT(ratio(8, 0.32, 0.04), 0.85);
  EXPECT_LT(ratio(4, 0.2, 0.2), 1.02);
  EXPECT_LT(ratio(8, 0.01, 0.15), 1.1) << "a device";
  EXPECT_LT(ratio(1, 0.3, 0.1), 1.001);
}

}  // namespace
}  // namespace tandem::live_turns_test
