// Requests that wait for a tokenizer or for their sound to be read. All preparers of a kind share
// one queue. A free preparer takes the next request, so a long text occupies only its own preparer.
#pragma once

#include <algorithm>
#include <deque>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"

namespace tandem::actors {

// Plain data; one thread.
template <class Job>
class PreparerQueue {
 public:
  struct Assignment {
    size_t preparer;
    Job job;
  };

  explicit PreparerQueue(size_t preparers) : busy_(preparers) { TANDEM_CHECK_GT(preparers, 0u); }

  void add(Job job) { waiting_.push_back(std::move(job)); }
  // The oldest job and a free preparer, which is busy from now on; nothing if either is missing.
  std::optional<Assignment> next() {
    for (size_t p = 0; p < busy_.size() && !waiting_.empty(); ++p) {
      if (busy_[p]) continue;
      busy_[p] = true;
      Assignment out{p, std::move(waiting_.front())};
      waiting_.pop_front();
      return out;
    }
    return std::nullopt;
  }
  // It has finished its job.
  void set_free(size_t preparer) {
    TANDEM_CHECK(busy_.at(preparer), "a preparer that has no job");
    busy_[preparer] = false;
  }
  size_t num_waiting() const { return waiting_.size(); }
  // Takes out those that wait and are not wanted(job) any more.
  template <class Wanted>
  std::vector<Job> remove_unless(const Wanted& wanted) {
    const auto end = std::stable_partition(waiting_.begin(), waiting_.end(), wanted);
    std::vector<Job> out(std::make_move_iterator(end), std::make_move_iterator(waiting_.end()));
    waiting_.erase(end, waiting_.end());
    return out;
  }

 private:
  std::deque<Job> waiting_;  // oldest first
  std::vector<bool> busy_;   // by preparer
};

}  // namespace tandem::actors
