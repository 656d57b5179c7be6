// Continuous batching: which sequences run in the next step, and where their keys and values go.
// Synchronous; one thread. The contract, with its reasons: docs/scheduling.md.
//
// Rules:
//  - A step computes at most max_num_batched_tokens tokens (encoder + decoder) of at most
//    max_num_seqs sequences. Decodes come first, then unfinished prompts, then swapped groups, then
//    waiting ones, each in order of (priority, arrival). Nobody overtakes the first waiting group.
//  - Decoder prompts may be cut into chunks. An encoder input is indivisible: it is computed whole
//    or not at all, in the step that admits its group. One that does not fit beside the running
//    sequences gets an encoder turn: a step in which it comes first. One longer than the budget has
//    its turn alone. Two turns do not follow each other while other sequences could run.
//  - Decoder tokens of a group may run in the step of its encoder (cross keys and values are
//    written first), or in any later one.
//  - When blocks run out, the group last in order is preempted: swapped out if that is cheaper than
//    recomputing and the host pool has room, else freed and recomputed (encoder once, prompt +
//    emitted tokens). The last group itself waits instead, with its blocks. A running request never
//    fails; one that can never fit is refused by check_admissible().
//  - A beam group's rounds are not run ahead: it is scheduled again when all its beams' candidates
//    have come, and the search has chosen. Then its beams run together, since workers hear of the
//    choice with that step. Where workers choose as well (BeamState::ahead) rounds run ahead as
//    tokens do, all beams together, and the search follows.
//  - A group whose encoder's output is pooled (SequenceGroup::pools()) is in one step, with its
//    encoder. It takes a seat until the step is completed, but no blocks, and nobody gains by
//    preempting it. It ends with its vector.
//  - A group that comes in uses what the caches have of it: its encoder then costs nothing, and its
//    sequences begin behind the blocks that were found.
//  - Up to max_steps_in_flight steps may be scheduled and not completed. Groups advance when they
//    are scheduled; the tokens of steps in flight are pending, known to the workers only. Workers
//    run the steps in order, so what one step frees the next may use.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "runtime/scheduling/blocks/block_manager.h"
#include "runtime/scheduling/sequence.h"

namespace tandem {

enum class PreemptionMode : uint8_t { kAuto, kRecompute, kSwap };

struct SchedulerConfig {
  int max_num_seqs = 256;
  int max_num_batched_tokens = 2048;
  int block_size = 16;
  int num_device_blocks = 0;
  int num_host_blocks = 0;
  PreemptionMode preemption = PreemptionMode::kAuto;
  // kAuto: the time to move one cached token's keys and values out and back, in units of the time
  // to compute one token.
  double swap_cost = 0.05;
  // Steps that are scheduled and not completed. 1: schedule() and complete_step() alternate.
  int max_steps_in_flight = 1;
  // Workers search beams as we do (searches_ahead(), token_choice.h), over rows of so many entries:
  // then rounds run ahead of their results. 0: they do not.
  int beam_vocabulary = 0;
  // Full blocks of decoder tokens, and encoder results, are kept for whoever has the same (§8).
  bool enable_prefix_caching = false;
  bool enable_encoder_cache = false;
};

// A token that the model sampled, or a sequence that something outside (a stop string) finished.
struct SampledToken {
  std::string request_id;
  int64_t seq_id;
  int32_t token;
};

// False if there is nothing in the step that workers must hear of now.
bool has_work(const proto::StepInput& step);

class Scheduler {
 public:
  // Owns nothing of the caller's. config: counts > 0, num_host_blocks >= 0.
  explicit Scheduler(const SchedulerConfig& config);

  // Throws InputError (kResource) with the numbers if the group could never run: its encoder
  // sequence and the longest decoder sequences that max_tokens allows against the pool, and n
  // against max_num_seqs. kInvalidRequest for an empty prompt or max_tokens < 1.
  void check_admissible(const SequenceGroup& group) const;
  // Throws as check_admissible(), and if the request id is taken.
  void add_seq_group(std::unique_ptr<SequenceGroup> group);
  // In any state, with steps in flight too. Frees all it holds, self and cross,
  // and drops the group; false if there is no such request.
  bool abort_seq_group(const std::string& request_id);

  // The next step; empty groups and deltas when nothing can run, or when all that could run waits
  // for the results of steps in flight. A step without work is not in flight, and has no number.
  // Fewer than max_steps_in_flight steps may be in flight, not counting those at the front whose
  // groups have all gone.
  proto::StepInput schedule(double now);
  // The same, into an empty message (which may lie in an arena).
  void schedule(double now, proto::StepInput& message);
  // The oldest step in flight was computed: its sampled tokens become known. Tokens of groups and
  // sequences that have ended meanwhile are passed over. A step whose groups have all gone may be
  // left out. Fastest with the tokens in the order of the message. Throws std::runtime_error, and
  // changes nothing, if it is another step's turn, or a token is missing, surplus or of something
  // that was not scheduled.
  void complete_step(uint64_t step, const std::vector<SampledToken>& sampled);
  // The answer for a beam is its candidates. A search that ends with them finishes its group, and
  // so does a pooled vector.
  void complete_step(const proto::StepOutput& output);
  // Results of the searches that have ended since the last call.
  std::vector<proto::BeamResult> take_beam_results();
  // Marks a sequence as finished, frees its blocks and drops its pending tokens; no-op if it is
  // unknown or finished. A beam group ends with any of its sequences.
  void finish_sequence(const std::string& request_id, int64_t seq_id, SequenceStatus status);
  // Removes groups whose sequences have all finished, and frees their cross-attention blocks.
  void free_finished_seq_groups();

  // Waiting, running or swapped groups (not those finished and not yet freed).
  bool has_unfinished() const;
  int num_waiting() const;
  int num_running() const;
  int num_swapped() const;
  int num_preemptions() const;  // so far
  // Groups preempted since the last call, in order; one may be there several times.
  std::vector<proto::RequestPreempted> take_preempted();
  int num_steps_in_flight() const { return static_cast<int>(steps_.size()); }
  SequenceGroup* find(const std::string& request_id);
  const BlockManager& block_manager() const { return blocks_; }

  // Queues and statuses agree, every running sequence has a table that covers it, blocks add up,
  // every pending token has one step in flight that samples it. Not within schedule().
  void check_integrity() const;

 private:
  enum class Queue : uint8_t { kWaiting, kRunning, kSwapped, kFinished };

  // A group with its place, at a fixed address: in groups_, then in dropped_ while steps in flight
  // refer to it.
  struct Entry {
    std::unique_ptr<SequenceGroup> group;
    uint64_t ticket = 0;  // order of add_seq_group, among equals
    Queue queue = Queue::kWaiting;
    bool known_to_workers = false;
    bool dropped = false;
    int steps_in_flight = 0;  // those that it is in
    int step_index = -1;      // into step_groups_, within schedule()
  };
  struct Before {  // (priority, arrival)
    bool operator()(const Entry* a, const Entry* b) const;
  };
  using Ordered = std::set<Entry*, Before>;

  // A part of a sequence in the step that is being scheduled.
  struct Chunk {
    Sequence* seq;
    int tokens;
    int blocks = 0;         // new ones, in its table or in place of shared ones
    size_t old_blocks = 0;  // length of its table before, if there are new ones
    BlockPairs copies;      // (shared block, its replacement)
  };
  // A group in the step that is being scheduled.
  struct StepGroup {
    Entry* entry;
    bool in_full;
    bool compute_encoder;
    std::vector<Chunk> chunks;
  };
  // A sequence in a step in flight, as long as the step is.
  struct Scheduled {
    Entry* entry;
    Sequence* seq;
    bool samples;  // the chunk ends at the sequence's last token, or the encoder's output is pooled
    int epoch = 0;           // BeamState's
    bool has_token = false;  // or what comes in its place
    int32_t token = 0;
    const proto::BeamCandidates* candidates = nullptr;  // instead, of a beam
    const proto::BeamMoves* moves = nullptr;            // with them, if the worker says
    bool ended() const {                                // the answer does not matter any more
      const BeamState* beams = entry->group->beams();
      return entry->dropped || seq->finished() || (beams != nullptr && beams->epoch != epoch);
    }
  };
  struct StepInFlight {
    uint64_t number;
    std::vector<Entry*> groups = {};
    std::vector<Scheduled> seqs = {};  // in the order of the message; ids are unique within a step
    // Of find(): where the search goes on, and an index if tokens do not come in order.
    size_t cursor = 0;
    std::unordered_map<int64_t, Scheduled*> by_id = {};

    Scheduled* find(int64_t seq_id);
    bool gone() const;  // all its groups
  };
  // What the answers to a round in flight lead to.
  struct Round {
    Entry* entry;
    BeamSearch search;  // after it
    std::vector<BeamSearch::Move> moves = {};
  };
  // What the passes of one schedule() share.
  struct Step {
    double now;
    int budget;              // tokens left
    bool preempting = true;  // decodes may preempt groups behind them
    bool room = true;        // no running group lacks blocks, none was preempted
    proto::StepInput& message;
  };

  // The passes, in order.
  bool encoder_turn_due() const;
  void schedule_running(Step& step);
  void schedule_swapped(Step& step);
  void schedule_waiting(Step& step);
  void write_message(Step& step);
  static void write_pairs(const BlockPairs& pairs,
                          google::protobuf::RepeatedPtrField<proto::BlockCopy>& out);

  std::vector<Chunk> choose_decodes(const SequenceGroup& group, int budget, bool* has_prompts);
  void choose_prompts(const SequenceGroup& group, int min_tokens, int& budget,
                      std::vector<Chunk>& chunks) const;
  int blocks_to_append(const std::vector<Chunk>& chunks) const;
  void choose_admitted(const SequenceGroup& group, Step& step, std::vector<Chunk>& chunks);
  void append_slots(const SequenceGroup& group, std::vector<Chunk>& chunks, Step& step);
  bool make_room(const Entry& entry, int blocks, Step& step);
  StepGroup& put_in_step(Entry& entry, Step& step);
  bool seats_for(const SequenceGroup& group) const;
  bool keeps_headroom(const SequenceGroup& group, int blocks) const;
  bool can_admit(const Entry& entry) const;
  int encoder_cost(const SequenceGroup& group) const;
  void admit(Entry& entry, Step& step);
  void write_full(const StepGroup& scheduled, proto::SequenceGroupMetadata& out) const;
  void write_delta(const StepGroup& scheduled, proto::SequenceGroupDelta& out) const;
  void take_off(uint64_t number);
  void cache_blocks(const SequenceGroup& group, const Sequence& seq, int from);

  void preempt(Entry& entry, Step& step);
  void note_preempted(const SequenceGroup& group);
  bool prefers_swap(const SequenceGroup& group) const;
  void run(Entry& entry);
  void leave_queue(Entry& entry);
  void enter_queue(Entry& entry, Queue queue);
  void free_tables(const SequenceGroup& group);
  void free_seq_group_cross_attn_blocks(const SequenceGroup& group);
  void drop(Entry& entry);
  StepInFlight& oldest_step(uint64_t number);
  Scheduled* place_of(StepInFlight& step, const std::string& request_id, int64_t seq_id);
  void take_token(StepInFlight& step, const std::string& request_id, int64_t seq_id, int32_t token);
  void take_candidates(StepInFlight& step, const proto::SequenceGroupOutput& output,
                       const proto::SequenceOutput& sample);
  void take_embedding(StepInFlight& step, const proto::SequenceGroupOutput& output);
  static std::vector<BeamCandidate> candidates_of(const proto::BeamCandidates& from);
  void advance_beams(Entry& entry);
  static void launch(SequenceGroup& group, Sequence& seq);
  static std::vector<Round> search_ahead(const StepInFlight& step);
  void finish_round(Round& round);
  void finish_search(const SequenceGroup& group);
  bool write_beam_news(const StepGroup& scheduled, const Chunk& chunk,
                       proto::SequenceDelta& delta) const;
  void finish(Entry& entry, Sequence& seq, SequenceStatus status);
  std::vector<Chunk> choose_beams(const SequenceGroup& group, std::vector<Chunk> chunks) const;
  void finish_step(StepInFlight& step);
  void pop_step();
  void check_entry(const Entry& entry) const;
  void check_beams(const Entry& entry) const;
  void check_steps() const;

  SchedulerConfig config_;
  BlockManager blocks_;
  std::unordered_map<std::string, std::unique_ptr<Entry>> groups_;
  std::vector<std::unique_ptr<Entry>> dropped_;  // that steps in flight refer to
  std::unordered_set<int64_t> seq_ids_;
  Ordered waiting_;
  Ordered swapped_;
  std::vector<Entry*> running_;  // in order
  std::vector<Entry*> finished_;
  int num_running_seqs_ = 0;  // unfinished sequences of running_
  uint64_t next_ticket_ = 0;
  uint64_t next_step_ = 1;
  int num_preemptions_ = 0;
  bool last_was_turn_ = false;
  bool last_lacked_room_ = false;

  std::deque<StepInFlight> steps_;                // oldest first, numbers ascend
  std::vector<StepGroup> step_groups_;            // of the step that is being scheduled
  std::vector<std::vector<Chunk>> spare_chunks_;  // empty ones, to use their memory again
  std::vector<std::string> forgotten_groups_;     // for the next message
  std::vector<int64_t> forgotten_seqs_;
  std::vector<proto::BeamResult> beam_results_;
  std::vector<proto::RequestPreempted> preempted_;
};

}  // namespace tandem
