// The next of the requests that wait for a replica. Within a priority: first come, first served, as
// long as no client leaves. Once clients leave, requests that can be served before their client
// would leave come first. A share of the work is kept for clients who have shown more patience, so
// nobody who stays waits for ever. The contract, with its reasons: docs/serving.md ("Overload").
// Synchronous, no clock; O(log n) for each request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "runtime/engine/core/patience.h"

namespace tandem {

struct RequestRecord;
struct UnreadRequest;

// A request's place. What is said of it does not change while it waits.
struct LinePlace {
  RequestRecord* record = nullptr;  // whose it is
  UnreadRequest* unread = nullptr;  // or whose, if nobody has read it yet
  double arrival = 0;
  uint64_t serial = 0;  // order of arrival, among equals
  int priority = 0;     // the smallest first
  double timeout = 0;  // seconds from its arrival that its client says it waits; 0: it says nothing
  double work = 0;     // tokens, its own
  double client_work = 0;  // with those of the same client that wait
  bool begun = false;      // its turn has come once already: it goes on first

  bool waiting = false;  // the line's, as what follows
  std::pair<int, int> lane = {};
};

class WaitingLine {
 public:
  // What engines do at the moment; 0: not known yet.
  struct Pace {
    double work_per_second = 0;
    double work_of_a_request = 0;
  };

  Patience& patience() { return patience_; }
  void set_pace(const Pace& pace) { pace_ = pace; }
  // A request has been computed, so many seconds after it had been taken; or its client has left
  // meanwhile, and it would have taken longer.
  void note_service(double seconds, bool completed);

  void add(LinePlace& place);
  void remove(LinePlace& place);
  // The next one; null: nobody waits.
  LinePlace* first(double now);
  // The same among those whose turn has not come yet.
  LinePlace* first_to_call(double now);
  // Removes what first() or first_to_call() has just returned.
  void take(LinePlace& place);

  // Whether its client will probably have left before it has been computed, if it is taken now.
  bool is_late(const LinePlace& place, double now);
  // Whether it has no more work than most.
  bool is_ordinary(const LinePlace& place) const { return lane_of(place).first == 0; }

  size_t size() const { return size_; }
  double work() const { return work_; }
  // The part of it that is served before a request that arrives now. Includes later requests that
  // overtake it, where others have a share.
  double work_ahead(double now);
  // The number of requests to compute at once, from `least` to `most`. Fewer than `most` if clients
  // would leave before so many are computed.
  int most_at_once(int most, int least) const;
  // Whether it is first come, first served.
  bool plain() const { return plain_; }
  // Seconds that a request is likely to take once it is taken; most take less.
  double service() const { return mean_service_ + 2 * service_deviation_; }

  void check_integrity() const;

 private:
  struct ByArrival {
    using is_transparent = void;
    bool operator()(const LinePlace* a, const LinePlace* b) const {
      return std::pair(a->arrival, a->serial) < std::pair(b->arrival, b->serial);
    }
    bool operator()(const LinePlace* a, double arrival) const { return a->arrival < arrival; }
    bool operator()(double arrival, const LinePlace* a) const { return arrival < a->arrival; }
  };
  using Places = std::set<LinePlace*, ByArrival>;
  struct Ages {
    double from = 0, to = 0;
    bool have(double age) const { return age >= from && age <= to; }
  };
  struct LaneAges {
    double young = 0;               // seconds: until then they are served by arrival
    double sure = 0;                // until then nearly all stay until they are served
    std::vector<Ages> steady = {};  // later ages at which most stay until they are served; the
                                    // oldest first
    bool is_steady(double age) const;
  };
  // Requests that are alike in size and in what their clients say.
  struct Lane {
    Places places = {};
    LaneAges ages = {};
  };
  using LaneKey = std::pair<int, int>;  // size, timeout; each a logarithm, 0 for the ordinary
  struct Level {
    Places begun = {};
    std::map<LaneKey, Lane> lanes = {};
  };
  enum class Kind : uint8_t { kBegun, kYoung, kSteady, kLast };
  struct Choice {
    LinePlace* place = nullptr;
    Kind kind = Kind::kBegun;
    bool both = false;  // young ones and steady ones wait
  };

  LaneKey lane_of(const LinePlace& place) const;
  double stays_for(double age, double seconds) const;
  void refresh(double now);
  double sure_until(int size, double seconds) const;
  const LaneAges& known_ages(const LaneKey& key);
  LaneAges ages_of(const LaneKey& key) const;
  void add_up(double now);
  Choice choose(const Level& level, double now) const;
  Choice choose_waiting(const Level& level, double now) const;
  LinePlace* young_of(const Level& level, double now) const;
  LinePlace* steady_of(const Level& level, double now) const;
  static LinePlace* last_of(const Level& level);
  static LinePlace* steady_of(const Lane& lane, double now);

  Patience patience_;
  Pace pace_;
  uint64_t version_ = 0;
  double mean_service_ = 0, service_deviation_ = 0;
  std::map<int, Level> levels_;  // by priority
  size_t size_ = 0;
  double work_ = 0;
  bool plain_ = true;
  // Since the last refresh. There may be a lane for each request: clients choose their priorities.
  mutable std::map<int, double> sure_of_size_;
  std::map<LaneKey, LaneAges> ages_of_key_;
  Choice choice_;
  double owed_ = 0;                                            // work, to the steady ones
  double young_part_ = 1;                                      // of what is taken
  double young_work_ = 0, steady_work_ = 0, young_until_ = 0;  // as of the last refresh
};

}  // namespace tandem
