// Damaged messages against the worker's copy of the groups.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/batch_builder.h"
#include "runtime/scheduler.h"
#include "tests/support/damage.h"
#include "tests/support/test_groups.h"

namespace tandem {
namespace {

using testing::HasSubstr;
using testing_support::Damage;

constexpr SequenceLimits kLimits{.block_size = 2,
                                 .num_device_blocks = 20,
                                 .num_host_blocks = 5,
                                 .vocab_size = 2000,
                                 .max_positions = 30};

// A real scheduler's messages, damaged now and then, against one table. After a refusal the
// scheduler starts afresh, as it would with new workers.
class DamagedLink {
 public:
  explicit DamagedLink(uint32_t seed) : rng_(seed), damage_(rng_) {}

  void step() {
    if (next_ % 4 == 0) add();
    ++next_;
    proto::StepInput step = scheduler_.schedule(0);
    const uint64_t number = step.step();
    const bool in_flight = has_work(step);
    const std::vector<SampledToken> sampled = expected_tokens(step);
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
    if (in_flight) scheduler_.complete_step(number, sampled);
    for (const auto& [id, seq_id, token] : sampled) {
      const SequenceGroup* group = scheduler_.find(id);
      if (group != nullptr && group->find(seq_id)->output_len() == kMaxTokens)
        scheduler_.finish_sequence(id, seq_id, SequenceStatus::kFinishedLength);
    }
    scheduler_.free_finished_seq_groups();
  }

  int refused = 0, applied = 0;

 private:
  static constexpr int kMaxTokens = 6;

  void add() {
    scheduler_.add_seq_group(testing_support::make_group({.request_id = std::to_string(next_),
                                                          .seq_ids = {2 * next_, 2 * next_ + 1},
                                                          .prompt_len = 3,
                                                          .max_tokens = kMaxTokens}));
  }

  std::vector<SampledToken> expected_tokens(const proto::StepInput& step) {
    std::vector<SampledToken> sampled;
    const auto note = [&](const std::string& id, const auto& seqs) {
      for (const auto& seq : seqs)
        if (seq.token_chunk_size() > 0 &&
            scheduler_.find(id)->find(seq.seq_id())->num_pending_tokens() > 0)
          sampled.push_back({id, seq.seq_id(), 5});
    };
    for (const auto& group : step.groups()) note(group.request_id(), group.seq_data());
    for (const auto& group : step.deltas()) note(group.request_id(), group.seqs());
    return sampled;
  }

  void run(const proto::StepInput& step) {
    const auto scheduled = table_.apply(step);
    const Batch batch = build_batch(scheduled, kLimits.block_size);
    for (const int32_t slot : batch.input.attention.slot_mapping)
      ASSERT_TRUE(slot >= 0 && slot < kLimits.block_size * kLimits.num_device_blocks);
    for (const int32_t page : batch.input.attention.cross_pages.page_indices)
      ASSERT_TRUE(page >= 0 && page < kLimits.num_device_blocks);
    table_.advance(scheduled);
    for (auto* group : scheduled)
      for (const SampleRow& row : batch.rows)
        if (row.group == group && row.samples)
          table_.append_token(*group, group->seq_data(row.seq_index).seq_id(), 5);
  }

  std::mt19937 rng_;
  Damage damage_;
  SequenceTable table_{kLimits};
  Scheduler scheduler_{{.max_num_seqs = 8,
                        .max_num_batched_tokens = 8,
                        .block_size = 2,
                        .num_device_blocks = 20,
                        .num_host_blocks = 5}};
  int64_t next_ = 0;
};

// Each message is applied or refused, the table stays sound, and batches stay within the pool.
TEST(SequenceTableRandom, NoMessageBreaksIt) {
  int refused = 0, applied = 0;
  for (uint32_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    DamagedLink link(seed);
    for (int i = 0; i < 60 && !HasFatalFailure(); ++i) link.step();
    refused += link.refused;
    applied += link.applied;
  }
  EXPECT_GE(refused, 1000);
  EXPECT_GE(applied, 10'000);
}

}  // namespace
}  // namespace tandem
