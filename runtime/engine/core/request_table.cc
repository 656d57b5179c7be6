#include "runtime/engine/core/request_table.h"

#include <algorithm>

#include "base/check.h"

namespace tandem {

RequestRecord* RequestTable::find(const std::string& id) {
  const auto it = records_.find(id);
  return it == records_.end() ? nullptr : &it->second;
}

const RequestRecord* RequestTable::find(const std::string& id) const {
  const auto it = records_.find(id);
  return it == records_.end() ? nullptr : &it->second;
}

RequestRecord& RequestTable::add(const proto::SubmitRequest& submit, double now) {
  const std::string& id = submit.request_id();
  RequestRecord& record = records_.try_emplace(id, id, next_serial_++).first->second;
  record.arrival = now;
  record.deadline = submit.timeout() > 0 ? now + submit.timeout() : 0;
  record.priority = submit.priority();
  if (record.deadline > 0) deadlines_.emplace(record.deadline, id);
  return record;
}

RequestRecord& RequestTable::add_part(RequestRecord& parent, int number,
                                      const proto::SubmitRequest& submit, double now) {
  RequestRecord& part = add(submit, now);
  part.arrival = parent.arrival;  // what came first is served first, to its end
  part.priority = parent.priority;
  part.parent = &parent;
  part.part = number;
  TANDEM_CHECK(parent.parts.emplace(number, &part).second, "a part's number is used once");
  ++num_parts_;
  return part;
}

void RequestTable::erase(const RequestRecord& record) {
  if (record.parent != nullptr) --num_parts_;
  if (record.deadline > 0) deadlines_.erase({record.deadline, record.id});
  records_.erase(record.id);
}

void RequestTable::begin_sound(double seconds) {
  ++num_sounds_;
  sound_seconds_ += seconds;
}

void RequestTable::end_sound(double seconds) {
  TANDEM_CHECK_GT(num_sounds_, size_t{0});
  sound_seconds_ = --num_sounds_ == 0 ? 0 : sound_seconds_ - seconds;
}

bool RequestTable::idle() const {
  return std::all_of(records_.begin(), records_.end(), [](const auto& r) {
    return r.second.stage == RequestStage::kDone && !r.second.client;
  });
}

void RequestTable::note_lost(const RequestRecord& record) {
  lost_.push_back({record.id, record.client_lost});
}

RequestTable::Overdue RequestTable::overdue(double now, double orphan_timeout) {
  Overdue out;
  for (auto it = deadlines_.begin(); it != deadlines_.end() && it->first <= now;
       it = deadlines_.erase(it)) {
    RequestRecord& record = records_.at(it->second);
    if (record.stage != RequestStage::kDone && record.parent == nullptr)
      out.late.push_back(&record);
  }
  for (; !lost_.empty() && now >= lost_.front().at + orphan_timeout; lost_.pop_front()) {
    RequestRecord* const record = find(lost_.front().id);
    if (record == nullptr || record->client || record->client_lost != lost_.front().at) continue;
    if (record->stage == RequestStage::kDone || record->parent != nullptr) continue;
    if (record->deadline == 0 || now < record->deadline) out.orphans.push_back(record);
  }
  return out;
}

}  // namespace tandem
