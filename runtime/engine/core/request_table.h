// All requests that the engine knows of, in any stage, by their ids.
#pragma once

#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/engine/core/request_record.h"

namespace tandem {

class RequestTable {
 public:
  using Records = std::unordered_map<std::string, RequestRecord>;

  RequestRecord* find(const std::string& id);  // null: there is none
  const RequestRecord* find(const std::string& id) const;
  // The id is not in use.
  RequestRecord& add(const proto::SubmitRequest& submit, double now);
  // A request of the engine's own, for another.
  RequestRecord& add_part(RequestRecord& parent, int number, const proto::SubmitRequest& submit,
                          double now);
  void erase(const RequestRecord& record);
  // The next one, for a request that is not in the table yet.
  uint64_t take_serial() { return next_serial_++; }
  // Its client has gone; RequestRecord::client_lost says when.
  void note_lost(const RequestRecord& record);

  Records& all() { return records_; }
  const Records& all() const { return records_; }
  // Without parts of others.
  size_t size() const { return records_.size() - num_parts_; }
  size_t num_parts() const { return num_parts_; }
  // Seconds of sound that is being transcribed.
  void begin_sound(double seconds);
  void end_sound(double seconds);
  double sound_seconds() const { return sound_seconds_; }
  // Nothing unfinished, and nothing that a client waits for.
  bool idle() const;
  // Unfinished ones whose deadline has passed; and others whose client went `orphan_timeout`
  // seconds ago. Each is told once. Takes time for these alone.
  struct Overdue {
    std::vector<RequestRecord*> late, orphans;
  };
  Overdue overdue(double now, double orphan_timeout);

 private:
  struct Lost {
    std::string id;
    double at = 0;
  };

  Records records_;
  std::set<std::pair<double, std::string>> deadlines_;  // of those that have one
  std::deque<Lost> lost_;  // in this order their clients went; some have one again, or have ended
  uint64_t next_serial_ = 0;
  size_t num_parts_ = 0, num_sounds_ = 0;
  double sound_seconds_ = 0;
};

}  // namespace tandem
