// Steps in flight (docs/design/scheduling.md §7): scheduled and not yet completed. Also their
// sequences, and the workers' answers.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/protocol/tandem.pb.h"
#include "runtime/scheduling/group_queues.h"

namespace tandem {

// A sequence in a step in flight, as long as the step is.
struct SequenceInFlight {
  QueuedGroup* queued;
  Sequence* seq;
  bool samples;   // the chunk ends at the sequence's last token, or the encoder's output is pooled
  int epoch = 0;  // BeamState's
  std::vector<int32_t> drafts = {};  // that are verified: more tokens may come, at most so many
  int asked_drafts = 0;              // or so many that the worker makes, and says

  bool has_drafts() const { return asked_drafts > 0 || !drafts.empty(); }
  bool ended() const;  // the answer does not matter any more
};

struct StepInFlight {
  uint64_t number = 0;
  double scheduled_at = 0;
  bool alone = false;         // no other step was in flight when it was scheduled
  bool only_decodes = false;  // a token of each sequence, and drafts: no encoder, prompt or copy
  std::vector<QueuedGroup*> groups = {};
  std::vector<SequenceInFlight> seqs = {};  // in the order of the message; ids are unique

  bool has_drafts() const;
};

// The ledger of steps that are scheduled and not completed.
class StepsInFlight {
 public:
  // The next step. Its groups and sequences are the caller's to add (add_group()).
  StepInFlight& begin(double now);
  static void add_group(StepInFlight& step, QueuedGroup& queued);
  // The oldest step. Throws std::runtime_error if it has another number, or there is none.
  StepInFlight& oldest(uint64_t number);
  // Removes it.
  void complete_oldest();

  int size() const { return static_cast<int>(steps_.size()); }
  // Some sequence may have got more tokens than are pending, in a step that is followed by so many
  // others, or more.
  bool has_drafts(int behind = 0) const;
  // Whether the group is in one of the last `latest` steps, counted from the next one.
  bool has_lately(const QueuedGroup& queued, int latest) const {
    return queued.steps_in_flight > 0 &&
           queued.last_step + static_cast<uint64_t>(latest) >= next_number_;
  }
  // The oldest one's number; 0: there is none.
  uint64_t oldest_number() const { return steps_.empty() ? 0 : steps_.front().number; }
  // When the step that was completed last was scheduled.
  double completed_scheduled_at() const { return completed_scheduled_at_; }
  // Of all groups in all steps, oldest step first; one may be there several times.
  std::vector<std::string> request_ids() const;

  // Numbers ascend by one, and every pending token has one step that samples it.
  void check_integrity(const GroupQueues& queues) const;

 private:
  std::deque<StepInFlight> steps_;  // oldest first
  std::vector<StepInFlight> spare_;
  uint64_t next_number_ = 1;
  double completed_scheduled_at_ = 0;
};

// A worker's answers to one step: each is found its sequence, and checked. Nothing of the scheduler
// changes here.
class StepAnswers {
 public:
  // An answer, or nothing: the sequence had none to give, or ended meanwhile.
  struct Answer {
    bool given = false;
    int32_t token = 0;
    std::vector<int32_t> more = {};                   // of a sequence with drafts: behind `token`
    std::optional<std::vector<int32_t>> drafts = {};  // if the worker was asked for some, and could
    const proto::BeamCandidates* candidates = nullptr;  // of a beam
    const proto::BeamMoves* moves = nullptr;            // with them, if the worker says
  };

  // `queues` must outlive it.
  explicit StepAnswers(const GroupQueues& queues) : queues_(queues) {}

  // Reads the answers to `step`. Throws std::runtime_error if an answer is missing, surplus, of an
  // unscheduled sequence, or of another kind than its request asks for. Skips answers of groups and
  // sequences that have ended meanwhile. Fastest in the order of the message. `output` must stay as
  // it is while the answers are used.
  void read(const StepInFlight& step, const proto::StepOutput& output);
  // To step.seqs[i].
  const Answer& of(size_t i) const { return answers_[i]; }

 private:
  void begin(const StepInFlight& step);
  size_t find(int64_t seq_id);
  Answer* place_of(const std::string& request_id, int64_t seq_id, bool may_go_on = false);
  const SequenceInFlight& scheduled(const Answer& answer) const;
  const SequenceGroup& group_of(const Answer& answer) const;
  void take_more(const SequenceInFlight& scheduled, int32_t token, Answer& answer) const;
  void take_token(const std::string& request_id, int64_t seq_id, int32_t token);
  void take_drafts(const std::string& request_id, int64_t seq_id, std::vector<int32_t> drafts);
  void take_candidates(const proto::SequenceGroupOutput& output,
                       const proto::SequenceOutput& sample);
  bool is_part(const proto::SequenceGroupOutput& output);
  void take_embedding(const proto::SequenceGroupOutput& output);
  void check_whole() const;

  const GroupQueues& queues_;
  const StepInFlight* step_ = nullptr;
  std::vector<Answer> answers_;  // by place in step_->seqs
  // Of find(): where the search goes on, and an index if answers do not come in order.
  size_t cursor_ = 0;
  std::unordered_map<int64_t, size_t> by_id_;
};

}  // namespace tandem
