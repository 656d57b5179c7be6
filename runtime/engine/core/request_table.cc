#include "runtime/engine/core/request_table.h"

#include <algorithm>

namespace tandem {

RequestRecord* RequestTable::find(const std::string& id) {
  const auto it = records_.find(id);
  return it == records_.end() ? nullptr : &it->second;
}

RequestRecord& RequestTable::add(const proto::SubmitRequest& submit, double now) {
  const std::string& id = submit.request_id();
  RequestRecord& record = records_.try_emplace(id, id, next_serial_++).first->second;
  record.arrival = now;
  record.deadline = submit.timeout() > 0 ? now + submit.timeout() : 0;
  record.priority = submit.priority();
  return record;
}

bool RequestTable::idle() const {
  return std::all_of(records_.begin(), records_.end(), [](const auto& r) {
    return r.second.stage == RequestStage::kDone && !r.second.client;
  });
}

RequestTable::Overdue RequestTable::overdue(double now, double orphan_timeout) {
  Overdue out;
  for (auto& [id, record] : records_) {
    if (record.stage == RequestStage::kDone) continue;
    if (record.deadline > 0 && now >= record.deadline) {
      out.late.push_back(&record);
    } else if (!record.client && now >= record.client_lost + orphan_timeout) {
      out.orphans.push_back(&record);
    }
  }
  return out;
}

}  // namespace tandem
