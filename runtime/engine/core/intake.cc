#include "runtime/engine/core/intake.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "runtime/request/request_error.h"

namespace tandem {
namespace {

// Requests are ready so many seconds before their turn: long enough to be read and prepared; what
// is decided earlier is decided worse. But a few are always.
constexpr double kReadyBefore = 0.25;
constexpr double kFewestReady = 2;

// Before those whose turn has not come.
bool goes_first(const RequestRecord& record) {
  return record.begun || record.turn || (record.parent != nullptr && record.parent->begun);
}

}  // namespace

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
  if (draining_ && !is_unread(id))
    throw InputError(ErrorKind::kUnavailable, "the server is shutting down");
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
  if (admission_.takes_any(submit.timeout())) return;
  const auto refusal = admission_.refusal(submit.timeout(), work_before_newcomer(now), now);
  if (!refusal) return;
  ++(refusal->by_deadline ? refused_deadline_ : refused_queue_time_);
  throw OverloadError(refusal->message(), refusal->retry_after,
                      refusal->by_deadline ? "timeout" : "");
}

// What its client does counts once, however many requests it has.
void Intake::reserve(RequestRecord& record, double now, size_t sound_bytes,
                     const RequestRecord* first) {
  being_prepared_.emplace(record.id, sound_bytes);
  sound_bytes_ += sound_bytes;
  if (record.parent == nullptr && take_over_unread(record)) return;
  admission_.enter(record.ticket, now);
  if (record.parent != nullptr) return;
  ++num_unfinished_;
  if (record.deadline > 0) return;
  record.stay = first != nullptr && first->stay ? first->stay : line_.patience().enter(now);
  ++record.stay->requests;
}

void Intake::end_reservation(const std::string& id) {
  const auto it = being_prepared_.find(id);
  if (it == being_prepared_.end()) return;
  sound_bytes_ -= it->second;
  being_prepared_.erase(it);
}

void Intake::split(RequestRecord& record, double now) {
  end_turn(record);
  admission_.leave(record.ticket, /*completed=*/false, now);
}

void Intake::size(RequestRecord& record, double now) {
  admission_.size(record.ticket, work_of(record.state->inputs(), record.state->params()), now);
}

void Intake::progress(RequestRecord& record, double now) {
  admission_.progress(record.ticket, record.state->num_output_tokens(), now);
}

void Intake::leave(RequestRecord& record, End end, double now) {
  if (record.parent == nullptr) --num_unfinished_;
  end_turn(record);
  if (record.ticket.sequences > 0) admission_.leave(record.ticket, end == End::kCompleted, now);
  if (record.started_at > 0 && end != End::kFailed)
    line_.note_service(now - record.started_at, end == End::kCompleted);
  if (record.stay == nullptr) return;
  Patience::Stay& stay = *record.stay;
  if (end == End::kLeft) line_.patience().left(stay, record.client ? now : record.client_lost);
  if (--stay.requests == 0) line_.patience().served(stay);
  record.stay.reset();
}

// --- The line ------------------------------------------------------------------------------------

void Intake::hold(RequestRecord& record) {
  record.stage = RequestStage::kHeld;
  LinePlace& place = record.place;
  place.record = &record;
  place.arrival = record.arrival;
  place.serial = record.serial;
  place.priority = record.priority;
  place.timeout = record.deadline > 0 ? record.deadline - record.arrival : 0;
  place.work = record.ticket.work;
  if (record.stay) record.stay->held += place.work;
  place.client_work = record.stay ? record.stay->held : place.work;
  set_pace();
  // Its place was one of an ordinary request.
  if (record.turn && !line_.is_ordinary(place)) end_turn(record);
  place.begun = goes_first(record);
  line_.add(place);
}

void Intake::drop_held(RequestRecord& record) {
  line_.remove(record.place);
  if (record.stay) record.stay->held -= record.place.work;
  record.stage = RequestStage::kMoving;
}

RequestRecord* Intake::next_held(double now) {
  if (line_.size() == 0) return nullptr;
  line_pace_ = admission_.work_per_second(now);
  set_pace();
  // A turn is lost to a wait for a seat that was too long: batches whose requests are of one length
  // end all at once, and what was called when the one before began would be late.
  for (;;) {
    LinePlace& place = *line_.first(now);
    if (place.record == nullptr || !place.record->turn || !line_.is_late(place, now))
      return place.record;
    line_.remove(place);
    end_turn(*place.record);
    place.begun = goes_first(*place.record);
    line_.add(place);
  }
}

RequestRecord& Intake::take_held(RequestRecord& record, double now) {
  line_.take(record.place);
  if (record.stay) record.stay->held -= record.place.work;
  record.stage = RequestStage::kMoving;
  end_turn(record);
  record.begun = true;
  if (record.parent != nullptr) record.parent->begun = true;
  record.started_at = now;
  return record;
}

// --- Unread requests -----------------------------------------------------------------------------

void Intake::enter_unread(const std::string& id, uint64_t serial, double now) {
  UnreadRequest& request = unread_[id];
  request.id = id;
  admission_.enter(request.ticket, now);
  ++num_unfinished_;
  request.stay = line_.patience().enter(now);
  request.stay->requests = 1;
  LinePlace& place = request.place;
  place.unread = &request;
  place.arrival = now;
  place.serial = serial;
  place.work = place.client_work = request.stay->held = request.ticket.work;
  set_pace();
  line_.add(place);
}

void Intake::drop_unread(const std::string& id, double now) {
  const auto it = unread_.find(id);
  if (it == unread_.end()) return;
  UnreadRequest& request = it->second;
  if (request.called) {
    --num_called_;
    --num_turns_;
  } else {
    line_.remove(request.place);
    line_.patience().left(*request.stay, now);
  }
  line_.patience().served(*request.stay);
  admission_.leave(request.ticket, /*completed=*/false, now);
  --num_unfinished_;
  unread_.erase(it);
}

std::optional<std::string> Intake::call_unread(size_t ahead, double now) {
  if (!given_up_ && line_pace_ > 0 && admission_.mean_work() > 0) {
    const double soon = kReadyBefore * line_pace_ / admission_.mean_work();
    if (soon < static_cast<double>(ahead))
      ahead = static_cast<size_t>(std::ceil(std::max(soon, kFewestReady)));
  }
  while (num_turns_ < ahead && num_called_ < unread_.size()) {
    LinePlace& place = *line_.first_to_call(now);
    line_.take(place);
    ++num_turns_;
    if (place.unread != nullptr) {
      place.unread->called = true;
      place.unread->stay->held = 0;
      ++num_called_;
      return place.unread->id;
    }
    // One that has been read already has its turn as well.
    place.record->turn = place.begun = true;
    line_.add(place);
  }
  return std::nullopt;
}

bool Intake::take_over_unread(RequestRecord& record) {
  const auto it = unread_.find(record.id);
  if (it == unread_.end()) return false;
  UnreadRequest& request = it->second;
  record.turn = request.called;
  if (request.called)
    --num_called_;
  else
    line_.remove(request.place);
  record.arrival = request.place.arrival;
  record.ticket = request.ticket;
  record.stay = std::move(request.stay);
  record.stay->held = 0;
  if (record.deadline > 0) {  // it says itself how long it waits
    line_.patience().served(*record.stay);
    record.stay.reset();
  }
  unread_.erase(it);
  return true;
}

void Intake::end_turn(RequestRecord& record) {
  if (std::exchange(record.turn, false)) --num_turns_;
}

// Those that do not wait in the line are before it.
double Intake::work_before_newcomer(double now) {
  return std::max(0.0, admission_.work() - line_.work()) + line_.work_ahead(now);
}

void Intake::fill_info(proto::ServerInfo& info, double now) {
  info.set_num_requests(static_cast<int>(num_unfinished_));
  info.set_draining(draining_);
  info.set_expected_wait(admission_.expected_wait(work_before_newcomer(now), now));
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
  size_t called = 0, turns = 0;
  for (const auto& [id, request] : unread_) {
    TANDEM_CHECK(request.place.unread == &request && request.stay && request.id == id);
    TANDEM_CHECK_NE(request.place.waiting, request.called);
    sequences += request.ticket.sequences;
    called += request.called;
  }
  TANDEM_CHECK_EQ(called, num_called_);
  unfinished += unread_.size();
  held += unread_.size() - called;
  for (const RequestRecord* record : records) {
    turns += record->turn;
    TANDEM_CHECK(!record->turn || record->stage == RequestStage::kPreparing ||
                 record->stage == RequestStage::kHeld);
    unfinished += record->stage != RequestStage::kDone && record->parent == nullptr;
    held += record->stage == RequestStage::kHeld;
    TANDEM_CHECK_EQ(record->place.waiting, record->stage == RequestStage::kHeld);
    TANDEM_CHECK(!record->stay || record->stage != RequestStage::kDone);
    sequences += record->ticket.sequences;
    if (record->stage == RequestStage::kPreparing)
      TANDEM_CHECK_EQ(being_prepared_.count(record->id), size_t{1});
  }
  TANDEM_CHECK_EQ(turns + called, num_turns_);
  TANDEM_CHECK_EQ(unfinished, num_unfinished_);
  TANDEM_CHECK_EQ(held, line_.size());
  line_.check_integrity();
  TANDEM_CHECK_EQ(sequences, admission_.sequences());
}

}  // namespace tandem
