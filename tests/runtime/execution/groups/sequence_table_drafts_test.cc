// Drafts on a worker: what messages may say of them, and what becomes of those that were right.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>

#include "runtime/execution/batch_builder.h"
#include "runtime/execution/choice/verified_rows.h"
#include "runtime/execution/groups/sequence_table.h"
#include "runtime/scheduling/scheduler.h"
#include "tests/support/scheduling/test_groups.h"

namespace tandem::sequence_table_drafts_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr SequenceLimits kLimits{.block_size = 2,
                                 .num_device_blocks = 20,
                                 .num_host_blocks = 5,
                                 .vocab_size = 2000,
                                 .max_encoder_positions = 30,
                                 .max_decoder_positions = 8,
                                 .max_drafts = 3};

class Drafts : public ::testing::Test {
 protected:
  static SequenceLimits limits(bool model) {
    SequenceLimits out = kLimits;
    out.draft_model = model;
    return out;
  }
  // Request x: an encoder of 3 tokens, a prompt of 3, and one token, 77.
  explicit Drafts(bool model = false) : table_(limits(model)) {
    Scheduler scheduler(
        {.max_num_seqs = 8, .max_num_batched_tokens = 8, .block_size = 2, .num_device_blocks = 20});
    scheduler.add_seq_group(testing_support::make_group(
        {.request_id = "x", .seq_ids = {1}, .prompt_len = 3, .max_tokens = 9}));
    const auto scheduled = table_.apply(scheduler.schedule(0));
    table_.advance(scheduled);
    table_.append_token(*scheduled[0], 1, 77);
  }

  // Its last token, and `drafts`; with two more blocks.
  static proto::StepInput step(std::initializer_list<int32_t> drafts) {
    proto::StepInput step;
    auto& group = *step.add_deltas();
    group.set_request_id("x");
    auto& seq = *group.add_seqs();
    seq.set_seq_id(1);
    seq.set_token_chunk_size(1);
    seq.add_new_blocks(19);
    seq.add_new_blocks(18);
    for (const int32_t token : drafts) seq.add_draft_token_ids(token);
    return step;
  }
  std::string error(const proto::StepInput& step) {
    try {
      table_.apply(step);
    } catch (const std::runtime_error& e) {
      table_.check_integrity();
      return e.what();
    }
    return "no error";
  }

  SequenceTable table_;
};

TEST_F(Drafts, AreComputedBehindTheLastToken) {
  const auto scheduled = table_.apply(step({5, 6}));
  table_.check_integrity();
  const Batch batch = build_batch(scheduled, 2);
  EXPECT_THAT(batch.input.input_ids, ElementsAre(77, 5, 6));
  EXPECT_THAT(batch.input.positions, ElementsAre(3, 4, 5));
  EXPECT_THAT(batch.input.attention.seq_lens, ElementsAre(6));
  EXPECT_EQ(batch.input.attention.slot_mapping[1], 19 * 2);
  ASSERT_EQ(batch.rows.size(), 1u);
  EXPECT_TRUE(batch.rows[0].samples);
  EXPECT_EQ(batch.rows[0].num_tokens, 3);
  EXPECT_EQ(batch.rows[0].num_drafts, 2);
}

proto::SequenceOutput chosen(int32_t token) {
  proto::SequenceOutput out;
  out.set_token_id(token);
  return out;
}

TEST_F(Drafts, CountUpToTheFirstWrongOne) {
  const auto scheduled = table_.apply(step({5, 6, 7}));
  const Batch batch = build_batch(scheduled, 2);
  const VerifiedRows rows({batch.rows.data()});
  EXPECT_THAT(rows.indices(), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(rows.views()[0].output_ids, ElementsAre(77));
  EXPECT_THAT(rows.views()[1].output_ids, ElementsAre(77, 5));
  EXPECT_THAT(rows.views()[3].output_ids, ElementsAre(77, 5, 6, 7));
  const auto tokens = [&](std::initializer_list<int32_t> all) {
    std::vector<proto::SequenceOutput> outputs;
    for (const int32_t token : all) outputs.push_back(chosen(token));
    std::vector<int32_t> out;
    for (const auto& [row, output] : rows.take(std::move(outputs))) {
      EXPECT_EQ(row, 0u);
      out.push_back(output.token_id());
    }
    return out;
  };
  EXPECT_THAT(tokens({9, 6, 7, 8}), ElementsAre(9));
  EXPECT_THAT(tokens({5, 9, 7, 8}), ElementsAre(5, 9));
  EXPECT_THAT(tokens({5, 6, 7, 8}), ElementsAre(5, 6, 7, 8));
}

TEST_F(Drafts, AreForgottenWithTheStep) {
  const auto scheduled = table_.apply(step({5, 6}));
  table_.advance(scheduled);
  table_.append_token(*scheduled[0], 1, 5);
  table_.append_behind_draft(*scheduled[0], 1, 8);
  const WorkerSequence& seq = scheduled[0]->seqs[0];
  EXPECT_THAT(seq.drafts, IsEmpty());
  EXPECT_THAT(seq.output, ElementsAre(77, 5, 8));
  EXPECT_EQ(seq.num_computed, 5) << "all but the last";
  table_.check_integrity();
}

TEST_F(Drafts, ThatCannotBe) {
  EXPECT_THAT(error(step({5, 6, 7, 8})), HasSubstr("draft_token_ids: 4 drafts, at most 3"));
}

proto::StepInput asking(proto::StepInput step, int drafts, float least = 0.5f) {
  auto& seq = *step.mutable_deltas(0)->mutable_seqs(0);
  seq.set_num_drafts(drafts);
  seq.set_least_likelihood(least);
  return step;
}

TEST_F(Drafts, AskedOfAModelThatIsNotThere) {
  EXPECT_THAT(error(asking(step({}), 2)), HasSubstr("no draft model"));
}

class ModelsDrafts : public Drafts {
 protected:
  ModelsDrafts() : Drafts(true) {}
};

TEST_F(ModelsDrafts, AreAskedFor) {
  const auto scheduled = table_.apply(asking(step({}), 3, 0.25f));
  const WorkerSequence& seq = scheduled[0]->seqs[0];
  EXPECT_EQ(seq.num_drafts, 3);
  EXPECT_EQ(seq.least_likelihood, 0.25f);
  table_.advance(scheduled);
  EXPECT_EQ(seq.num_drafts, 0);
}

TEST_F(ModelsDrafts, ThatAreTooMany) {
  EXPECT_THAT(error(asking(step({}), 4)), HasSubstr("4 drafts, at most 3"));
}
TEST_F(ModelsDrafts, ThatAreFewerThanNone) {
  EXPECT_THAT(error(asking(step({}), -1)), HasSubstr("-1 drafts"));
}
TEST_F(ModelsDrafts, ThatAreGivenToo) {
  EXPECT_THAT(error(asking(step({5}), 1)), HasSubstr("given, and asked for"));
}
TEST_F(ModelsDrafts, OfNoLikelihood) {
  EXPECT_THAT(error(asking(step({}), 1, std::nanf(""))), HasSubstr("least_likelihood"));
}
TEST_F(ModelsDrafts, BeyondTheTable) {
  auto message = asking(step({}), 3);
  message.mutable_deltas(0)->mutable_seqs(0)->clear_new_blocks();
  EXPECT_THAT(error(message), HasSubstr("token_chunk_size"));
}

TEST_F(Drafts, OutsideTheVocabulary) {
  EXPECT_THAT(error(step({5, 2000})), HasSubstr("draft_token_ids"));
}

TEST_F(Drafts, BeyondTheTable) {
  auto message = step({5, 6, 7});
  message.mutable_deltas(0)->mutable_seqs(0)->clear_new_blocks();
  EXPECT_THAT(error(message), HasSubstr("token_chunk_size"));
}

TEST_F(Drafts, BehindAnUnfinishedChunk) {
  auto message = step({5});
  message.mutable_deltas(0)->mutable_seqs(0)->set_token_chunk_size(2);
  EXPECT_THAT(error(message), HasSubstr("draft_token_ids"));
}

TEST_F(Drafts, BeyondTheModelsPositions) {
  auto scheduled = table_.apply(step({5, 6}));
  table_.advance(scheduled);
  table_.append_token(*scheduled[0], 1, 5);
  table_.append_behind_draft(*scheduled[0], 1, 6);
  // Positions 5 to 8.
  EXPECT_THAT(error(step({7, 8, 9})), HasSubstr("the model has 8 positions"));
}

}  // namespace
}  // namespace tandem::sequence_table_drafts_test
