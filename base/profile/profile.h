// A profile of this process: where the time of its threads goes.
//
// Threads take part in groups: a rank with its compute threads, a scheduler. A group records a
// number of steps, which its first thread runs and counts. That thread's spans are ProfileSpan
// objects; the pool records those of compute threads. Without a profile there is no group, and a
// span costs one look at a thread-local pointer.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/profile/track.h"

namespace tandem {

// The steps of a group that are recorded: `steps` of them, after the first `skip`.
struct ProfileWindow {
  int64_t skip = 0;
  int64_t steps = 200;
};

class ProfileGroup {
 public:
  // number: of the "process" in the trace. held: Profile::hold(); outlives the group.
  ProfileGroup(std::string name, int number, const std::vector<std::string>& threads,
               const ProfileWindow& window, const std::atomic<bool>& held);

  const std::string& name() const { return name_; }
  int number() const { return number_; }
  int threads() const { return static_cast<int>(tracks_.size()); }
  // Null if the group has no such thread.
  ProfileTrack* find_track(int thread) {
    const auto i = static_cast<size_t>(thread);
    return i < tracks_.size() ? &tracks_[i] : nullptr;
  }
  const ProfileTrack& track(int thread) const { return tracks_[static_cast<size_t>(thread)]; }

  // Only the thread that runs the steps calls these. is_open(): whether the current step is
  // recorded. count_step(): the current step has ended.
  bool is_open() const {
    const int64_t n = steps_.load(std::memory_order_relaxed);
    return n >= window_.skip && n - window_.skip < window_.steps &&
           !held_.load(std::memory_order_relaxed);
  }
  void count_step();

  // Of any thread.
  bool is_done() const {
    return steps_.load(std::memory_order_acquire) - window_.skip >= window_.steps;
  }
  int64_t last_step() const { return last_step_.load(std::memory_order_relaxed); }

 private:
  const std::string name_;
  const int number_;
  const ProfileWindow window_;
  const std::atomic<bool>& held_;
  std::deque<ProfileTrack> tracks_;
  std::atomic<int64_t> steps_{0};
  std::atomic<int64_t> last_step_{0};  // when it ended
};

// Makes groups and keeps them: until the process ends, or as long as any thread of theirs runs.
class Profile {
 public:
  explicit Profile(const ProfileWindow& window);

  // Null: there are too many already (kMostGroups). A taken number becomes another one.
  ProfileGroup* add_group(const std::string& name, int number,
                          const std::vector<std::string>& threads);
  // While it is held nothing is recorded, and no step counts.
  void hold(bool held) { held_.store(held, std::memory_order_relaxed); }

  // Groups stay where they are.
  std::vector<const ProfileGroup*> groups() const;
  int64_t begun() const { return begun_; }  // of profile_clock(); no span began before
  bool is_done() const;                     // all groups are; there is one
  int64_t last_step() const;                // of any group
  size_t num_events() const;
  int64_t num_dropped() const;

  static constexpr size_t kMostGroups = 256;

 private:
  const ProfileWindow window_;
  const int64_t begun_ = profile_clock();
  std::atomic<bool> held_{false};
  mutable Mutex mutex_;
  std::deque<ProfileGroup> groups_ GUARDED_BY(mutex_);  // not what they hold
};

// The process's profile; null: none is wanted. Set before the participating threads start.
Profile* process_profile();
void set_process_profile(Profile* profile);

// The group whose steps this thread runs, while it records.
inline constinit thread_local ProfileGroup* profiled_group = nullptr;

// While it lives, this thread records for the group, if the group records. Null: does nothing.
class ProfiledScope {
 public:
  explicit ProfiledScope(ProfileGroup* group) : before_(profiled_group) {
    if (group != nullptr) [[unlikely]]
      profiled_group = group->is_open() ? group : nullptr;
  }
  ~ProfiledScope() { profiled_group = before_; }
  ProfiledScope(const ProfiledScope&) = delete;
  ProfiledScope& operator=(const ProfiledScope&) = delete;

 private:
  ProfileGroup* const before_;
};

// From here to its end, on the thread that runs the steps.
class ProfileSpan {
 public:
  explicit ProfileSpan(const SpanKind& kind)
      : track_(profiled_group == nullptr ? nullptr : profiled_group->find_track(0)) {
    if (track_ != nullptr) [[unlikely]]
      event_ = {&kind, profile_clock(), 0, nullptr, {}};
  }
  ~ProfileSpan() {
    if (track_ != nullptr) [[unlikely]]
      end();
  }
  ProfileSpan(const ProfileSpan&) = delete;
  ProfileSpan& operator=(const ProfileSpan&) = delete;

  // Whether the span's details will be read.
  bool is_recorded() const { return track_ != nullptr; }
  // word: static storage, or null.
  void say(const std::array<int64_t, 4>& numbers, const char* word = nullptr) {
    if (track_ == nullptr) [[likely]]
      return;
    event_.numbers = numbers;
    event_.word = word;
  }

 private:
  void end();

  ProfileTrack* const track_;
  SpanEvent event_;  // if it is recorded
};

}  // namespace tandem
