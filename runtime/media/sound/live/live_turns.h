// How many windows of live sound an engine transcribes at once, and whose is next. Each session has
// one window under way, and cuts the next when its turn comes: a window that waits for the machine
// would grow old there. Too many at once, and all of them wait for the encoders of all; too few,
// and decoders share no batch.
//
// With k at once a window takes a + b k seconds. b cannot be shared: an encoder that keeps the
// machine busy. A session's turn comes every (a + b k) n / k seconds. A word waits half of that for
// its first window, and all of it for the second, which settles it. The second takes its time, too:
//   (a + b k) (1.5 n / k + 1) seconds.
// This is least at k = sqrt(1.5 n a / b). a and b are fitted to the times of past windows.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <vector>

#include "base/mutex.h"

namespace tandem {

// Seconds of a window over the number of them at once, as a line. What is long ago counts less.
class WindowSeconds {
 public:
  // at_once: on average while it was under way, from 1 on.
  void add(double at_once, double seconds);
  // The number that gives `sessions` their text soonest; 1 .. sessions.
  int best(int sessions) const;
  // Of the number at once. With too little nothing tells the costs apart.
  double spread() const;

 private:
  double weight_ = 0, at_once_ = 0, seconds_ = 0;  // sums: of weights, and weighted
  double square_ = 0, product_ = 0;                // at_once², at_once × seconds
};

// Of all sessions of a server. Any thread; callbacks are called without a lock, by whoever gives up
// the place that they get. It outlives its turns. `now`: seconds of one clock.
class LiveTurns {
 public:
  // A session's claim to a place, from asking until its window has come back. Its end gives it up.
  class Turn {
   public:
    ~Turn() { turns_.leave(*this); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    bool has_come() const;
    // Its window begins, or another in its place. After has_come().
    void begin(double now) { turns_.begin(*this, now); }
    // The window has come back as it should: what it took is learnt from.
    void end(double now) { turns_.end(*this, now); }

   private:
    friend class LiveTurns;
    Turn(LiveTurns& turns, std::function<void()> on_turn)
        : turns_(turns), on_turn_(std::move(on_turn)) {}

    LiveTurns& turns_;
    // Guarded by the lock of turns_.
    std::function<void()> on_turn_;
    bool has_come_ = false, has_begun_ = false;
    double begun_ = 0, busy_before_ = 0;  // when the window began, and busy_ then
  };

  // on_turn is called once when the turn has come, unless it has at once; perhaps while another
  // thread gives the turn up, and after that.
  std::unique_ptr<Turn> ask(std::function<void()> on_turn);

  int num_waiting() const;
  int num_under_way() const;  // places that are taken
  void check_integrity() const;

 private:
  // While the costs are about to be forgotten, one more than the best number may be under way every
  // so many turns.
  static constexpr uint64_t kTryMore = 8;
  int room(int sessions) const REQUIRES(mutex_);

  void begin(Turn& turn, double now);
  void end(Turn& turn, double now);
  void leave(Turn& turn);
  std::vector<std::function<void()>> grant() REQUIRES(mutex_);
  void pass(double now) REQUIRES(mutex_);
  void stop(Turn& turn) REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::list<Turn*> waiting_ GUARDED_BY(mutex_);  // in their order
  int places_ GUARDED_BY(mutex_) = 0;            // taken
  int computing_ GUARDED_BY(mutex_) = 0;         // windows that have begun
  uint64_t granted_ GUARDED_BY(mutex_) = 0;
  double now_ GUARDED_BY(mutex_) = 0;   // the last time that was told
  double busy_ GUARDED_BY(mutex_) = 0;  // until then: the sum of all windows' seconds
  WindowSeconds seconds_ GUARDED_BY(mutex_);
};

}  // namespace tandem
