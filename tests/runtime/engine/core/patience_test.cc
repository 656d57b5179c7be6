// Patience: how long clients wait is learnt from those who leave, against what they were made to
// do.

#include "runtime/engine/core/patience.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <list>
#include <memory>
#include <random>

namespace tandem {
namespace {

constexpr double kForever = std::numeric_limits<double>::infinity();

// Clients that come at a rate, each with its patience.
class PatienceTest : public ::testing::Test {
 protected:
  struct Client {
    std::shared_ptr<Patience::Stay> stay;
    double until = 0;
  };
  void run(double seconds, double rate, const std::function<double()>& waits) {
    std::exponential_distribution<double> pause(rate);
    for (const double end = now + seconds; now < end; now += 0.02) {
      for (; next <= now; next += pause(random))
        here.push_back({patience.enter(now), now + waits()});
      for (auto it = here.begin(); it != here.end();) {
        if (it->until > now) {
          ++it;
          continue;
        }
        patience.left(*it->stay, now);
        it = here.erase(it);
      }
      patience.pass(now);
    }
    patience.check_integrity();
  }

  Patience patience;
  std::mt19937 random{5};
  std::list<Client> here;
  double now = 0, next = 0;
};

TEST_F(PatienceTest, NothingIsKnownAtFirst) {
  run(20, 50, [] { return kForever; });
  EXPECT_FALSE(patience.known());
  EXPECT_EQ(patience.stays(3, 1000), 1);
}

TEST_F(PatienceTest, AllAlike) {
  run(30, 50, [] { return 4.0; });
  ASSERT_TRUE(patience.known());
  EXPECT_GT(patience.stays(0, 3.2), 0.95);
  EXPECT_LT(patience.stays(0, 4.2), 0.05);
  EXPECT_LT(patience.stays(3, 1.2), 0.05);
}

TEST_F(PatienceTest, ItIsKnownAFewSecondsAfterTheFirstHaveLeft) {
  run(5, 200, [] { return 4.0; });
  EXPECT_LT(patience.stays(0, 4.2), 0.5);
}

// Half of them leave, so who is older stays: those that still wait count too.
TEST_F(PatienceTest, WhoHasStayedLonger) {
  run(60, 40, [this] { return random() % 2 == 0 ? 4.0 : kForever; });
  EXPECT_NEAR(patience.stays(0, 4.5), 0.5, 0.1);
  EXPECT_GT(patience.stays(4.5, 20), 0.95);
}

TEST_F(PatienceTest, AnyDistribution) {
  std::uniform_real_distribution<double> between(2, 12);
  run(100, 50, [&] { return between(random); });
  EXPECT_NEAR(patience.stays(0, 7), 0.5, 0.1);
  EXPECT_NEAR(patience.stays(7, 2.5), 0.5, 0.12);
  EXPECT_GT(patience.stays(0, 1.7), 0.95);
}

// Whoever was served is known to have waited until then, no more: that says nothing of later ages.
TEST_F(PatienceTest, TheServedSayNothingOfLater) {
  for (int i = 0; i < 2000; ++i, now += 0.05) {
    const auto served = patience.enter(now);
    here.push_back({patience.enter(now), now + 5});
    for (auto it = here.begin(); it != here.end() && it->until <= now; it = here.erase(it))
      patience.left(*it->stay, now);
    patience.served(*served);
  }
  EXPECT_GT(patience.stays(0, 4), 0.95);
  EXPECT_LT(patience.stays(4, 1.2), 0.1);
}

TEST_F(PatienceTest, AFewProveNothing) {
  int count = 0;
  run(30, 50, [&] { return ++count <= 2 ? 4.0 : kForever; });
  EXPECT_FALSE(patience.known());
  run(30, 50, [&] { return ++count % 100 == 0 ? 4.0 : kForever; });
  EXPECT_GT(patience.stays(0, 10), 0.9);
}

TEST_F(PatienceTest, ItForgets) {
  run(60, 20, [] { return 4.0; });
  EXPECT_LT(patience.stays(0, 4.2), 0.05);
  // They have become patient.
  run(150, 20, [] { return kForever; });
  EXPECT_GT(patience.stays(0, 4.2), 0.9);
  // Nobody waits any more.
  run(60, 20, [] { return 4.0; });
  EXPECT_LT(patience.stays(0, 4.2), 0.5);
  here.clear();
  for (int i = 0; i < 600; ++i) patience.pass(now += 1);
  EXPECT_FALSE(patience.known());
}

TEST_F(PatienceTest, WhoLeavesAtOnceWasNotWaiting) {
  run(30, 50, [] { return 0.05; });
  EXPECT_FALSE(patience.known());
}

TEST_F(PatienceTest, AnyAges) {
  std::lognormal_distribution<double> waits(1, 4);
  run(20, 100, [&] { return waits(random); });
  now += 1e6;
  patience.pass(now);
  patience.check_integrity();
  for (const double age : {0.0, 0.05, 0.1, 1.0, 1e4, 1e9})
    for (const double more : {0.0, 1.0, 1e9}) {
      EXPECT_GE(patience.stays(age, more), 0);
      EXPECT_LE(patience.stays(age, more), 1);
    }
}

}  // namespace
}  // namespace tandem
