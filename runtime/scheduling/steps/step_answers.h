// A worker's answers to one step: each is found its sequence, and checked. Nothing of the scheduler
// changes here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/protocol/tandem.pb.h"
#include "runtime/scheduling/group_queues.h"
#include "runtime/scheduling/steps/steps_in_flight.h"

namespace tandem {

// A token that the model sampled, or a sequence that something outside (a stop string) finished.
struct SampledToken {
  std::string request_id;
  int64_t seq_id;
  int32_t token;
  // With the first one of a sequence whose drafts the worker made: what they are.
  std::optional<std::vector<int32_t>> drafts = {};
};

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

  // Reads the answers to `step`. Throws std::runtime_error if one is missing, surplus, of something
  // that was not scheduled, or not of the kind that its request asks for; those of groups and
  // sequences that have ended meanwhile are passed over. Fastest in the order of the message.
  void read(const StepInFlight& step, const std::vector<SampledToken>& sampled);
  // The messages must stay as they are while the answers are used.
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
