// Who may come in, and who waits for a replica: reservations, admission, the line of held requests.
// Synchronous; the engine core's thread; no clock.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/engine/core/admission.h"
#include "runtime/engine/core/request_record.h"

namespace tandem {

class Intake {
 public:
  // max_requests: unfinished ones; max_sound_bytes: of files that are to be read. More is refused
  // as overload.
  Intake(int max_requests, size_t max_sound_bytes, const AdmissionConfig& admission);

  // Throws InputError: the request names nothing sensible, its id is still being prepared for
  // another, the server takes none any more.
  void check(const proto::SubmitRequest& submit) const;
  // Throws OverloadError. num_kept: requests in any state but those whose client is gone.
  void check_room(const proto::SubmitRequest& submit, size_t num_kept, bool batch_is_here,
                  double now);
  // Comes in; its text is prepared elsewhere. Its id is taken until that is done, even if it is
  // cancelled before.
  void reserve(RequestRecord& record, double now, size_t sound_bytes = 0);
  void end_reservation(const std::string& id);
  bool is_being_prepared(const std::string& id) const { return being_prepared_.count(id) > 0; }
  // It is computed by its parts, which are counted instead where work is.
  void split(RequestRecord& record, double now);
  // Prepared: what it costs is known.
  void size(RequestRecord& record, double now);
  // It has generated so many tokens.
  void progress(RequestRecord& record, double now);
  // It has ended, or is gone.
  void leave(RequestRecord& record, bool completed, double now);

  // The line. hold(): behind all; hold_by_arrival(): before the first that arrived later;
  // hold_again(): before all, by arrival.
  void hold(RequestRecord& record);
  void hold_by_arrival(RequestRecord& record);
  void hold_again(std::vector<RequestRecord*> records);
  void drop_held(RequestRecord& record);
  bool any_held() const { return !held_.empty(); }
  RequestRecord& take_held();

  // No new requests from now on; or no replica will ever be up again.
  void drain() { draining_ = true; }
  bool draining() const { return draining_; }
  void give_up(const std::string& reason) { given_up_ = reason; }
  const std::optional<std::string>& given_up() const { return given_up_; }

  size_t num_unfinished() const { return num_unfinished_; }
  void fill_info(proto::ServerInfo& info, double now);
  // records: all that there are.
  void check_integrity(const std::vector<const RequestRecord*>& records) const;

 private:
  int max_requests_;
  size_t max_sound_bytes_;
  Admission admission_;
  std::unordered_map<std::string, size_t> being_prepared_;  // with the bytes of their sound
  size_t sound_bytes_ = 0;                                  // of all of these
  std::deque<RequestRecord*> held_;
  size_t num_unfinished_ = 0;
  int64_t refused_queue_time_ = 0, refused_deadline_ = 0, refused_full_ = 0;
  bool draining_ = false;
  std::optional<std::string> given_up_;
};

}  // namespace tandem
