// Damaged messages against the worker's copy of the groups.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/execution/batch_builder.h"
#include "runtime/execution/groups/sequence_table.h"
#include "runtime/sampling/token_choice.h"
#include "runtime/scheduling/scheduler.h"
#include "tests/support/files/damage.h"
#include "tests/support/scheduling/test_groups.h"

namespace tandem::sequence_table_random_test {
namespace {

using ::testing::HasSubstr;
using testing_support::Damage;

constexpr SequenceLimits kLimits{.block_size = 2,
                                 .num_device_blocks = 20,
                                 .num_host_blocks = 5,
                                 .vocab_size = 2000,
                                 .max_encoder_positions = 30,
                                 .max_decoder_positions = 30};

// A real scheduler's messages, damaged now and then, against one table. After a refusal the
// scheduler starts afresh, as it would with new workers.
class DamagedLink {
 public:
  DamagedLink(uint32_t seed, const SequenceLimits& limits, const SchedulerConfig& config)
      : rng_(seed), damage_(rng_), limits_(limits), table_(limits), scheduler_(config) {}
  virtual ~DamagedLink() = default;

  void step() {
    if (next_ % 4 == 0) scheduler_.add_seq_group(next_group());
    ++next_;
    proto::StepInput step = scheduler_.schedule(0);
    const bool in_flight = has_work(step);
    const proto::StepOutput answer = answer_to(step);
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
    finish(answer);
    scheduler_.free_finished_seq_groups();
    scheduler_.check_integrity();
  }

  int refused = 0, applied = 0, rounds = 0;

 protected:
  virtual std::unique_ptr<SequenceGroup> next_group() = 0;
  // Of a sequence that is sampled.
  virtual void sample(proto::SequenceOutput& out) = 0;
  virtual void finish(const proto::StepOutput&) {}
  // Sampled sequences of a group, by their places in seq_data.
  virtual void go_on(WorkerGroup& group, const std::vector<int>& sampled) = 0;

  // To what is sampled, before the message is damaged.
  proto::StepOutput answer_to(const proto::StepInput& step) {
    proto::StepOutput out;
    out.set_step(step.step());
    const auto answer = [&](const std::string& id, const auto& seqs) {
      auto& output = *out.add_outputs();
      output.set_request_id(id);
      output.set_seq_id(scheduler_.find(id)->seqs()[0]->seq_id());
      for (const auto& seq : seqs) {
        if (seq.token_chunk_size() == 0 ||
            scheduler_.find(id)->find(seq.seq_id())->num_pending_tokens() == 0)
          continue;
        output.add_samples()->set_seq_id(seq.seq_id());
        sample(*output.mutable_samples(output.samples_size() - 1));
      }
    };
    for (const auto& group : step.groups()) answer(group.request_id(), group.seq_data());
    for (const auto& group : step.deltas()) answer(group.request_id(), group.seqs());
    return out;
  }

  void run(const proto::StepInput& step) {
    const auto scheduled = table_.apply(step);
    const Batch batch = build_batch(scheduled, limits_.block_size);
    for (const int32_t slot : batch.input.attention.slot_mapping)
      ASSERT_TRUE(slot >= 0 && slot < limits_.block_size * limits_.num_device_blocks);
    for (const int32_t page : batch.input.attention.cross_pages.page_indices)
      ASSERT_TRUE(page >= 0 && page < limits_.num_device_blocks);
    table_.advance(scheduled);
    for (auto* group : scheduled) {
      std::vector<int> sampled;
      for (const SampleRow& row : batch.rows)
        if (row.group == group && row.samples) sampled.push_back(row.seq_index);
      if (sampled.empty()) continue;
      ASSERT_NO_FATAL_FAILURE(go_on(*group, sampled));
    }
  }

  void append(WorkerGroup& group, const std::vector<int>& sampled) {
    for (const int i : sampled)
      table_.append_token(group, group.seqs[static_cast<size_t>(i)].seq_id, 5);
  }

  std::mt19937 rng_;
  Damage damage_;
  SequenceLimits limits_;
  SequenceTable table_;
  Scheduler scheduler_;
  int64_t next_ = 0;
};

class DamagedTokens final : public DamagedLink {
 public:
  explicit DamagedTokens(uint32_t seed)
      : DamagedLink(seed, kLimits,
                    {.max_num_seqs = 8,
                     .max_num_batched_tokens = 8,
                     .block_size = 2,
                     .num_device_blocks = 20,
                     .num_host_blocks = 5}) {}

 private:
  static constexpr int kMaxTokens = 6;

  std::unique_ptr<SequenceGroup> next_group() override {
    return testing_support::make_group({.request_id = std::to_string(next_),
                                        .seq_ids = {2 * next_, 2 * next_ + 1},
                                        .prompt_len = 3,
                                        .max_tokens = kMaxTokens});
  }
  void sample(proto::SequenceOutput& out) override { out.set_token_id(5); }
  void finish(const proto::StepOutput& answer) override {
    for (const auto& group : answer.outputs())
      for (const auto& sample : group.samples()) {
        const SequenceGroup* known = scheduler_.find(group.request_id());
        if (known != nullptr && known->find(sample.seq_id())->output_len() == kMaxTokens)
          scheduler_.finish_sequence(group.request_id(), sample.seq_id(),
                                     SequenceStatus::kFinishedLength);
      }
  }
  void go_on(WorkerGroup& group, const std::vector<int>& sampled) override {
    append(group, sampled);
  }
};

// Groups whose beams go on by themselves: what is applied is a round that a device can run.
class DamagedBeams final : public DamagedLink {
 public:
  explicit DamagedBeams(uint32_t seed)
      : DamagedLink(seed, limits(),
                    {.max_num_seqs = 12,
                     .max_num_batched_tokens = 12,
                     .block_size = 2,
                     .num_device_blocks = 40,
                     .num_host_blocks = 5,
                     .beam_vocabulary = 2000}) {}

 private:
  static SequenceLimits limits() {
    SequenceLimits limits = kLimits;
    limits.num_device_blocks = 40;
    limits.searches_beams = true;
    return limits;
  }
  std::unique_ptr<SequenceGroup> next_group() override {
    return testing_support::make_group({.request_id = std::to_string(next_),
                                        .seq_ids = {3 * next_, 3 * next_ + 1, 3 * next_ + 2},
                                        .prompt_len = 1 + static_cast<int>(rng_() % 4),
                                        .max_tokens = 8,
                                        .beams = true});
  }
  void sample(proto::SequenceOutput& out) override {
    for (int i = 0; i < 6; ++i) {
      out.mutable_candidates()->add_token_ids(static_cast<int>(rng_() % 2000));
      out.mutable_candidates()->add_logprobs(-1.0f * static_cast<float>(i));
    }
  }
  void go_on(WorkerGroup& group, const std::vector<int>& sampled) override {
    if (group.beams_ahead) return round(group, sampled);
    append(group, sampled);
  }

  void round(WorkerGroup& group, const std::vector<int>& sampled) {
    ++rounds;
    const int n = static_cast<int>(group.seqs.size());
    ASSERT_TRUE(searches_ahead(group.params, limits_.vocab_size));
    ASSERT_EQ(group.params.num_beams(), n);
    const bool first = group.seqs[0].output.empty();
    ASSERT_EQ(sampled.size(), first ? 1u : static_cast<size_t>(n));
    for (size_t i = 0; i < sampled.size(); ++i) ASSERT_EQ(sampled[i], static_cast<int>(i));
    const int length = group.seqs[0].length();
    const int full = length / limits_.block_size;
    const int last = length % limits_.block_size == 0 ? full - 1 : full;
    for (const WorkerSequence& seq : group.seqs) {
      const auto& blocks = seq.blocks;
      ASSERT_GT(static_cast<int>(blocks.size()), last);
      const int32_t block = blocks[static_cast<size_t>(last)];
      ASSERT_TRUE(block >= 0 && block < limits_.num_device_blocks);
      for (size_t p = 0; p < static_cast<size_t>(full); ++p)
        ASSERT_LT(blocks[p], limits_.num_device_blocks);
    }
    table_.go_on(group, full, [](int beam, int page) { return -1 - (beam << 16 | page); });
    for (int i = 0; i < n; ++i)
      table_.append_pending(group, group.seqs[static_cast<size_t>(i)].seq_id, -1 - i);
  }
};

struct Counts {
  int refused = 0, applied = 0, rounds = 0;
};

template <class Link>
Counts run_all() {
  Counts all;
  for (uint32_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Link link(seed);
    for (int i = 0; i < 60 && !::testing::Test::HasFatalFailure(); ++i) link.step();
    all.refused += link.refused;
    all.applied += link.applied;
    all.rounds += link.rounds;
  }
  return all;
}

// Each message is applied or refused, the table stays sound, and batches stay within the pool.
TEST(SequenceTableRandom, NoMessageBreaksIt) {
  const Counts counts = run_all<DamagedTokens>();
  EXPECT_GE(counts.refused, 1000);
  EXPECT_GE(counts.applied, 10'000);
}

TEST(SequenceTableRandom, NoMessageBreaksBeamsThatGoOn) {
  const Counts counts = run_all<DamagedBeams>();
  EXPECT_GE(counts.refused, 1000);
  EXPECT_GE(counts.applied, 8'000);
  EXPECT_GE(counts.rounds, 4'000);
}

}  // namespace
}  // namespace tandem::sequence_table_random_test
