// Damaged messages of groups whose beams go on by themselves: applied or refused, and what is
// applied is a round that a device can run.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/batch_builder.h"
#include "runtime/scheduler.h"
#include "runtime/token_choice.h"
#include "tests/support/damage.h"
#include "tests/support/test_groups.h"

namespace tandem {
namespace {

using testing::HasSubstr;

constexpr SequenceLimits kLimits{.block_size = 2,
                                 .num_device_blocks = 40,
                                 .num_host_blocks = 5,
                                 .vocab_size = 2000,
                                 .max_positions = 30,
                                 .searches_beams = true};

class DamagedBeams {
 public:
  explicit DamagedBeams(uint32_t seed) : rng_(seed), damage_(rng_) {}

  void step() {
    if (next_ % 5 == 0) add();
    ++next_;
    proto::StepInput step = scheduler_.schedule(0);
    const proto::StepOutput answer = answer_to(step);
    const bool in_flight = has_work(step);
    for (int i = static_cast<int>(rng_() % 8) - 5; i > 0; --i) damage_.apply(step);
    try {
      run(step);
      ++applied;
    } catch (const std::runtime_error& error) {
      ++refused;
      ASSERT_THAT(error.what(), HasSubstr("step input: "));
      for (int64_t r = 0; r < next_; ++r) scheduler_.abort_seq_group(std::to_string(r));
    }
    table_.check_integrity();
    if (in_flight) scheduler_.complete_step(answer);
    scheduler_.free_finished_seq_groups();
    scheduler_.check_integrity();
  }

  int refused = 0, applied = 0, rounds = 0;

 private:
  void add() {
    scheduler_.add_seq_group(
        testing_support::make_group({.request_id = std::to_string(next_),
                                     .seq_ids = {3 * next_, 3 * next_ + 1, 3 * next_ + 2},
                                     .prompt_len = 1 + static_cast<int>(rng_() % 4),
                                     .max_tokens = 8,
                                     .beams = true}));
  }

  // Candidates of whatever is sampled, before the message is damaged.
  proto::StepOutput answer_to(const proto::StepInput& step) {
    proto::StepOutput out;
    out.set_step(step.step());
    const auto answer = [&](const std::string& id, const auto& seqs) {
      const SequenceGroup& group = *scheduler_.find(id);
      auto& output = *out.add_outputs();
      output.set_request_id(id);
      output.set_seq_id(group.seqs()[0]->seq_id());
      for (const auto& seq : seqs) {
        if (seq.token_chunk_size() == 0 || group.find(seq.seq_id())->num_pending_tokens() == 0)
          continue;
        auto& sample = *output.add_samples();
        sample.set_seq_id(seq.seq_id());
        for (int i = 0; i < 6; ++i) {
          sample.mutable_candidates()->add_token_ids(static_cast<int>(rng_() % 2000));
          sample.mutable_candidates()->add_logprobs(-1.0f * static_cast<float>(i));
        }
      }
    };
    for (const auto& group : step.groups()) answer(group.request_id(), group.seq_data());
    for (const auto& group : step.deltas()) answer(group.request_id(), group.seqs());
    return out;
  }

  // As a worker does it, with checks in place of the device.
  void run(const proto::StepInput& step) {
    const auto scheduled = table_.apply(step);
    const Batch batch = build_batch(scheduled, kLimits.block_size);
    for (const int32_t slot : batch.input.attention.slot_mapping)
      ASSERT_TRUE(slot >= 0 && slot < kLimits.block_size * kLimits.num_device_blocks);
    table_.advance(scheduled);
    for (auto* group : scheduled) {
      std::vector<int> sampled;
      for (const SampleRow& row : batch.rows)
        if (row.group == group && row.samples) sampled.push_back(row.seq_index);
      if (sampled.empty()) continue;
      if (group->beams_ahead()) {
        ASSERT_NO_FATAL_FAILURE(round(*group, sampled));
      } else {
        for (const int i : sampled) table_.append_token(*group, group->seq_data(i).seq_id(), 5);
      }
    }
  }

  void round(SequenceTable::Metadata& group, const std::vector<int>& sampled) {
    ++rounds;
    const int n = group.seq_data_size();
    ASSERT_TRUE(searches_ahead(group.sampling_params(), kLimits.vocab_size));
    ASSERT_EQ(group.sampling_params().num_beams(), n);
    const bool first = group.seq_data(0).output_token_ids_size() == 0;
    ASSERT_EQ(sampled.size(), first ? 1u : static_cast<size_t>(n));
    for (size_t i = 0; i < sampled.size(); ++i) ASSERT_EQ(sampled[i], static_cast<int>(i));
    const int length =
        group.seq_data(0).prompt_token_ids_size() + group.seq_data(0).output_token_ids_size();
    const int full = length / kLimits.block_size;
    const int last = length % kLimits.block_size == 0 ? full - 1 : full;
    for (int i = 0; i < n; ++i) {
      const auto& blocks = group.block_tables(i).blocks();
      ASSERT_GT(blocks.size(), last);
      ASSERT_TRUE(blocks[last] >= 0 && blocks[last] < kLimits.num_device_blocks);
      for (int p = 0; p < full; ++p) ASSERT_LT(blocks[p], kLimits.num_device_blocks);
    }
    table_.go_on(group, full, [](int beam, int page) { return -1 - (beam << 16 | page); });
    for (int i = 0; i < n; ++i) table_.append_pending(group, group.seq_data(i).seq_id(), -1 - i);
  }

  std::mt19937 rng_;
  testing_support::Damage damage_;
  SequenceTable table_{kLimits};
  Scheduler scheduler_{{.max_num_seqs = 12,
                        .max_num_batched_tokens = 12,
                        .block_size = 2,
                        .num_device_blocks = 40,
                        .num_host_blocks = 5,
                        .beam_vocabulary = 2000}};
  int64_t next_ = 0;
};

TEST(SequenceTableBeamsRandom, NoMessageBreaksIt) {
  int refused = 0, applied = 0, rounds = 0;
  for (uint32_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    DamagedBeams link(seed);
    for (int i = 0; i < 60 && !::testing::Test::HasFatalFailure(); ++i) link.step();
    refused += link.refused;
    applied += link.applied;
    rounds += link.rounds;
  }
  EXPECT_GE(refused, 1000);
  EXPECT_GE(applied, 8'000);
  EXPECT_GE(rounds, 4'000);
}

}  // namespace
}  // namespace tandem
