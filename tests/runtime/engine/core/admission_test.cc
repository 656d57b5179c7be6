// Admission by expected waiting time: rules one by one, then a simulated server under overload.

#include "runtime/engine/core/admission.h"

#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <random>
#include <vector>

#include "tests/support/engine/engine_core_driver.h"

namespace tandem {
namespace {

using testing_support::small_request;

constexpr RequestWork kWork{.input = 10, .output = 30, .tokens_a_step = 1, .sequences = 1};  // 40

// Requests that share `rate` tokens a second, whatever their number; a step each 10 ms.
class Server {
 public:
  explicit Server(const AdmissionConfig& config, double rate) : admission(config), rate_(rate) {}

  bool offer(double timeout = 0, RequestWork work = kWork) {
    last = admission.refusal(timeout, now);
    if (last) return false;
    add(work);
    return true;
  }
  void add(const RequestWork& work) {
    running.emplace_back();
    running.back().begun = now;
    running.back().size = work;
    admission.enter(running.back().ticket, now);
    admission.size(running.back().ticket, work, now);
  }
  // Returns the times that the requests took which ended.
  std::vector<double> run(double seconds) {
    std::vector<double> ended;
    for (const double end = now + seconds; now < end - 1e-9;) {
      now += 0.01;
      const double each = running.empty() ? 0 : rate_ * 0.01 / static_cast<double>(running.size());
      for (auto it = running.begin(); it != running.end();) {
        it->tokens += each;
        const double generated = it->tokens - it->size.input;
        if (generated >= 1) admission.progress(it->ticket, static_cast<int>(generated), now);
        if (it->tokens < it->size.input + it->size.output * it->size.sequences) {
          ++it;
          continue;
        }
        admission.leave(it->ticket, true, now);
        ended.push_back(now - it->begun);
        it = running.erase(it);
      }
    }
    return ended;
  }
  // Those that have been there for longer are gone.
  void abandon(double seconds) {
    while (!running.empty() && now - running.front().begun >= seconds) {
      admission.leave(running.front().ticket, false, now);
      running.pop_front();
    }
  }
  void set_rate(double rate) { rate_ = rate; }

  struct Request {
    Admission::Ticket ticket;
    RequestWork size;
    double begun = 0, tokens = 0;
  };
  Admission admission;
  std::deque<Request> running;
  std::optional<Admission::Refusal> last;
  double now = 5;

 private:
  double rate_;
};

int take(Server& server, int offered, double timeout = 0) {
  int taken = 0;
  for (int i = 0; i < offered; ++i) taken += server.offer(timeout);
  return taken;
}

TEST(Admission, WhatWorkIs) {
  PreparedRequest r = small_request(1, 20);
  for (int i = 1; i < 100; ++i) r.inputs.add_encoder_prompt_token_ids(7);
  RequestWork work = work_of(r.inputs, r.params);
  EXPECT_EQ(work.input, 51);
  EXPECT_EQ(work.output, 20);
  EXPECT_EQ(work.sequences, 1);
  r.params.set_n(3);
  work = work_of(r.inputs, r.params);
  EXPECT_EQ(work.input, 53) << "the prompt of each";
  EXPECT_EQ(work.sequences, 3);
  r.params.set_n(1);
  r.params.set_num_beams(4);
  work = work_of(r.inputs, r.params);
  EXPECT_EQ(work.input, 51);
  EXPECT_EQ(work.sequences, 4);
  EXPECT_EQ(work.tokens_a_step, 4);
  r.params.mutable_pooling();
  work = work_of(r.inputs, r.params);
  EXPECT_EQ(work.input, 51) << "a head's decoder reads the prompt";
  r.inputs.clear_prompt_token_ids();
  work = work_of(r.inputs, r.params);
  EXPECT_EQ(work.input, 50);
  EXPECT_EQ(work.output, 0);
  EXPECT_EQ(work.sequences, 1);
}

TEST(Admission, WithoutABoundAllComeIn) {
  Server server({.max_queue_time = 0, .batch = 2, .most_unmeasured = 2}, 100);
  EXPECT_EQ(take(server, 5000), 5000);
  server.run(1);
  EXPECT_EQ(take(server, 5000), 5000);
}

TEST(Admission, BeforeAnythingIsKnownABatchComesIn) {
  Server server({.max_queue_time = 1, .batch = 8, .most_unmeasured = 64}, 100);
  EXPECT_EQ(take(server, 200), 64);
  ASSERT_TRUE(server.last);
  EXPECT_EQ(server.last->retry_after, 1);
  EXPECT_NE(server.last->message().find("does not know yet"), std::string::npos);
}

TEST(Admission, OnceMeasuredTheBoundHolds) {
  // 25 requests a second.
  Server server({.max_queue_time = 2, .batch = 8, .most_unmeasured = 64}, 1000);
  take(server, 200);
  server.run(1);
  server.run(4);  // idle in the end
  EXPECT_TRUE(server.running.empty());
  EXPECT_EQ(take(server, 500), 51) << "50 take two seconds, and one more may come behind them";
  ASSERT_TRUE(server.last);
  EXPECT_NEAR(server.last->wait, 2.04, 0.05);
  EXPECT_EQ(server.last->bound, 2);
  EXPECT_NEAR(server.last->retry_after, 0.04, 0.02);
  EXPECT_FALSE(server.last->by_deadline);
  EXPECT_NE(server.last->message().find("2.0 s (--max-queue-time)"), std::string::npos);
  EXPECT_NEAR(server.admission.expected_wait(server.now), 2.04, 0.05);
  const auto times = server.run(2.2);
  ASSERT_EQ(times.size(), 51u);
  EXPECT_NEAR(times.back(), 2.04, 0.05) << "it has told the truth";
}

TEST(Admission, SlowModelsServeABatch) {
  // A request takes 20 s alone.
  Server server({.max_queue_time = 1, .batch = 4, .most_unmeasured = 16}, 2);
  EXPECT_EQ(take(server, 40), 16);
  server.run(400);
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(take(server, 40), 4) << "a batch, for nothing else is there";
    ASSERT_TRUE(server.last);
    EXPECT_NEAR(server.last->retry_after, 20, 4) << "until one of four has ended";
    server.run(100);
    EXPECT_TRUE(server.running.empty());
  }
}

TEST(Admission, LittleLoadIsNoMeasureOfABatch) {
  Server server({.max_queue_time = 1, .batch = 16, .most_unmeasured = 256}, 40);
  for (int i = 0; i < 5; ++i) {
    server.offer();
    server.run(1.5);  // alone: one a second
  }
  server.set_rate(4000);
  EXPECT_EQ(take(server, 300), 32) << "two batches, to learn from";
  server.run(0.3);
  EXPECT_GT(take(server, 300), 60);
}

TEST(Admission, DeadlinesThatCannotBeMet) {
  Server server({.max_queue_time = 0, .batch = 4, .most_unmeasured = 16}, 1000);
  take(server, 100);
  server.run(5);
  EXPECT_EQ(take(server, 75), 75) << "three seconds";
  EXPECT_TRUE(server.offer(3.5));
  EXPECT_TRUE(server.offer());
  EXPECT_FALSE(server.offer(2.5));
  EXPECT_TRUE(server.last->by_deadline);
  EXPECT_NE(server.last->message().find("timeout of 2.5 s"), std::string::npos);
  EXPECT_NEAR(server.last->retry_after, 0.58, 0.1);
  Server other({.max_queue_time = 2, .batch = 4, .most_unmeasured = 16}, 1000);
  take(other, 100);
  other.run(5);
  take(other, 30);
  EXPECT_FALSE(other.offer(1));
  EXPECT_TRUE(other.last->by_deadline);
  EXPECT_TRUE(other.offer(10));
  take(other, 100);
  EXPECT_FALSE(other.offer(10));
  EXPECT_FALSE(other.last->by_deadline) << "the server's bound is the shorter one";
}

TEST(Admission, LargeRequestsWeighMore) {
  Server server({.max_queue_time = 2, .batch = 4, .most_unmeasured = 16}, 1000);
  take(server, 100);
  server.run(5);
  for (int i = 0; i < 5; ++i)
    EXPECT_TRUE(server.offer(0, {.input = 10, .output = 30, .sequences = 10}));
  EXPECT_LT(take(server, 100), 15) << "1550 tokens are there already";
}

TEST(Admission, BoundsThatAreNotUsedCountLittle) {
  Server server({.max_queue_time = 2, .batch = 4, .most_unmeasured = 16}, 1000);
  for (int i = 0; i < 100; ++i) {
    take(server, 16);
    server.run(1);
  }
  // Asks for 1000, but requests have used 30.
  for (int i = 0; i < 8; ++i)
    EXPECT_TRUE(server.offer(0, {.input = 10, .output = 1000, .sequences = 1}));
  EXPECT_NEAR(server.admission.work(), 8 * 70, 8 * 5);
}

TEST(Admission, NothingIsLeftOver) {
  std::mt19937 random(7);
  Server server({.max_queue_time = 1, .batch = 4, .most_unmeasured = 16}, 500);
  for (int i = 0; i < 2000; ++i) {
    const int sequences = 1 + static_cast<int>(random() % 5);
    server.offer(0, {.input = 1.0 + random() % 50,
                     .output = 1.0 + random() % 50,
                     .tokens_a_step = random() % 2 == 0 ? 1.0 : sequences,
                     .sequences = sequences});
    if (i % 3 == 0) server.run(0.01 * (random() % 10));
    if (i % 50 == 0) server.abandon(0.5);
  }
  server.run(100);
  EXPECT_TRUE(server.running.empty());
  EXPECT_EQ(server.admission.work(), 0);
  EXPECT_EQ(server.admission.sequences(), 0);
  EXPECT_EQ(server.admission.expected_wait(server.now), 0);
}

struct Outcome {
  double goodput = 0;  // of the peak
  double longest = 0;
};

// 50 s of ten times the peak; clients leave after `patience` seconds (0: never).
Outcome overload(double max_queue_time, double peak, double patience, bool cold, double drift = 0) {
  Server server({.max_queue_time = max_queue_time, .batch = 32, .most_unmeasured = 256}, peak * 40);
  if (!cold) {
    for (int i = 0; i < 500; ++i) {
      while (server.running.size() < 40) server.add(kWork);
      server.run(0.01);
    }
  }
  server.run(100);
  std::mt19937 random(3);
  std::exponential_distribution<double> pause(10 * peak);
  Outcome out;
  size_t ended = 0;
  double next = server.now;
  const double begin = server.now;
  while (server.now < begin + 50) {
    for (; next <= server.now; next += pause(random)) server.offer();
    if (drift > 0) server.set_rate(peak * 40 * (1 + drift * std::sin(server.now)));
    for (const double time : server.run(0.01)) {
      out.longest = std::max(out.longest, time);
      ++ended;
    }
    if (patience > 0) server.abandon(patience);
  }
  out.goodput = static_cast<double>(ended) / (50 * peak);
  return out;
}

TEST(AdmissionUnderOverload, WhatComesInIsServedInTime) {
  for (const double peak : {20.0, 150.0, 1000.0})
    for (const double patience : {0.0, 4.0, 7.0, 13.0})
      for (const bool cold : {false, true}) {
        const Outcome with = overload(1, peak, patience, cold);
        EXPECT_GE(with.goodput, 0.9) << peak << " " << patience << " " << cold;
        if (!cold) {
          EXPECT_LT(with.longest, 3.5) << peak << " " << patience;
        }
      }
}

TEST(AdmissionUnderOverload, AlsoIfTheMachineIsNotAlwaysAsFast) {
  for (const double patience : {0.0, 4.0, 7.0, 13.0})
    EXPECT_GE(overload(1, 100, patience, false, 0.5).goodput, 0.9) << patience;
}

TEST(AdmissionUnderOverload, WithoutItGoodputCollapses) {
  // The test can fail: this is what it is against.
  EXPECT_LT(overload(0, 100, 4, true).goodput, 0.2);
}

}  // namespace
}  // namespace tandem
