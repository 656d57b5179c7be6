// How much a client may be sent, and what it is known to have. Plain data.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tandem {

// The messages to one client that it has not acknowledged.
class ClientWindow {
 public:
  static constexpr uint64_t kMaxUnacknowledged = 16;

  bool has_credit() const { return next_ - 1 - acknowledged_ < kMaxUnacknowledged; }
  uint64_t next_message() { return next_++; }
  // Cumulative. Returns the requests whose last chunk is known to have arrived.
  std::vector<std::string> acknowledge(uint64_t message);
  void wait_for_acknowledgement(uint64_t message, const std::string& request_id) {
    last_chunks_[message].push_back(request_id);
  }
  void check_integrity() const;

 private:
  uint64_t next_ = 1, acknowledged_ = 0;
  std::map<uint64_t, std::vector<std::string>> last_chunks_;
};

}  // namespace tandem
