// The model of one simulated rank: a real SequenceTable, a KV memory, and tokens that are a pure
// function of everything that attention reads. A wrong block table, position or copy makes other
// tokens than undisturbed_output() foretells. With stages every rank has the memory of its own
// layers. What each read of its memory goes into the tokens. Stages before the last one hear of
// tokens as real ones do.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/execution/batch_builder.h"
#include "runtime/execution/groups/sequence_table.h"
#include "runtime/execution/ranks/pipeline.h"
#include "runtime/execution/ranks/unheard_tokens.h"
#include "runtime/execution/step_runner.h"
#include "runtime/scheduling/scheduler.h"
#include "tests/support/scheduling/immediate.h"
#include "tests/support/simulation/simulated_encoder.h"
#include "tests/support/simulation/simulated_keys.h"
#include "tests/support/simulation/simulated_mail.h"
#include "tests/support/simulation/simulated_world.h"

namespace tandem::testing_support {

class SimulatedRank final : public Immediate<StepRunner> {
 public:
  // What has been read of the memory up to the chunk's end and to each draft, by sequence.
  using States = std::map<int64_t, std::vector<uint64_t>>;

  // mail: with stages (config.stages), to the other ranks.
  explicit SimulatedRank(const SchedulerConfig& config,
                         const std::shared_ptr<SimulatedMail>& mail = nullptr)
      : config_(config),
        block_size_(config.block_size),
        table_({.block_size = config.block_size,
                .num_device_blocks = config.num_device_blocks,
                .num_host_blocks = config.num_host_blocks,
                .vocab_size = kSimulatedVocab,
                .max_drafts = config.speculation.num_tokens,
                .draft_model = config.speculation.draft_model}),
        device_(static_cast<size_t>(config.num_device_blocks * config.block_size)),
        host_(static_cast<size_t>(config.num_host_blocks * config.block_size)),
        letters_(static_cast<size_t>(config.encoder_ranks)) {
    if (!mail) return;
    static Context context(1);  // no tensors are made in it
    pipeline_ =
        std::make_unique<Pipeline>(context, mail, /*by_device=*/false, config.stages, Stage());
    if (!pipeline_->is_last()) unheard_ = std::make_unique<UnheardTokens>(*pipeline_, table_);
  }

  proto::StepOutput execute(const proto::StepInput& step) override {
    States none;
    return run(step, none);
  }
  // With stages: whether all tokens that the step computes with have arrived. A real rank waits.
  bool hears(const proto::StepInput& step) {
    try {
      if (unheard_) unheard_->hear_for(step);
      return true;
    } catch (const SimulatedMail::NotYet&) {
      return false;
    }
  }
  // From a rank that runs encoders, in its order.
  void deliver(int encoder_rank, SimulatedLetter letter) {
    letters_of(encoder_rank).push_back(std::move(letter));
  }
  // Whether all that the step takes has arrived. A real rank waits.
  bool has_letters(const proto::StepInput& step) {
    std::map<int, size_t> taken;
    for (const proto::EncoderTake& take : step.takes()) ++taken[take.rank()];
    return std::all_of(taken.begin(), taken.end(), [this](const auto& of_rank) {
      return letters_of(of_rank.first).size() >= of_rank.second;
    });
  }
  // A stage's part of a step. states: of the stage before; then this one's, for the next. The
  // step's output is what the last stage says.
  proto::StepOutput run(const proto::StepInput& step, States& states) {
    states_ = &states;
    sampled_.clear();
    const auto scheduled = table_.apply(step);
    for (const proto::EncoderTake& take : step.takes()) this->take(take);
    move(step.swap_out(), device_, host_);
    move(step.swap_in(), host_, device_);
    move(step.copy(), device_, device_);
    proto::StepOutput out;
    out.set_step(step.step());
    for (auto* group : scheduled)
      for (WorkerSequence& seq : group->seqs) make_drafts(seq);
    for (auto* group : scheduled) run_group(*group, *out.add_outputs());
    if (pipeline_ && !unheard_) tell(out);
    table_.advance(scheduled);
    if (unheard_) {
      std::vector<const SampleRow*> rows;
      for (const SampleRow& row : sampled_) rows.push_back(&row);
      unheard_->expect(rows);
      return out;
    }
    for (size_t g = 0; g < scheduled.size(); ++g) {
      int64_t last = -1;
      for (const auto& sample : out.outputs(static_cast<int>(g)).samples()) {
        if (sample.seq_id() == last)
          table_.append_behind_draft(*scheduled[g], sample.seq_id(), sample.token_id());
        else
          table_.append_token(*scheduled[g], sample.seq_id(), sample.token_id());
        last = sample.seq_id();
      }
    }
    return out;
  }
  void check_integrity() const {
    table_.check_integrity();
    if (unheard_) unheard_->check_integrity();
  }

 private:
  using Memory = std::vector<uint64_t>;
  using Copies = google::protobuf::RepeatedPtrField<proto::BlockCopy>;

  // All copies of a list at once.
  void move(const Copies& copies, const Memory& from, Memory& to) {
    if (copies.empty()) return;
    const Memory before = from;
    for (const proto::BlockCopy& copy : copies)
      for (int i = 0; i < block_size_; ++i)
        to.at(static_cast<size_t>(copy.dst() * block_size_ + i)) =
            before.at(static_cast<size_t>(copy.src() * block_size_ + i));
  }

  std::deque<SimulatedLetter>& letters_of(int encoder_rank) {
    return letters_.at(static_cast<size_t>(encoder_rank - config_.first_encoder_rank));
  }
  void take(const proto::EncoderTake& take) {
    std::deque<SimulatedLetter>& letters = letters_of(take.rank());
    const SimulatedLetter letter = std::move(letters.front());
    letters.pop_front();
    SIM_CHECK(letter.seq_id == take.seq_id(), "in the order in which it was asked for");
    if (take.blocks().empty()) return;  // nobody wants it any more
    const std::vector<int32_t> blocks(take.blocks().begin(), take.blocks().end());
    for (int p = 0; p < std::ssize(letter.keys); ++p)
      key_at(blocks, p) = letter.keys[static_cast<size_t>(p)];
  }

  // As StepStages::tell_tokens() does.
  void tell(const proto::StepOutput& out) {
    std::map<int64_t, std::vector<int32_t>> chosen;
    for (const auto& group : out.outputs())
      for (const auto& sample : group.samples())
        chosen[sample.seq_id()].push_back(sample.token_id());
    std::vector<int32_t> tokens;
    for (const SampleRow& row : sampled_) {
      const auto& of_row = chosen.at(row.seq().seq_id);
      const size_t end = tokens.size() + UnheardTokens::most_of(row);
      tokens.insert(tokens.end(), of_row.begin(), of_row.end());
      tokens.resize(end, UnheardTokens::kNone);
    }
    if (!tokens.empty()) pipeline_->tell(tokens);
  }

  // As likely tokens are; some cannot be drafted.
  static void make_drafts(WorkerSequence& seq) {
    if (seq.num_drafts == 0 || seq.seq_id % 5 == 0) return;
    seq.drafted = true;
    int32_t last = seq.token(seq.length() - 1);
    while (std::ssize(seq.drafts) < seq.num_drafts && last % 13 != 0)
      seq.drafts.push_back(last = 3 + 'a' + last * 5 % 8);
  }

  uint64_t& key_at(std::span<const int32_t> blocks, int position) {
    return device_.at(static_cast<size_t>(slot_of(blocks, position, block_size_)));
  }

  void run_group(const WorkerGroup& group, proto::SequenceGroupOutput& out) {
    const proto::SamplingParams& params = group.params;
    const std::vector<int32_t>& encoder = group.encoder.tokens;
    out.set_request_id(group.request_id);
    out.set_seq_id(group.seqs[0].seq_id);
    if (params.has_pooling()) {
      *out.mutable_embedding() = undisturbed_embedding(encoder, params);
      return;
    }
    if (group.compute_encoder)
      for (size_t p = 0; p < encoder.size(); ++p)
        key_at(group.encoder.blocks, static_cast<int>(p)) =
            key_of(salt_of(config_, 1, params), 1, static_cast<int>(p), encoder[p]);
    for (size_t i = 0; i < group.seqs.size(); ++i)
      if (group.seqs[i].chunk > 0) run_sequence(group, static_cast<int>(i), out);
  }

  void run_sequence(const WorkerGroup& group, int index, proto::SequenceGroupOutput& out) {
    const WorkerSequence& seq = group.seqs[static_cast<size_t>(index)];
    const proto::SamplingParams& params = group.params;
    const int prompt = static_cast<int>(seq.prompt.size());
    const int first = seq.num_computed, end = first + seq.chunk;
    for (int p = first; p < end; ++p) {
      SIM_CHECK(seq.token(p) >= 0, "a stage computes with a token that it has not heard");
      key_at(seq.blocks, p) = key_of(salt_of(config_, 0, params), 0, p, seq.token(p));
    }
    if (params.has_prompt_logprobs() && seq.index == 0) {
      out.set_prompt_logprobs_start(first + 1);
      for (int p = first + 1; p <= end && p < prompt; ++p)
        out.add_prompt_logprobs()->add_top()->set_token_id(seq.token(p));
    }
    if (end < seq.length()) return;
    for (size_t i = 0; i < seq.drafts.size(); ++i)
      key_at(seq.blocks, end + static_cast<int>(i)) =
          key_of(salt_of(config_, 0, params), 0, end + static_cast<int>(i), seq.drafts[i]);
    uint64_t hash = mix(params.seed(), static_cast<uint64_t>(seq.index));
    for (int p = 0; p < static_cast<int>(group.encoder.tokens.size()); ++p)
      hash = mix(hash, key_at(group.encoder.blocks, p));
    for (int p = 0; p < end; ++p) hash = mix(hash, key_at(seq.blocks, p));
    std::vector<uint64_t> hashes{hash};
    for (int i = 0; i < static_cast<int>(seq.drafts.size()); ++i)
      hashes.push_back(mix(hashes.back(), key_at(seq.blocks, end + i)));
    const int count = static_cast<int>(seq.drafts.size());
    sampled_.push_back({&group, index, 0, seq.chunk + count, true, count});
    hashes = joined(std::move(hashes), seq.seq_id);
    if (unheard_) return;
    int32_t token = token_of(hashes[0], config_, seq.token(end - 1));
    auto& first_sample = *out.add_samples() = sample_of(params, seq.seq_id, token);
    if (seq.drafted)
      first_sample.mutable_drafts()->mutable_token_ids()->Add(seq.drafts.begin(), seq.drafts.end());
    for (size_t i = 0; i < seq.drafts.size() && seq.drafts[i] == token; ++i) {
      token = token_of(hashes[i + 1], config_, token);
      *out.add_samples() = sample_of(params, seq.seq_id, token);
    }
  }

  // With what the stage before has read, if that is something else; for the next one.
  std::vector<uint64_t> joined(std::vector<uint64_t> own, int64_t seq_id) {
    if (!pipeline_) return own;
    std::vector<uint64_t>& state = (*states_)[seq_id];
    if (pipeline_->stage() == 0) return state = std::move(own);
    SIM_CHECK(state.size() == own.size(), "stages run different steps");
    for (size_t i = 0; i < own.size(); ++i)
      if (state[i] != own[i]) state[i] = mix(state[i], own[i]);
    return state;
  }

  SchedulerConfig config_;
  int block_size_;
  SequenceTable table_;
  Memory device_, host_;
  std::vector<std::deque<SimulatedLetter>> letters_;  // that have arrived, by encoders' rank
  std::unique_ptr<Pipeline> pipeline_;                // null: there are no stages
  std::unique_ptr<UnheardTokens> unheard_;            // null: this rank chooses tokens
  std::vector<SampleRow> sampled_;                    // of the step that runs
  States* states_ = nullptr;                          // of the step that runs
};

}  // namespace tandem::testing_support
