// Who may come in, and who waits for a replica: reservations, admission, the line of held requests.
// Synchronous; the engine core's thread; no clock.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/engine/core/admission.h"
#include "runtime/engine/core/request_record.h"

namespace tandem {

// A request that waits in the line before anybody has read it: it costs little if its client
// leaves.
struct UnreadRequest {
  std::string id;
  Admission::Ticket ticket;
  std::shared_ptr<Patience::Stay> stay;
  LinePlace place;
  bool called = false;  // its turn has come
};

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
  // Comes in, to be read when its turn has come. serial: in order of arrival, among all requests.
  void enter_unread(const std::string& id, uint64_t serial, double now);
  bool is_unread(const std::string& id) const { return unread_.count(id) > 0; }
  // It will not be read: its client has left; or, if it had been called, something is wrong with
  // it.
  void drop_unread(const std::string& id, double now);
  // Calls the next one, so that `ahead` requests are ready for a replica or about to be: its id.
  std::optional<std::string> call_unread(size_t ahead, double now);
  size_t num_unread() const { return unread_.size(); }

  // Comes in; its text is prepared elsewhere. Its id is taken until that is done, even if it is
  // cancelled before. first: of the same client's, if that is there. An unread request of its id
  // gives it its place.
  void reserve(RequestRecord& record, double now, size_t sound_bytes = 0,
               const RequestRecord* first = nullptr);
  void end_reservation(const std::string& id);
  bool is_being_prepared(const std::string& id) const { return being_prepared_.count(id) > 0; }
  // It is computed by its parts, which are counted instead where work is.
  void split(RequestRecord& record, double now);
  // Prepared: what it costs is known.
  void size(RequestRecord& record, double now);
  // It has generated so many tokens.
  void progress(RequestRecord& record, double now);
  enum class End {
    kCompleted,
    kFailed,
    kLeft,  // its client has gone, or wants it no more
  };
  void leave(RequestRecord& record, End end, double now);

  // The line, in which prepared requests wait for a replica (WaitingLine).
  void hold(RequestRecord& record);
  void drop_held(RequestRecord& record);
  // The next one, which stays there until it is taken; null: there is none, or it is not read yet.
  RequestRecord* next_held(double now);
  RequestRecord& take_held(RequestRecord& record, double now);
  // Of sequences at a replica: WaitingLine::most_at_once().
  int most_at_once(int most, int least) const { return line_.most_at_once(most, least); }

  // No new requests from now on; or no replica will ever be up again.
  void drain() { draining_ = true; }
  bool draining() const { return draining_; }
  void give_up(const std::string& reason) { given_up_ = reason; }
  const std::optional<std::string>& given_up() const { return given_up_; }

  size_t num_unfinished() const { return num_unfinished_; }
  size_t num_held() const { return line_.size(); }
  void fill_info(proto::ServerInfo& info, double now);
  // records: all that there are.
  void check_integrity(const std::vector<const RequestRecord*>& records) const;

 private:
  double work_before_newcomer(double now);
  bool take_over_unread(RequestRecord& record);
  void end_turn(RequestRecord& record);
  void set_pace() { line_.set_pace({line_pace_, admission_.mean_work()}); }

  int max_requests_;
  size_t max_sound_bytes_;
  Admission admission_;
  std::unordered_map<std::string, size_t> being_prepared_;  // with the bytes of their sound
  size_t sound_bytes_ = 0;                                  // of all of these
  WaitingLine line_;
  std::unordered_map<std::string, UnreadRequest> unread_;
  size_t num_called_ = 0;  // unread ones whose turn has come
  size_t num_turns_ = 0;   // with those that were read since, and have not been at a replica
  double line_pace_ = 0;   // tokens a second, as of the last look
  size_t num_unfinished_ = 0;
  int64_t refused_queue_time_ = 0, refused_deadline_ = 0, refused_full_ = 0;
  bool draining_ = false;
  std::optional<std::string> given_up_;
};

}  // namespace tandem
