// WaitingLine: who is next, case by case and at random; then a simulated server under overload,
// whose figures docs/serving.md has.

#include "runtime/engine/core/waiting_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "tests/support/engine/waiting_room.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using testing_support::Crowd;
using testing_support::WaitingRoom;

class WaitingLineTest : public ::testing::Test {
 protected:
  struct Options {
    int priority = 0;
    double timeout = 0;
    bool begun = false;
  };
  LinePlace& come(double arrival, const Options& options) {
    LinePlace& place = places_.emplace_back();
    place.arrival = arrival;
    place.serial = places_.size();
    place.priority = options.priority;
    place.timeout = options.timeout;
    place.begun = options.begun;
    place.work = 1;
    line.add(place);
    line.check_integrity();
    return place;
  }
  LinePlace& come(double arrival) { return come(arrival, Options()); }
  // In the order in which they are taken at that time, by their arrival.
  std::vector<double> order(double now) {
    std::vector<double> out;
    while (LinePlace* place = line.first(now)) {
      line.take(*place);
      line.check_integrity();
      out.push_back(place->arrival);
    }
    return out;
  }
  // Ten a second leave after so many seconds; each takes a second to be served.
  double learn(double patience, double now = 0) {
    std::deque<std::shared_ptr<Patience::Stay>> here;
    for (; now < 40; now += 0.1) {
      here.push_back(line.patience().enter(now));
      while (now - here.front()->arrival >= patience) {
        line.patience().left(*here.front(), now);
        here.pop_front();
      }
    }
    for (const auto& stay : here) line.patience().served(*stay);
    for (int i = 0; i < 200; ++i) line.note_service(1, true);
    return now;
  }

  std::deque<LinePlace> places_;
  WaitingLine line;
};

TEST_F(WaitingLineTest, FirstComeFirstServed) {
  for (const double arrival : {3.0, 1.0, 2.0, 5.0, 4.0}) come(arrival);
  EXPECT_THAT(order(1000), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_EQ(line.first(1000), nullptr);
}

TEST_F(WaitingLineTest, ByPriorityAndWhatHasBegunFirst) {
  come(1);
  come(2, {.priority = 1, .begun = true});
  come(3, {.priority = -1});
  come(4, {.begun = true});
  EXPECT_THAT(order(10), ElementsAre(3, 4, 1, 2));
}

TEST_F(WaitingLineTest, WhoIsCalledBeforeItsTurn) {
  LinePlace& begun = come(1, {.begun = true});
  LinePlace& first = come(2);
  LinePlace& urgent = come(3, {.priority = -1, .begun = true});
  EXPECT_EQ(line.first_to_call(10), &first) << "the turn of the others has come";
  line.take(first);
  line.check_integrity();
  EXPECT_EQ(line.first_to_call(10), nullptr);
  EXPECT_EQ(line.first(10), &urgent);
  line.take(urgent);
  EXPECT_EQ(line.first(10), &begun);
}

TEST_F(WaitingLineTest, ThoseWhoCanBeServedBeforeTheyLeave) {
  const double now = learn(8);
  come(now - 7.5);  // it leaves before it is served
  come(now - 2);
  come(now - 1);
  come(now - 4);  // there is time, but less of it
  EXPECT_FALSE(line.first(now) == nullptr);
  EXPECT_FALSE(line.plain());
  EXPECT_THAT(order(now), ElementsAre(now - 2, now - 1, now - 4, now - 7.5));
}

TEST_F(WaitingLineTest, WhoWillBeLate) {
  LinePlace& early = come(-3);
  EXPECT_FALSE(line.is_late(early, 0)) << "nothing is known";
  const double now = learn(8);
  EXPECT_FALSE(line.is_late(come(now - 2), now));
  EXPECT_FALSE(line.is_late(come(now - 4), now)) << "no longer young, but in time";
  EXPECT_TRUE(line.is_late(come(now - 7.5), now));
  EXPECT_FALSE(line.is_late(early, now)) << "it has stayed longer than the others";
  EXPECT_FALSE(line.is_late(come(now - 1, {.timeout = 3}), now));
  EXPECT_TRUE(line.is_late(come(now - 2.5, {.timeout = 3}), now));
}

TEST_F(WaitingLineTest, AShareForThoseWhoStay) {
  const double now = learn(8);
  for (int i = 0; i < 20; ++i) come(now - 100 + i);
  for (int i = 0; i < 80; ++i) come(now - 1);
  const std::vector<double> taken = order(now);
  const auto old = std::count_if(taken.begin(), taken.begin() + 50,
                                 [&](double arrival) { return arrival < now - 50; });
  EXPECT_NEAR(static_cast<double>(old), 6, 2);
  std::vector<double> those;
  for (const double arrival : taken)
    if (arrival < now - 50) those.push_back(arrival);
  EXPECT_TRUE(std::is_sorted(those.begin(), those.end()));
}

// It is known better than what others do; whoever says more than others wait is one that stays.
TEST_F(WaitingLineTest, WhatClientsSayOfTheirPatience) {
  const double now = learn(8);
  come(now - 2, {.timeout = 2.5});  // too late
  come(now - 1.5, {.timeout = 3});
  come(now - 3);
  come(now - 6, {.timeout = 100});
  EXPECT_THAT(order(now), ElementsAre(now - 1.5, now - 6, now - 3, now - 2));
}

TEST_F(WaitingLineTest, WhoLeavesIsNotServed) {
  LinePlace& a = come(1);
  come(2);
  EXPECT_EQ(line.first(3), &a);
  line.remove(a);
  line.check_integrity();
  EXPECT_THAT(order(3), ElementsAre(2));
  EXPECT_EQ(line.size(), 0u);
  EXPECT_EQ(line.work(), 0);
}

TEST_F(WaitingLineTest, FewerAtOnceWhereAllWouldBeLate) {
  line.set_pace({100, 10});  // ten requests a second
  EXPECT_EQ(line.most_at_once(64, 8), 64);
  const double now = learn(8);
  line.first(now);
  const int at_once = line.most_at_once(64, 8);
  EXPECT_GT(at_once, 25);
  EXPECT_LT(at_once, 40);
  line.set_pace({1, 10});
  EXPECT_EQ(line.most_at_once(64, 8), 8);
  EXPECT_EQ(line.most_at_once(4, 8), 4);
}

// Whatever happens, nobody is lost and none is taken twice; and each is served who stays.
// Priorities are the clients' choice: one for each request must not keep the engine from its work.
TEST_F(WaitingLineTest, AsManyPrioritiesAsRequests) {
  double now = learn(8);
  std::vector<LinePlace> places(10'000);
  for (LinePlace& place : places) {
    place.arrival = now;
    place.serial = static_cast<uint64_t>(&place - places.data());
    place.priority = static_cast<int>(place.serial);
    place.work = place.client_work = 1;
    line.add(place);
  }
  const auto begin = std::chrono::steady_clock::now();
  for (int look = 0; look < 50; ++look) {
    now += 0.1;
    EXPECT_EQ(line.first(now), &places.front());
    EXPECT_FALSE(line.plain());
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  for (LinePlace& place : places) line.remove(place);
}

TEST(WaitingLineRandom, AnyOrderOfEvents) {
  for (unsigned seed = 0; seed < 6; ++seed) {
    std::mt19937 random(seed);
    WaitingLine line;
    std::deque<LinePlace> places;
    std::vector<LinePlace*> waiting;
    std::vector<std::shared_ptr<Patience::Stay>> stays;
    double now = 0;
    const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    for (int i = 0; i < 3000; ++i) {
      now += 0.01 * pick(10);
      const int what = pick(10);
      if (what < 4) {
        LinePlace& place = places.emplace_back();
        place.arrival = now - pick(3);
        place.serial = places.size();
        place.priority = pick(8) == 0 ? pick(5) - 2 : 0;
        place.timeout = pick(5) == 0 ? 0.1 * pick(200) : 0;
        place.work = 1 + pick(50);
        place.client_work = pick(10) == 0 ? 1000 * pick(1000) : place.work;
        place.begun = pick(20) == 0;
        line.add(place);
        waiting.push_back(&place);
        stays.push_back(line.patience().enter(now));
      } else if (what < 6 && !waiting.empty()) {
        const auto gone = waiting.begin() + pick(static_cast<int>(waiting.size()));
        line.remove(**gone);
        waiting.erase(gone);
      } else if (what < 7 && !stays.empty()) {
        line.patience().left(*stays[random() % stays.size()], now);
      } else if (what < 8) {
        line.note_service(0.01 * pick(300), pick(2) == 0);
        line.set_pace({static_cast<double>(pick(1000)), static_cast<double>(pick(50))});
      } else if (LinePlace* place = line.first(now)) {
        const auto it = std::find(waiting.begin(), waiting.end(), place);
        ASSERT_NE(it, waiting.end());
        for (const LinePlace* other : waiting) ASSERT_LE(place->priority, other->priority);
        line.take(*place);
        waiting.erase(it);
      }
      ASSERT_EQ(line.size(), waiting.size());
      ASSERT_GE(line.work_ahead(now), 0);
      if (i % 50 == 0) line.check_integrity();
    }
    while (LinePlace* place = line.first(now += 0.1)) line.take(*place);
    EXPECT_EQ(line.size(), 0u);
  }
}

// --- Under overload ------------------------------------------------------------------------------

double same(std::mt19937&) { return 1; }
double spread(std::mt19937& random) { return std::exponential_distribution<double>(1)(random); }
double short_and_long(std::mt19937& random) { return random() % 4 == 0 ? 2.5 : 0.5; }

// Ten times what can be computed, and less: answers in time, of the peak, after the first 10 s.
TEST(WaitingLineUnderOverload, ImpatientClients) {
  std::printf("deadline  times the peak  lengths  in time\n");
  for (const double deadline : {4.0, 7.0, 13.0})
    for (const double factor : {1.2, 3.0, 10.0})
      for (const auto& [name, length] : {std::pair("same", &same), std::pair("spread", &spread),
                                         std::pair("short and long", &short_and_long)}) {
        Crowd crowd;
        crowd.factor = factor;
        crowd.length = length;
        crowd.patience = [deadline](std::mt19937&) { return deadline; };
        const auto out = WaitingRoom(crowd).run();
        std::printf("%g  %g  %s  %.2f\n", deadline, factor, name, out.in_time);
        EXPECT_GE(out.in_time, 0.85) << deadline << " " << factor << " " << name;
      }
}

TEST(WaitingLineUnderOverload, ImpatientInAnyWay) {
  const auto uniform = [](std::mt19937& r) {
    return std::uniform_real_distribution<double>(2, 15)(r);
  };
  const auto lognormal = [](std::mt19937& r) {
    return std::lognormal_distribution<double>(2, 0.5)(r);
  };
  const auto exponential = [](std::mt19937& r) {
    return std::exponential_distribution<double>(0.1)(r);
  };
  const auto three = [](std::mt19937& r) {
    const unsigned which = r() % 3;
    return which == 0 ? 4.0 : which == 1 ? 7.0 : 13.0;
  };
  for (const auto& patience :
       std::vector<std::function<double(std::mt19937&)>>{uniform, lognormal, exponential, three}) {
    Crowd crowd;
    crowd.patience = patience;
    EXPECT_GE(WaitingRoom(crowd).run().in_time, 0.85);
  }
}

TEST(WaitingLineUnderOverload, FastAndSlowMachinesAndSuchAsVary) {
  for (const double deadline : {4.0, 7.0, 13.0})
    for (const double peak : {8.0, 100.0})
      for (const double swing : {0.0, 0.3}) {
        Crowd crowd;
        crowd.peak = peak;
        crowd.seats = 40;
        crowd.swing = swing;
        crowd.patience = [deadline](std::mt19937&) { return deadline; };
        EXPECT_GE(WaitingRoom(crowd).run().in_time, 0.8) << deadline << " " << peak << " " << swing;
      }
}

// Requests of one length end together, and the few that were called meanwhile have waited as long.
// A smaller batch takes longer for each request.
TEST(WaitingLineUnderOverload, BatchesOfASlowMachine) {
  for (const double patient : {0.0, 0.5})
    for (const double swing : {0.0, 0.3}) {
      Crowd crowd;
      crowd.peak = 15;
      crowd.seats = 64;
      crowd.half_speed = 6;
      crowd.swing = swing;
      crowd.patient = patient;
      const auto out = WaitingRoom(crowd).run();
      const double share = (out.in_time - out.to_patient) / (1 - patient);
      std::printf("%g  %g  %.2f  %.2f\n", patient, swing, out.in_time, share);
      EXPECT_GE(out.in_time, 0.85) << patient << " " << swing;
      EXPECT_GE(share, 0.7) << patient << " " << swing;
      EXPECT_EQ(out.patient_served, out.patient);
    }
}

// Some stay as long as it takes: all of them are served, and the others have their share.
TEST(WaitingLineUnderOverload, PatientOnesAmongThem) {
  std::printf("patient  deadline  in time: all, the impatient's of their share  slowest\n");
  for (const double patient : {0.1, 0.25, 0.5, 0.75, 0.9})
    for (const double deadline : {4.0, 7.0, 13.0}) {
      Crowd crowd;
      crowd.patient = patient;
      crowd.patience = [deadline](std::mt19937&) { return deadline; };
      const auto out = WaitingRoom(crowd).run();
      const double share = (out.in_time - out.to_patient) / (1 - patient);
      std::printf("%g  %g  %.2f  %.2f  %.0f\n", patient, deadline, out.in_time, share,
                  out.slowest_patient);
      EXPECT_EQ(out.patient_served, out.patient);
      EXPECT_GE(share, 0.7) << patient << " " << deadline;
      EXPECT_GE(out.in_time, 0.9) << patient << " " << deadline;
    }
}

TEST(WaitingLineUnderOverload, AllPatient) {
  Crowd crowd;
  crowd.patient = 1;
  const auto out = WaitingRoom(crowd).run();
  EXPECT_EQ(out.patient_served, out.patient);
  EXPECT_GE(out.throughput, 0.95);
}

// Nobody who stays waits for ever, however long the others come and go.
TEST(WaitingLineUnderOverload, AFewPatientOnesDuringAllOfIt) {
  Crowd crowd;
  crowd.patient = 0.01;  // 10 % of what can be computed, less than what is kept for them
  crowd.seconds = 200;
  const auto out = WaitingRoom(crowd).run();
  EXPECT_EQ(out.patient_served, out.patient);
  EXPECT_LT(out.slowest_patient, 30);
  EXPECT_GE(out.in_time, 0.85);
}

TEST(WaitingLineUnderOverload, WithoutItGoodputCollapses) {
  // The test can fail: this is what it is against.
  Crowd crowd;
  crowd.plain = true;
  EXPECT_LT(WaitingRoom(crowd).run().in_time, 0.1);
}

}  // namespace
}  // namespace tandem
