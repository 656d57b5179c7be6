// All requests that the engine knows of, in any stage, by their ids.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/engine/core/request_record.h"

namespace tandem {

class RequestTable {
 public:
  using Records = std::unordered_map<std::string, RequestRecord>;

  RequestRecord* find(const std::string& id);  // null: there is none
  // The id is not in use.
  RequestRecord& add(const proto::SubmitRequest& submit, double now);
  void erase(const RequestRecord& record) { records_.erase(record.id); }

  Records& all() { return records_; }
  const Records& all() const { return records_; }
  size_t size() const { return records_.size(); }
  // Nothing unfinished, and nothing that a client waits for.
  bool idle() const;
  // Unfinished ones whose deadline has passed; and others whose client went `orphan_timeout`
  // seconds ago.
  struct Overdue {
    std::vector<RequestRecord*> late, orphans;
  };
  Overdue overdue(double now, double orphan_timeout);

 private:
  Records records_;
  uint64_t next_serial_ = 0;
};

}  // namespace tandem
