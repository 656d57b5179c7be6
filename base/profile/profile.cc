#include "base/profile/profile.h"

#include <algorithm>

namespace tandem {
namespace {

// Events of a thread: of deep models in many steps, and 64 MB at most.
constexpr int64_t kEventsPerStep = 2048, kLeastEvents = 1 << 14, kMostEvents = 1 << 20;

size_t capacity_for(const ProfileWindow& window) {
  const int64_t steps = std::clamp<int64_t>(window.steps, 0, kMostEvents);
  return static_cast<size_t>(std::clamp(steps * kEventsPerStep, kLeastEvents, kMostEvents));
}

std::atomic<Profile*> of_process{nullptr};

}  // namespace

ProfileGroup::ProfileGroup(std::string name, int number, const std::vector<std::string>& threads,
                           const ProfileWindow& window, const std::atomic<bool>& held)
    : name_(std::move(name)), number_(number), window_(window), held_(held) {
  for (const std::string& thread : threads) tracks_.emplace_back(thread, capacity_for(window));
}

void ProfileGroup::count_step() {
  if (held_.load(std::memory_order_relaxed)) return;
  last_step_.store(profile_clock(), std::memory_order_relaxed);
  steps_.fetch_add(1, std::memory_order_release);
}

Profile::Profile(const ProfileWindow& window) : window_(window) {}

ProfileGroup* Profile::add_group(const std::string& name, int number,
                                 const std::vector<std::string>& threads) {
  constexpr int kApart = 100'000;
  const MutexLock lock(mutex_);
  if (groups_.size() == kMostGroups) return nullptr;
  const auto has_number = [&number](const ProfileGroup& group) { return group.number() == number; };
  while (std::any_of(groups_.begin(), groups_.end(), has_number)) number += kApart;
  return &groups_.emplace_back(name, number, threads, window_, held_);
}

std::vector<const ProfileGroup*> Profile::groups() const {
  const MutexLock lock(mutex_);
  std::vector<const ProfileGroup*> out;
  for (const ProfileGroup& group : groups_) out.push_back(&group);
  return out;
}

bool Profile::is_done() const {
  const auto all = groups();
  return !all.empty() &&
         std::all_of(all.begin(), all.end(), [](const auto* group) { return group->is_done(); });
}

int64_t Profile::last_step() const {
  int64_t last = 0;
  for (const ProfileGroup* group : groups()) last = std::max(last, group->last_step());
  return last;
}

size_t Profile::num_events() const {
  size_t count = 0;
  for (const ProfileGroup* group : groups())
    for (int i = 0; i < group->threads(); ++i) count += group->track(i).events().size();
  return count;
}

int64_t Profile::num_dropped() const {
  int64_t count = 0;
  for (const ProfileGroup* group : groups())
    for (int i = 0; i < group->threads(); ++i) count += group->track(i).dropped();
  return count;
}

Profile* process_profile() { return of_process.load(std::memory_order_acquire); }
void set_process_profile(Profile* profile) { of_process.store(profile, std::memory_order_release); }

void ProfileSpan::end() {
  event_.end = profile_clock();
  track_->add(event_);
}

}  // namespace tandem
