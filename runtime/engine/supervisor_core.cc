// The state machine: idle → starting → up → stopping → backing off → starting …, until shut_down()
// or until restarts come too often.

#include "runtime/engine/supervisor_core.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <stdexcept>

#include "base/check.h"

namespace tandem {
namespace {

[[noreturn]] void fail(const std::string& field, const std::string& message) {
  throw std::runtime_error("worker report: " + field + ": " + message);
}

std::string in_seconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g s", seconds);
  return text;
}

}  // namespace

SupervisorCore::SupervisorCore(SupervisorConfig config, SupervisorOutbox& outbox)
    : config_(std::move(config)), outbox_(outbox), backoff_(config_.first_backoff) {
  TANDEM_CHECK_GT(config_.size, 0);
}

void SupervisorCore::start(double now) {
  TANDEM_CHECK(state_ == State::kIdle && !shutting_down_);
  launch(now);
}

void SupervisorCore::launch(double now) {
  if (++generation_ > 1) ++restarts_;
  ranks_.assign(static_cast<size_t>(config_.size), Rank());
  state_ = State::kStarting;
  deadline_ = now + config_.startup_timeout;
  hello_deadline_ = now + config_.hello_timeout;
  outbox_.launch(config_.replica, generation_);
}

// --- Reports -------------------------------------------------------------------------------------

bool SupervisorCore::worker_report(const proto::WorkerReport& report, double now, DeathKind kind) {
  if (report.generation() != generation_) return false;
  if (state_ != State::kStarting && state_ != State::kUp) return false;
  if (report.rank() < 0 || report.rank() >= config_.size)
    fail("rank", std::to_string(report.rank()) + " of " + std::to_string(config_.size));
  Rank& rank = ranks_[static_cast<size_t>(report.rank())];
  const auto expect = [&](Stage stage, const char* what) {
    if (rank.stage != stage) fail(what, "out of order, from rank " + std::to_string(report.rank()));
  };
  switch (report.report_case()) {
    case proto::WorkerReport::kHello:
      expect(Stage::kAwaited, "hello");
      hello(report.hello(), report.rank());
      break;
    case proto::WorkerReport::kLoading:
      expect(Stage::kLoading, "loading");
      rank.done = report.loading().done();
      rank.total = report.loading().total();
      {
        uint64_t done = 0, total = 0;
        for (const Rank& r : ranks_) done += r.done, total += r.total;
        outbox_.loading(config_.replica, done, total);
      }
      break;
    case proto::WorkerReport::kLoaded:
      expect(Stage::kLoading, "loaded");
      loaded(rank, report.loaded());
      break;
    case proto::WorkerReport::kReady:
      expect(Stage::kLoaded, "ready");
      if (!all_at_least(Stage::kLoaded)) fail("ready", "before the start");
      rank.stage = Stage::kReady;
      if (all_at_least(Stage::kReady)) {
        CacheSize cache = ranks_[0].cache;
        state_ = State::kUp;
        was_up_ = true;
        backoff_ = config_.first_backoff;
        outbox_.group_up(config_.replica, generation_, cache);
      }
      break;
    case proto::WorkerReport::kFailed:
      // Once it was loaded, it may be again, when whatever is amiss now has passed.
      if (report.failed().invalid_model() && !was_up_) {
        const std::string reason = report.failed().what();
        bring_down(reason, false, now);
        give_up(reason, /*bad_input=*/true);
      } else {
        worker_down(report.generation(), report.rank(), report.failed().what(), kind, now);
      }
      break;
    default: fail("report", "missing or unknown");
  }
  return true;
}

void SupervisorCore::hello(const proto::WorkerHello& hello, int rank) {
  if (hello.protocol_version() != kProtocolVersion)
    fail("hello.protocol_version", version_mismatch("worker", hello.protocol_version(), "server"));
  ranks_[static_cast<size_t>(rank)].stage = Stage::kLoading;
  // Loading begins with a meeting of all: one that waited for the others there would not hear that
  // they are not coming.
  if (!all_at_least(Stage::kLoading)) return;
  for (int r = 0; r < config_.size; ++r) {
    proto::WorkerCommand command;
    command.set_generation(generation_);
    *command.mutable_setup() = config_.setup;
    command.mutable_setup()->set_rank(r);
    command.mutable_setup()->set_size(config_.size);
    outbox_.to_worker(config_.replica, r, std::move(command));
  }
}

// When all have loaded, all get the pools that the one with the least memory can have.
void SupervisorCore::loaded(Rank& rank, const proto::WorkerLoaded& report) {
  if (report.num_device_blocks() < 1 || report.num_host_blocks() < 0)
    fail("loaded", std::to_string(report.num_device_blocks()) + " and " +
                       std::to_string(report.num_host_blocks()) + " blocks");
  if (report.beam_vocabulary() < 0)
    fail("loaded", "beam_vocabulary " + std::to_string(report.beam_vocabulary()));
  if (report.max_drafts() < 0) fail("loaded", "max_drafts " + std::to_string(report.max_drafts()));
  if (!std::isfinite(report.rows_of_a_step()) || report.rows_of_a_step() < 0)
    fail("loaded", "rows_of_a_step " + std::to_string(report.rows_of_a_step()));
  rank.cache = cache_of(report);
  rank.stage = Stage::kLoaded;
  if (!all_at_least(Stage::kLoaded)) return;
  CacheSize least = ranks_[0].cache;
  for (const Rank& r : ranks_) {
    least.num_device_blocks = std::min(least.num_device_blocks, r.cache.num_device_blocks);
    least.num_host_blocks = std::min(least.num_host_blocks, r.cache.num_host_blocks);
    if (r.cache.beam_vocabulary != least.beam_vocabulary) least.beam_vocabulary = 0;
    least.max_drafts = std::min(least.max_drafts, r.cache.max_drafts);
    least.rows_of_a_step = std::min(least.rows_of_a_step, r.cache.rows_of_a_step);
  }
  for (int r = 0; r < config_.size; ++r) {
    ranks_[static_cast<size_t>(r)].cache = least;
    proto::WorkerCommand command;
    command.set_generation(generation_);
    command.mutable_start()->set_num_device_blocks(least.num_device_blocks);
    command.mutable_start()->set_num_host_blocks(least.num_host_blocks);
    outbox_.to_worker(config_.replica, r, std::move(command));
  }
}

bool SupervisorCore::all_at_least(Stage stage) const {
  return std::all_of(ranks_.begin(), ranks_.end(), [&](const Rank& r) { return r.stage >= stage; });
}

std::string SupervisorCore::ranks_below(Stage stage) const {
  std::string out;
  for (size_t r = 0; r < ranks_.size(); ++r)
    if (ranks_[r].stage < stage) out += (out.empty() ? "" : ", ") + std::to_string(r);
  return out;
}

// --- Deaths --------------------------------------------------------------------------------------

void SupervisorCore::worker_down(uint64_t generation, int rank, const std::string& cause,
                                 DeathKind kind, double now) {
  fault(generation, "rank " + std::to_string(rank) + ": " + cause, kind, now);
}

void SupervisorCore::fault(uint64_t generation, const std::string& cause, DeathKind kind,
                           double now) {
  if (generation != generation_) return;
  if (state_ != State::kStarting && state_ != State::kUp) return;
  bring_down(cause, kind == DeathKind::kCrash, now);
}

void SupervisorCore::bring_down(const std::string& cause, bool crashed, double now) {
  const bool was_up = state_ == State::kUp;
  last_cause_ = cause;
  state_ = State::kStopping;
  deadline_ = now + config_.stop_timeout;
  if (was_up) outbox_.group_down(config_.replica, generation_, cause, crashed);
  outbox_.stop(config_.replica, generation_);
}

void SupervisorCore::launch_exited(uint64_t generation, const std::string& status, double now,
                                   DeathKind kind) {
  if (generation != generation_) return;
  if (state_ == State::kStarting || state_ == State::kUp) {
    bring_down(status, kind == DeathKind::kCrash, now);
  }
  if (state_ != State::kStopping) return;
  // What it wanted at the very start it will want the next time too.
  if (kind == DeathKind::kWant && !was_up_ && !shutting_down_)
    give_up("the workers cannot start: " + last_cause_, /*bad_input=*/true);
  else
    restart_or_give_up(now);
}

void SupervisorCore::restart_or_give_up(double now) {
  if (shutting_down_) {
    state_ = State::kIdle;
    return;
  }
  if (!config_.can_relaunch) {
    give_up("the worker group is lost (" + last_cause_ + ") and was not started from here", false);
    return;
  }
  while (!restart_times_.empty() && restart_times_.front() <= now - config_.restart_window)
    restart_times_.pop_front();
  if (static_cast<int>(restart_times_.size()) >= config_.max_restarts) {
    give_up("the worker group went down more than " + std::to_string(config_.max_restarts) +
                " times in " + std::to_string(static_cast<int>(config_.restart_window)) +
                " s; the last cause: " + last_cause_,
            false);
    return;
  }
  restart_times_.push_back(now);
  state_ = State::kBackingOff;
  deadline_ = now + backoff_;
  backoff_ = std::min(backoff_ * 2, config_.max_backoff);
}

void SupervisorCore::give_up(const std::string& reason, bool bad_input) {
  state_ = State::kGivenUp;
  outbox_.give_up(config_.replica, reason, bad_input);
}

void SupervisorCore::tick(double now) {
  if (state_ == State::kStarting && now >= deadline_) {
    bring_down("not ready in " + in_seconds(config_.startup_timeout) + ": rank " +
                   ranks_below(Stage::kReady),
               false, now);
  } else if (state_ == State::kStarting && now >= hello_deadline_ &&
             !all_at_least(Stage::kLoading)) {
    // Afterwards its connection tells whether a rank is alive, however long it loads.
    bring_down("no sign of life in " + in_seconds(config_.hello_timeout) + ": rank " +
                   ranks_below(Stage::kLoading),
               false, now);
  } else if (state_ == State::kStopping && now >= deadline_) {
    outbox_.stop(config_.replica, generation_);  // once more
    deadline_ = now + config_.stop_timeout;
  } else if (state_ == State::kBackingOff && now >= deadline_) {
    launch(now);
  }
}

void SupervisorCore::shut_down(double now) {
  shutting_down_ = true;
  if (state_ == State::kStarting || state_ == State::kUp) {
    bring_down("shut down", false, now);
  } else if (state_ == State::kBackingOff) {
    state_ = State::kIdle;
  }
}

void SupervisorCore::check_integrity() const {
  TANDEM_CHECK_EQ(generation_ == 0, state_ == State::kIdle && ranks_.empty());
  if (state_ == State::kUp) TANDEM_CHECK(all_at_least(Stage::kReady));
  TANDEM_CHECK_LE(static_cast<int>(restart_times_.size()), config_.max_restarts);
  TANDEM_CHECK_GE(restarts_ + 1, static_cast<int>(restart_times_.size()));  // one may be due
}

}  // namespace tandem
