// A thread's spans, in memory of its own.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

namespace tandem {

// The kind of a span. All text has static storage.
struct SpanKind {
  const char* name;
  const char* category;                     // base/profile/summary.cc counts by it
  std::array<const char*, 4> numbers = {};  // names of a span's numbers, as many as there are
  const char* word = nullptr;  // name of its word; null: a word stands in place of the name
};

// The clock of all timings: nanoseconds of a clock that all processes of a host share.
inline int64_t profile_clock() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

struct SpanEvent {
  const SpanKind* kind;
  int64_t begin, end;  // of profile_clock()
  const char* word;    // static storage; null: none
  std::array<int64_t, 4> numbers;
};

// One writer, any number of readers, no lock: an event is never changed once it counts.
class ProfileTrack {
 public:
  // capacity: events. Later ones are dropped and counted.
  ProfileTrack(std::string name, size_t capacity)
      : name_(std::move(name)), capacity_(capacity), events_(new SpanEvent[capacity]) {}

  // The writer's.
  void add(const SpanEvent& event) {
    const size_t n = size_.load(std::memory_order_relaxed);
    if (n == capacity_) {
      dropped_.store(dropped_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
      return;
    }
    events_[n] = event;
    size_.store(n + 1, std::memory_order_release);
  }

  const std::string& name() const { return name_; }
  // Those so far, by their ends. They stay where they are.
  std::span<const SpanEvent> events() const {
    return {events_.get(), size_.load(std::memory_order_acquire)};
  }
  int64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

 private:
  const std::string name_;
  const size_t capacity_;
  const std::unique_ptr<SpanEvent[]> events_;  // pages are taken as they are written
  std::atomic<size_t> size_{0};
  std::atomic<int64_t> dropped_{0};
};

}  // namespace tandem
