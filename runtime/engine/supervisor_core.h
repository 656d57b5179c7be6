// The decisions of the SupervisorActor for one replica: launch its worker group, see it through
// loading, notice when it dies or hangs, and replace it as a unit (one for all), within a bound.
// Synchronous; one thread; no clock, no I/O: events come in with the time, orders leave through
// SupervisorOutbox. The contract: docs/cluster.md.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "runtime/execution/engine_config.h"
#include "runtime/protocol/tandem.pb.h"
#include "runtime/protocol/version.h"

namespace tandem {

struct SupervisorConfig {
  int replica = 0;
  int size = 1;                  // ranks of the group
  bool can_relaunch = true;      // false: someone else starts the ranks (an outer mpirun)
  int max_restarts = 10;         // within restart_window; one more, and the supervisor gives up
  double restart_window = 60;    // seconds
  double startup_timeout = 600;  // seconds from the launch until all ranks are ready
  double hello_timeout = 600;    // seconds from the launch until all ranks have said hello
  double stop_timeout = 5;       // seconds a stopped group may take to be gone
  double first_backoff = 0.05;   // seconds before a relaunch; doubles while nothing comes up
  double max_backoff = 5;
  proto::WorkerSetup setup;  // rank and size are filled in
};

class SupervisorOutbox {
 public:
  virtual ~SupervisorOutbox() = default;
  // Starts the ranks of a generation. They say hello, or launch_exited() tells.
  virtual void launch(int replica, uint64_t generation) = 0;
  // Ends what is left of a generation, by force; launch_exited() tells when it is gone.
  virtual void stop(int replica, uint64_t generation) = 0;
  virtual void to_worker(int replica, int rank, proto::WorkerCommand command) = 0;
  // The group is ready; it has this much memory.
  virtual void group_up(int replica, uint64_t generation, const CacheSize& cache) = 0;
  virtual void group_down(int replica, uint64_t generation, const std::string& cause,
                          bool crashed) = 0;
  virtual void loading(int replica, uint64_t done, uint64_t total) = 0;  // bytes, all ranks
  // Restarting does not help. bad_input: because of the model or a flag, not of a fault.
  virtual void give_up(int replica, const std::string& reason, bool bad_input) = 0;
};

// How a worker ended, where that is known.
enum class DeathKind : uint8_t {
  kUnknown,  // lost, or killed from outside
  kCrash,    // by a signal of its own doing (SIGSEGV, SIGABRT, …)
  kWant,     // it could not have threads, memory or descriptors
};

class SupervisorCore {
 public:
  enum class State : uint8_t { kIdle, kStarting, kUp, kStopping, kBackingOff, kGivenUp };

  // `outbox` outlives the core.
  SupervisorCore(SupervisorConfig config, SupervisorOutbox& outbox);

  void start(double now);
  // A report of a worker of this replica. Throws std::runtime_error naming the field if it makes no
  // sense; then the worker must be turned away. Reports of other generations are ignored: false.
  // kind: if it tells of a failure, how (another rank may have crashed, and this one lost it).
  bool worker_report(const proto::WorkerReport& report, double now,
                     DeathKind kind = DeathKind::kUnknown);
  // The worker's connection is gone, or it told that it failed.
  void worker_down(uint64_t generation, int rank, const std::string& cause, DeathKind kind,
                   double now);
  // Someone (the scheduler) found the group at fault: garbage, or a step that took too long.
  void fault(uint64_t generation, const std::string& cause, DeathKind kind, double now);
  // kind: as far as it is known. This may be the first that is heard of a crash.
  void launch_exited(uint64_t generation, const std::string& status, double now,
                     DeathKind kind = DeathKind::kUnknown);
  // Deadlines. To be called about ten times a second.
  void tick(double now);
  // Stops for good.
  void shut_down(double now);

  State state() const { return state_; }
  uint64_t generation() const { return generation_; }
  int restarts() const { return restarts_; }                     // launches after the first
  const std::string& last_cause() const { return last_cause_; }  // of the last end of a group
  bool gone() const { return state_ == State::kGivenUp || state_ == State::kIdle; }
  void check_integrity() const;

 private:
  enum class Stage : uint8_t { kAwaited, kLoading, kLoaded, kReady };
  struct Rank {
    Stage stage = Stage::kAwaited;
    uint64_t done = 0, total = 0;
    CacheSize cache;
  };

  void hello(const proto::WorkerHello& hello, int rank);
  void loaded(Rank& rank, const proto::WorkerLoaded& report);
  void launch(double now);
  void bring_down(const std::string& cause, bool crashed, double now);
  void restart_or_give_up(double now);
  void give_up(const std::string& reason, bool bad_input);
  bool all_at_least(Stage stage) const;
  std::string ranks_below(Stage stage) const;

  SupervisorConfig config_;
  SupervisorOutbox& outbox_;
  State state_ = State::kIdle;
  uint64_t generation_ = 0;
  std::vector<Rank> ranks_;
  std::deque<double> restart_times_;
  std::string last_cause_;
  int restarts_ = 0;
  double backoff_ = 0, deadline_ = 0, hello_deadline_ = 0;
  bool shutting_down_ = false;
  bool was_up_ = false;  // once, in any generation
};

}  // namespace tandem
