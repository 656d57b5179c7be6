// A virtual clock, a queue of events, and messages that take their time. All that is random comes
// from one seed, so that a run can be repeated.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace tandem::testing_support {

// A property that does not hold.
struct SimulationFailure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t x = (a ^ b) * 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// Messages of one sender to one receiver keep their order.
struct Link {
  double longest = 0.002;  // seconds
  double last = 0;
};

class World {
 public:
  World(uint64_t seed, bool log) : state_(seed), log_(log) {}

  double now() const { return now_; }
  uint64_t num_events() const { return num_events_; }

  uint64_t random() { return mix(state_ += 0x9e3779b97f4a7c15ull, 0); }
  int uniform(int low, int high) {
    return low + static_cast<int>(random() % static_cast<uint64_t>(high - low + 1));
  }
  bool one_in(int n) { return uniform(1, n) == 1; }
  double between(double low, double high) {
    return low + (high - low) * (static_cast<double>(random() >> 11) * 0x1.0p-53);
  }
  template <class T>
  T pick(std::initializer_list<T> values) {
    return values.begin()[uniform(0, static_cast<int>(values.size()) - 1)];
  }

  void after(double delay, std::function<void()> what) { at(now_ + delay, std::move(what)); }
  void at(double time, std::function<void()> what) {
    events_.push_back({time, next_++, std::move(what)});
    std::push_heap(events_.begin(), events_.end());
  }
  void send(Link& link, std::function<void()> deliver) {
    const double longest = one_in(20) ? 10 * link.longest : link.longest;
    link.last = std::max(link.last, now_ + between(0, longest));
    at(link.last, std::move(deliver));
  }

  bool run_one() {
    if (events_.empty()) return false;
    std::pop_heap(events_.begin(), events_.end());
    const Event event = std::move(events_.back());
    events_.pop_back();
    now_ = std::max(now_, event.time);
    ++num_events_;
    event.what();
    return true;
  }

  bool logs() const { return log_; }
  void log(const std::string& line) const {
    if (log_) std::printf("%9.4f  %s\n", now_, line.c_str());
  }

 private:
  struct Event {
    double time;
    uint64_t order;
    std::function<void()> what;
    bool operator<(const Event& o) const {  // the first is on top of the heap
      return time != o.time ? time > o.time : order > o.order;
    }
  };

  uint64_t state_;
  bool log_;
  double now_ = 0;
  uint64_t next_ = 0, num_events_ = 0;
  std::vector<Event> events_;
};

}  // namespace tandem::testing_support

// A line of the event log; its text is made only if there is a log.
#define SIM_LOG(world, text)               \
  do {                                     \
    if ((world).logs()) (world).log(text); \
  } while (false)
#define SIM_CHECK(condition, text)                                                     \
  do {                                                                                 \
    if (!(condition))                                                                  \
      throw ::tandem::testing_support::SimulationFailure(std::string(#condition) +     \
                                                         " does not hold: " + (text)); \
  } while (false)
