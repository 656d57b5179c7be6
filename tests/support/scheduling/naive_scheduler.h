// Checks each step by the rules at the top of scheduler.h, from outside. It compares where groups
// were before schedule(), the step, and where they are afterwards. Recounts everything.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/scheduling/scheduler.h"
#include "tests/support/scheduling/fake_worker.h"

namespace tandem::testing_support {

class NaiveScheduler {
 public:
  NaiveScheduler(const SchedulerConfig& config, Scheduler& scheduler)
      : config_(config), scheduler_(scheduler) {}

  void added(const SequenceGroup& group) {
    order_.insert({group.priority(), group.arrival_time(), next_++, group.request_id()});
  }
  // Forgets groups that the scheduler does not have any more.
  void sweep() {
    std::erase_if(order_, [&](const Key& key) { return scheduler_.find(id_of(key)) == nullptr; });
  }

  proto::StepInput schedule(double now) {
    sweep();
    before_ = look();
    share_ = (before_.running_seqs + config_.stages - 1) / config_.stages;
    before_.able = std::min(before_.able, share_);
    proto::StepInput step = scheduler_.schedule(now);
    scheduler_.check_integrity();
    after_ = look();
    read(step);
    // It may wait because of drafts. (Where the first group is at another stage, one that lacks
    // blocks may have preempted others in vain.)
    const bool same = after_.waiting == before_.waiting && after_.running == before_.running;
    if (!has_work(step) && config_.speculation.num_tokens > 0 && (config_.stages == 1 || same)) {
      EXPECT_TRUE(same);
      last_was_turn_ = turn_ = lacked_blocks_ = false;
      return step;
    }
    if (has_work(step)) check_stages(step.step());
    check_tokens();
    check_order();
    check_encoders();
    check_decodes_first();
    check_pooled();
    return step;
  }

  FakeWorker::LiveBlocks live_blocks() {
    std::set<std::string> ids;
    for (const Key& key : order_) ids.insert(id_of(key));
    return FakeWorker::live_blocks(scheduler_, ids);
  }

  int turns() const { return turns_; }  // steps in which something indivisible came first
  int preempted() const { return preempted_; }
  int swapped_in() const { return swapped_in_; }
  int sources_found() const { return sources_found_; }  // groups that needed no encoder

 private:
  using Key = std::tuple<int, double, int, std::string>;
  using Ids = std::vector<std::string>;
  static const std::string& id_of(const Key& key) { return std::get<3>(key); }

  struct Look {
    Ids waiting, running, swapped;                        // in order
    std::map<std::string, std::vector<int64_t>> decodes;  // one token to compute
    int running_seqs = 0;
    int able = 0;  // of those, with tokens left to sample; of a step's share
  };

  Look look() const {
    Look look;
    for (const Key& key : order_) {
      const SequenceGroup* group = scheduler_.find(id_of(key));
      if (group == nullptr || group->finished()) continue;
      const SequenceStatus status = group->unfinished_seqs().front()->status();
      (status == SequenceStatus::kRunning   ? look.running
       : status == SequenceStatus::kSwapped ? look.swapped
                                            : look.waiting)
          .push_back(id_of(key));
      if (status != SequenceStatus::kRunning) continue;
      const bool late = is_late(group);
      for (const Sequence* seq : group->unfinished_seqs()) {
        ++look.running_seqs;
        if (late) continue;
        look.able += seq->output_len() < group->params().max_tokens();
        if (seq->num_uncomputed_tokens() == 1 && seq->output_len() < group->params().max_tokens())
          look.decodes[id_of(key)].push_back(seq->seq_id());
      }
    }
    return look;
  }

  void read(const proto::StepInput& step) {
    chunks_.clear();
    encoders_.clear();
    scheduled_.clear();
    for (const auto& group : step.groups()) {
      scheduled_.insert(group.request_id());
      if (group.compute_encoder()) encoders_.push_back(group.request_id());
      if (group.sampling_params().has_pooling()) {
        ASSERT_TRUE(group.compute_encoder());
        ASSERT_EQ(group.seq_data_size(), 1);
        ASSERT_EQ(group.seq_data(0).token_chunk_size() + group.seq_data(0).prompt_token_ids_size() +
                      group.block_tables(0).blocks_size() + group.cross_block_table().blocks_size(),
                  0);
        continue;
      }
      for (const auto& seq : group.seq_data())
        if (seq.token_chunk_size() > 0) chunks_[seq.seq_id()] = seq.token_chunk_size();
      for (int i = 0; i < group.seq_data_size(); ++i) {
        const Sequence* seq = scheduler_.find(group.request_id())->find(group.seq_data(i).seq_id());
        const auto& data = group.seq_data(i);
        ASSERT_EQ(data.num_computed_tokens() + data.token_chunk_size(), seq->num_computed_tokens());
        ASSERT_EQ(data.index(), seq->index());
        const int samples = seq->num_computed_tokens() ==
                            data.prompt_token_ids_size() + data.output_token_ids_size();
        ASSERT_EQ(seq->num_pending_tokens(), samples) << "in full: all tokens were known";
      }
    }
    for (const auto& group : step.deltas()) {
      ASSERT_TRUE(scheduled_.insert(group.request_id()).second) << "in full and as a delta";
      ASSERT_FALSE(group.compute_encoder());
      ASSERT_GT(group.seqs_size(), 0);
      for (const auto& seq : group.seqs()) {
        chunks_[seq.seq_id()] =
            seq.token_chunk_size() + seq.draft_token_ids_size() + seq.num_drafts();
        if (seq.draft_token_ids_size() + seq.num_drafts() > 0)
          check_drafts(group.request_id(), seq);
      }
    }
  }

  // In one of the steps that other stages may still compute. (Groups in flight stay in memory.)
  bool is_late(const SequenceGroup* group) const {
    const uint64_t oldest = scheduler_.steps_in_flight().oldest_number();
    return std::any_of(latest_.begin(), latest_.end(), [&](const auto& step) {
      return oldest > 0 && step.first >= oldest && step.second.count(group) > 0;
    });
  }

  // Steps at different stages have no group in common. (A group that comes back may be in one.)
  void check_stages(uint64_t number) {
    std::set<const SequenceGroup*> groups;
    for (const std::string& id : scheduled_) {
      const SequenceGroup* group = scheduler_.find(id);
      groups.insert(group);
      EXPECT_FALSE(is_late(group) && std::count(before_.running.begin(), before_.running.end(), id))
          << id << " is at another stage";
    }
    latest_.emplace_back(number, std::move(groups));
    if (std::ssize(latest_) >= config_.stages) latest_.pop_front();
  }

  // They stand behind the last token of all, and leave room for the one that comes with them.
  void check_drafts(const std::string& id, const proto::SequenceDelta& delta) {
    const SequenceGroup& group = *scheduler_.find(id);
    const Sequence& seq = *group.find(delta.seq_id());
    const int drafts = delta.draft_token_ids_size() + delta.num_drafts();
    EXPECT_TRUE(delta.num_drafts() == 0 || config_.speculation.draft_model);
    EXPECT_TRUE(delta.num_drafts() == 0 || delta.draft_token_ids_size() == 0);
    EXPECT_EQ(delta.token_chunk_size(), 1);
    EXPECT_LE(drafts, config_.speculation.num_tokens);
    EXPECT_EQ(seq.num_pending_tokens(), 1);
    EXPECT_EQ(seq.num_computed_tokens(), seq.num_known_tokens());
    EXPECT_LE(seq.output_len() + drafts, group.params().max_tokens());
    EXPECT_LE(after_.running_seqs, config_.speculation.disable_by_batch_size);
    EXPECT_LE(scheduler_.block_manager().blocks_for(seq.num_computed_tokens() + drafts),
              std::ssize(scheduler_.block_manager().tables().self(seq)));
  }

  int encoder_len(const std::string& id) const {
    return scheduler_.find(id)->encoder_seq().length();
  }

  // Tokens of prompts that are not divided, of a group that has just come in: those that the step
  // computes, or all of them.
  int whole_prompts(const std::string& id, bool all) const {
    const SequenceGroup& group = *scheduler_.find(id);
    if (!config_.whole_prompts || group.pools()) return 0;
    int tokens = 0;
    for (const auto& seq : group.seqs()) {
      const auto chunk = chunks_.find(seq->seq_id());
      if (seq->prompt_len() < 2 || chunk == chunks_.end()) continue;
      const int before = seq->num_computed_tokens() - chunk->second;
      tokens += all ? seq->prompt_len() : std::max(0, seq->prompt_len() - before);
    }
    return tokens;
  }

  // What the groups that came in cost at once, without what was found of their prompts, or with it.
  // (A scheduler asks before it looks for them.)
  int indivisible(const std::string& id, bool all) const {
    const bool encodes = std::find(encoders_.begin(), encoders_.end(), id) != encoders_.end();
    return (encodes ? encoder_len(id) : 0) + whole_prompts(id, all);
  }

  void check_tokens() {
    int divisible = 0, whole = 0, wholes = 0;
    for (const auto& [seq, tokens] : chunks_) divisible += tokens;
    for (const std::string& id : minus(before_.waiting, after_.waiting)) {
      whole += indivisible(id, false);
      wholes += indivisible(id, false) > 0;
      divisible -= whole_prompts(id, false);
    }
    if (whole > config_.max_num_batched_tokens) {
      EXPECT_EQ(wholes, 1) << "what is long has a step of its own";
      EXPECT_EQ(divisible, 0);
    } else {
      EXPECT_LE(whole + divisible, config_.max_num_batched_tokens);
    }
    EXPECT_LE(static_cast<int>(chunks_.size()), config_.max_num_seqs);
    EXPECT_LE(after_.running_seqs, config_.max_num_seqs);
    for (const std::string& id : scheduled_)
      EXPECT_TRUE(std::count(after_.running.begin(), after_.running.end(), id) == 1) << id;
  }

  static Ids minus(const Ids& a, const Ids& b) {
    Ids out;
    for (const std::string& id : a)
      if (std::find(b.begin(), b.end(), id) == b.end()) out.push_back(id);
    return out;
  }
  static void expect_prefix(const Ids& part, const Ids& whole, const char* what) {
    ASSERT_LE(part.size(), whole.size());
    EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin())) << what;
  }

  // First come, first served, in and out: groups come in from the front of their queue and are
  // preempted from the back of theirs.
  void check_order() {
    const Ids admitted = minus(before_.waiting, after_.waiting);
    const Ids swapped_in = minus(before_.swapped, after_.swapped);
    Ids preempted = minus(before_.running, after_.running);
    expect_prefix(admitted, before_.waiting, "admitted out of order");
    expect_prefix(swapped_in, before_.swapped, "swapped in out of order");
    Ids running = before_.running;
    std::erase_if(running, [&](const std::string& id) { return scheduler_.find(id)->pools(); });
    num_preempted_now_ = preempted.size();
    std::reverse(running.begin(), running.end());
    std::reverse(preempted.begin(), preempted.end());
    expect_prefix(preempted, running, "preempted out of order");
    EXPECT_TRUE(preempted.empty() || (admitted.empty() && swapped_in.empty()));
    EXPECT_TRUE(admitted.empty() || after_.swapped.empty()) << "swapped groups go first";
    for (const std::string& id : encoders_)
      EXPECT_EQ(std::count(admitted.begin(), admitted.end(), id), 1)
          << "the encoder runs in the step that admits its group, and in no other";
    EXPECT_TRUE(config_.enable_encoder_cache || admitted.size() == encoders_.size());
    sources_found_ += static_cast<int>(admitted.size() - encoders_.size());
    preempted_ += static_cast<int>(preempted.size());
    swapped_in_ += static_cast<int>(swapped_in.size());
  }

  // A turn: an encoder, or a whole prompt, that does not fit beside those who run already. Never
  // twice in a row while others run.
  void check_encoders() {
    Ids wholes = minus(before_.waiting, after_.waiting);
    std::erase_if(wholes, [&](const std::string& id) { return indivisible(id, true) == 0; });
    const bool turn = wholes.size() == 1 &&
                      indivisible(wholes[0], true) + before_.able > config_.max_num_batched_tokens;
    if (turn) ++turns_;
    EXPECT_FALSE(turn && last_was_turn_ && before_.able > 0);
    EXPECT_FALSE(turn && lacked_blocks_ && !share_was_full_ && before_.able > 0)
        << "blocks go to running groups first";
    last_was_turn_ = turn;
    turn_ = turn;
  }

  // Outside turns, a decode is left out for want of budget, to other decodes, or of blocks only.
  void check_decodes_first() {
    lacked_blocks_ = false;
    if (turn_) return;
    int decodes = 0, left_out = 0;
    bool lacking = false;
    for (const auto& [id, seqs] : before_.decodes) {
      const SequenceGroup& group = *scheduler_.find(id);
      if (group.unfinished_seqs().front()->status() != SequenceStatus::kRunning) continue;
      int blocks = 0, missing = 0;
      for (const int64_t seq : seqs) {
        if (chunks_.count(seq) > 0) {
          ++decodes;
          continue;
        }
        ++missing;
        const Sequence& sequence = *group.find(seq);
        blocks += scheduler_.block_manager().blocks_to_append(sequence, sequence.length());
      }
      if (blocks > scheduler_.block_manager().device().num_free())
        lacking = true;
      else
        left_out += missing;
      EXPECT_TRUE(missing == 0 || encoders_.empty() || config_.stages > 1)
          << "admitted before others have run";
    }
    EXPECT_TRUE(left_out == 0 || decodes == config_.max_num_batched_tokens ||
                (config_.stages > 1 && std::ssize(chunks_) >= share_));
    lacked_blocks_ = lacking && decodes < config_.max_num_batched_tokens;
    share_was_full_ = config_.stages > 1 && std::ssize(chunks_) >= share_;
  }

  // One that is pooled needs no blocks: it waits for a seat and tokens, and behind others, only.
  void check_pooled() {
    if (after_.waiting.empty() || !after_.swapped.empty() || turn_ || lacked_blocks_ ||
        num_preempted_now_ > 0 || !scheduler_.find(after_.waiting[0])->pools())
      return;
    int tokens = encoder_len(after_.waiting[0]);
    for (const std::string& id : encoders_) tokens += encoder_len(id);
    for (const auto& [seq, chunk] : chunks_) tokens += chunk;
    const int seats = std::min(config_.max_num_seqs, config_.max_num_batched_tokens);
    const int seqs = after_.running_seqs + static_cast<int>(after_.waiting.size());
    const int share = (std::min(seqs, config_.max_num_seqs) + config_.stages - 1) / config_.stages;
    EXPECT_TRUE(tokens > config_.max_num_batched_tokens || after_.running_seqs >= seats ||
                (config_.stages > 1 && std::ssize(chunks_) >= share))
        << after_.waiting[0] << " waits for nothing";
  }

  SchedulerConfig config_;
  Scheduler& scheduler_;
  std::set<Key> order_;
  int next_ = 0;
  Look before_, after_;
  int share_ = 0;  // of the running sequences, in a step
  // By number: the groups of the last steps, one less than there are stages.
  std::deque<std::pair<uint64_t, std::set<const SequenceGroup*>>> latest_;
  std::map<int64_t, int> chunks_;  // by sequence
  Ids encoders_;
  std::set<std::string> scheduled_;
  bool turn_ = false, last_was_turn_ = false;
  bool lacked_blocks_ = false;   // a running group, in the last step, and it was no turn
  bool share_was_full_ = false;  // in that step, so that perhaps it was not tried
  size_t num_preempted_now_ = 0;
  int turns_ = 0, preempted_ = 0, swapped_in_ = 0, sources_found_ = 0;
};

}  // namespace tandem::testing_support
