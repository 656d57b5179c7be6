#include "runtime/engine/core/intake.h"

#include <algorithm>

#include "base/check.h"
#include "runtime/request/request_error.h"

namespace tandem {

Intake::Intake(int max_requests, size_t max_sound_bytes, const AdmissionConfig& admission)
    : max_requests_(max_requests), max_sound_bytes_(max_sound_bytes), admission_(admission) {
  TANDEM_CHECK_GT(max_requests, 0);
}

void Intake::check(const proto::SubmitRequest& submit) const {
  const std::string& id = submit.request_id();
  if (id.empty()) throw invalid_request("request_id", "is missing");
  if (id.size() > 256) throw invalid_request("request_id", "is longer than 256 bytes");
  if (being_prepared_.count(id) > 0)
    throw invalid_request("request_id", "\"" + id + "\" is in use");
  if (!(submit.timeout() >= 0)) throw invalid_request("timeout", "must not be negative");
  if (given_up_) throw InputError(ErrorKind::kUnavailable, *given_up_);
  if (draining_) throw InputError(ErrorKind::kUnavailable, "the server is shutting down");
}

void Intake::check_room(const proto::SubmitRequest& submit, size_t num_kept, bool batch_is_here,
                        double now) {
  const auto most = static_cast<size_t>(max_requests_);
  const auto full = [&](const std::string& message) {
    ++refused_full_;
    return OverloadError(message, admission_.until_next_end(now));
  };
  if (num_unfinished_ >= most)
    throw full("the server has " + std::to_string(num_unfinished_) +
               " unfinished requests, as many as it takes");
  // Clients that do not acknowledge what they get must not fill the memory.
  if (num_kept >= 2 * most)
    throw full("the server waits for the acknowledgement of " + std::to_string(num_kept - most) +
               " finished requests");
  const size_t sound = submit.prompt().encoder().sound().file().size();
  if (sound > 0 && sound_bytes_ > 0 && sound_bytes_ + sound > max_sound_bytes_)
    throw full("the server has " + std::to_string(sound_bytes_ >> 20) +
               " MiB of sound that it has not read yet, as much as it takes");
  // A batch comes in whole: its requests do not wait for each other.
  if (batch_is_here) return;
  const auto refusal = admission_.refusal(submit.timeout(), now);
  if (!refusal) return;
  ++(refusal->by_deadline ? refused_deadline_ : refused_queue_time_);
  throw OverloadError(refusal->message(), refusal->retry_after,
                      refusal->by_deadline ? "timeout" : "");
}

void Intake::reserve(RequestRecord& record, double now, size_t sound_bytes) {
  being_prepared_.emplace(record.id, sound_bytes);
  sound_bytes_ += sound_bytes;
  if (record.parent == nullptr) ++num_unfinished_;
  admission_.enter(record.ticket, now);
}

void Intake::end_reservation(const std::string& id) {
  const auto it = being_prepared_.find(id);
  if (it == being_prepared_.end()) return;
  sound_bytes_ -= it->second;
  being_prepared_.erase(it);
}

void Intake::split(RequestRecord& record, double now) {
  admission_.leave(record.ticket, /*completed=*/false, now);
}

void Intake::size(RequestRecord& record, double now) {
  admission_.size(record.ticket, work_of(record.state->inputs(), record.state->params()), now);
}

void Intake::progress(RequestRecord& record, double now) {
  admission_.progress(record.ticket, record.state->num_output_tokens(), now);
}

void Intake::leave(RequestRecord& record, bool completed, double now) {
  if (record.parent == nullptr) --num_unfinished_;
  if (record.ticket.sequences > 0) admission_.leave(record.ticket, completed, now);
}

void Intake::hold(RequestRecord& record) {
  record.stage = RequestStage::kHeld;
  held_.push_back(&record);
}

void Intake::hold_by_arrival(RequestRecord& record) {
  record.stage = RequestStage::kHeld;
  const auto later = std::find_if(held_.begin(), held_.end(), [&](const RequestRecord* other) {
    return other->serial > record.serial;
  });
  held_.insert(later, &record);
}

void Intake::hold_again(std::vector<RequestRecord*> records) {
  std::sort(records.begin(), records.end(),
            [](const auto* a, const auto* b) { return a->serial < b->serial; });
  for (RequestRecord* record : records) record->stage = RequestStage::kHeld;
  held_.insert(held_.begin(), records.begin(), records.end());
}

void Intake::drop_held(RequestRecord& record) {
  const auto it = std::find(held_.begin(), held_.end(), &record);
  TANDEM_CHECK(it != held_.end());
  held_.erase(it);
  record.stage = RequestStage::kMoving;
}

RequestRecord& Intake::take_held() {
  RequestRecord& record = *held_.front();
  held_.pop_front();
  record.stage = RequestStage::kMoving;
  return record;
}

void Intake::fill_info(proto::ServerInfo& info, double now) {
  info.set_num_requests(static_cast<int>(num_unfinished_));
  info.set_draining(draining_);
  info.set_expected_wait(admission_.expected_wait(now));
  info.set_until_next_end(admission_.until_next_end(now));
  info.set_refused_queue_time(refused_queue_time_);
  info.set_refused_deadline(refused_deadline_);
  info.set_refused_full(refused_full_);
}

void Intake::check_integrity(const std::vector<const RequestRecord*>& records) const {
  size_t unfinished = 0, held = 0, bytes = 0;
  for (const auto& [id, sound] : being_prepared_) bytes += sound;
  TANDEM_CHECK_EQ(bytes, sound_bytes_);
  int sequences = 0;
  for (const RequestRecord* record : records) {
    unfinished += record->stage != RequestStage::kDone && record->parent == nullptr;
    held += record->stage == RequestStage::kHeld;
    sequences += record->ticket.sequences;
    if (record->stage == RequestStage::kPreparing)
      TANDEM_CHECK_EQ(being_prepared_.count(record->id), size_t{1});
  }
  TANDEM_CHECK_EQ(unfinished, num_unfinished_);
  TANDEM_CHECK_EQ(held, held_.size());
  TANDEM_CHECK_EQ(sequences, admission_.sequences());
  for (const RequestRecord* record : held_) TANDEM_CHECK(record->stage == RequestStage::kHeld);
}

}  // namespace tandem
