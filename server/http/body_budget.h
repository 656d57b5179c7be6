// The memory for bodies of requests of all connections: their bytes and their parsed form. A share
// is freed with its request.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

#include "base/error.h"

namespace tandem::server {

// Any thread.
class BodyBudget {
 public:
  explicit BodyBudget(size_t bytes) : all_(bytes) {}

  size_t all() const { return all_; }
  size_t used() const { return used_; }
  bool has_room_for(size_t bytes) const { return bytes <= all_ && used_ <= all_ - bytes; }

 private:
  friend class BodyShare;
  bool take(size_t bytes);
  void give_back(size_t bytes) { used_ -= bytes; }

  const size_t all_;
  std::atomic<size_t> used_{0};
};

// One request's part of it. Requests may outlive the server.
class BodyShare {
 public:
  explicit BodyShare(std::shared_ptr<BodyBudget> budget) : budget_(std::move(budget)) {}
  BodyShare(const BodyShare&) = delete;
  BodyShare& operator=(const BodyShare&) = delete;
  ~BodyShare() { budget_->give_back(bytes_); }

  // False: there is not that much; the share stays as it is.
  bool grow_to(size_t bytes);
  bool grow_by(size_t bytes) { return grow_to(bytes_ + bytes); }
  const BodyBudget& budget() const { return *budget_; }

 private:
  const std::shared_ptr<BodyBudget> budget_;
  size_t bytes_ = 0;
};

// The error for a request that needs more of --max-body-memory than is left.
InputError no_body_memory(const BodyBudget& memory);
// The same where it is parsed. bytes: of the body and its parsed form, which may be too many for
// ever.
InputError no_memory_to_parse(const BodyBudget& memory, size_t bytes);

}  // namespace tandem::server
