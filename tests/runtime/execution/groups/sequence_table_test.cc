// The worker's copy of the groups: what messages do to it, and that no message can break it.

#include "runtime/execution/groups/sequence_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "runtime/scheduling/scheduler.h"
#include "tests/support/scheduling/test_groups.h"

namespace tandem::sequence_table_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr SequenceLimits kLimits{.block_size = 2,
                                 .num_device_blocks = 20,
                                 .num_host_blocks = 5,
                                 .vocab_size = 2000,
                                 .max_encoder_positions = 30,
                                 .max_decoder_positions = 30};

// Request x: encoder of 3 tokens, sequences 1 and 2 with prompts of 3.
proto::StepInput full_step() {
  Scheduler scheduler(
      {.max_num_seqs = 8, .max_num_batched_tokens = 8, .block_size = 2, .num_device_blocks = 20});
  scheduler.add_seq_group(testing_support::make_group(
      {.request_id = "x", .seq_ids = {1, 2}, .prompt_len = 3, .max_tokens = 9}));
  return scheduler.schedule(0);
}

// The step after it: sequence 1 has got a token, sequence 2 goes on with its prompt.
proto::StepInput delta_step() {
  proto::StepInput step;
  auto& group = *step.add_deltas();
  group.set_request_id("x");
  auto& one = *group.add_seqs();
  one.set_seq_id(1);
  one.set_token_chunk_size(1);
  auto& two = *group.add_seqs();
  two.set_seq_id(2);
  two.set_token_chunk_size(1);
  return step;
}

class SequenceTableTest : public ::testing::Test {
 protected:
  void start() {
    const auto scheduled = table_.apply(full_step());
    table_.advance(scheduled);
    table_.append_token(*scheduled[0], 1, 77);
    table_.check_integrity();
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
  // The error of full_step() after a change.
  std::string full_error(const std::function<void(proto::SequenceGroupMetadata&)>& change) {
    proto::StepInput step = full_step();
    change(*step.mutable_groups(0));
    return error(step);
  }
  std::string delta_error(const std::function<void(proto::SequenceGroupDelta&)>& change) {
    start();
    proto::StepInput step = delta_step();
    change(*step.mutable_deltas(0));
    const std::string message = error(step);
    EXPECT_EQ(table_.size(), message == "no error" ? 1u : 0u) << "the group at fault is forgotten";
    return message;
  }

  SequenceTable table_{kLimits};
};

TEST_F(SequenceTableTest, FollowsFullMetadataAndDeltas) {
  start();
  EXPECT_EQ(table_.size(), 1u);
  auto step = delta_step();
  step.mutable_deltas(0)->mutable_seqs(0)->add_new_blocks(9);
  auto& replaced = *step.mutable_deltas(0)->mutable_seqs(0)->add_replaced_blocks();
  replaced.set_index(1);
  replaced.set_block(8);
  const auto scheduled = table_.apply(step);
  ASSERT_THAT(scheduled, SizeIs(1));
  const auto& group = *scheduled[0];
  EXPECT_FALSE(group.compute_encoder);
  EXPECT_EQ(group.encoder.num_computed, 3);
  EXPECT_EQ(group.seqs[0].num_computed, 3);
  EXPECT_EQ(group.seqs[0].chunk, 1);
  EXPECT_TRUE(group.seqs[0].samples());
  EXPECT_THAT(group.seqs[0].output, ElementsAre(77));
  EXPECT_EQ(group.seqs[0].blocks.at(1), 8);
  EXPECT_EQ(group.seqs[0].blocks.at(2), 9);
  EXPECT_EQ(group.seqs[1].num_computed, 2);
  table_.advance(scheduled);
  EXPECT_EQ(group.seqs[1].num_computed, 3);
  EXPECT_EQ(group.seqs[1].chunk, 0);
  table_.check_integrity();
}

// A group that is pooled: all that is not its encoder input is refused, and so is a second step.
TEST_F(SequenceTableTest, PooledGroups) {
  Scheduler scheduler(
      {.max_num_seqs = 8, .max_num_batched_tokens = 8, .block_size = 2, .num_device_blocks = 20});
  scheduler.add_seq_group(
      testing_support::make_group({.request_id = "x", .seq_ids = {1}, .pooled = true}));
  const proto::StepInput step = scheduler.schedule(0);
  const auto pooled_error = [&](const std::function<void(proto::SequenceGroupMetadata&)>& change) {
    proto::StepInput wrong = step;
    change(*wrong.mutable_groups(0));
    return error(wrong);
  };
  EXPECT_THAT(pooled_error([](auto& g) { g.mutable_seq_data(0)->add_prompt_token_ids(5); }),
              HasSubstr("groups[0].seq_data[0].prompt_token_ids"));
  EXPECT_THAT(pooled_error([](auto& g) { g.mutable_seq_data(0)->set_token_chunk_size(1); }),
              HasSubstr("seq_data[0].prompt_token_ids"));
  EXPECT_THAT(pooled_error([](auto& g) { g.mutable_block_tables(0)->add_blocks(1); }),
              HasSubstr("block_tables[0].blocks"));
  EXPECT_THAT(pooled_error([](auto& g) { g.mutable_cross_block_table()->add_blocks(1); }),
              HasSubstr("cross_block_table.blocks"));
  EXPECT_THAT(pooled_error([](auto& g) {
                g.mutable_sampling_params()->mutable_pooling()->set_kind(
                    static_cast<proto::Pooling::Kind>(9));
              }),
              HasSubstr("pooling.kind"));
  EXPECT_THAT(pooled_error([](auto& g) {
                g.add_seq_data()->set_seq_id(9);
                g.add_block_tables()->set_seq_id(9);
              }),
              HasSubstr("2 sequences"));
  EXPECT_THAT(pooled_error([](auto& g) {
                g.mutable_encoder_seq_data()->mutable_prompt_token_ids()->Add(2000);
              }),
              HasSubstr("encoder_seq_data"));
  EXPECT_EQ(table_.size(), 0u);
  table_.advance(table_.apply(step));
  table_.check_integrity();
  EXPECT_EQ(table_.size(), 1u);
  proto::StepInput again;
  again.add_deltas()->set_request_id("x");
  EXPECT_THAT(error(again), HasSubstr("pooled"));
  EXPECT_EQ(table_.size(), 0u);
}

TEST_F(SequenceTableTest, ForgetsWhatIsFinished) {
  start();
  proto::StepInput step;
  step.add_finished_seq_ids(1);
  step.add_finished_seq_ids(1);  // not known any more: ignored, as request "y"
  step.add_finished_request_ids("y");
  table_.apply(step);
  EXPECT_EQ(table_.size(), 1u);
  auto next = delta_step();
  next.mutable_deltas(0)->mutable_seqs()->DeleteSubrange(0, 1);
  const auto scheduled = table_.apply(next);
  ASSERT_THAT(scheduled[0]->seqs, SizeIs(1));
  EXPECT_EQ(scheduled[0]->seqs[0].seq_id, 2);
  EXPECT_EQ(scheduled[0]->seqs[0].index, 1) << "its place in the group stays";
  step.set_finished_seq_ids(0, 2);
  table_.apply(step);
  EXPECT_EQ(table_.size(), 0u) << "without sequences the group is gone";
  table_.check_integrity();
}

TEST_F(SequenceTableTest, FullMetadataReplacesWhatWasKnown) {
  start();
  EXPECT_THAT(table_.apply(full_step())[0]->seqs[0].output, IsEmpty());
  proto::StepInput step = full_step();
  step.add_finished_request_ids("x");
  table_.apply(step);
  EXPECT_EQ(table_.size(), 1u) << "forgets first";
}

TEST_F(SequenceTableTest, RefusesInconsistentFullMetadata) {
  using Group = proto::SequenceGroupMetadata;
  EXPECT_EQ(full_error([](Group& g) { g.clear_request_id(); }),
            "step input: groups[0].request_id: missing");
  EXPECT_EQ(full_error([](Group& g) { g.clear_seq_data(); }),
            "step input: groups[0].seq_data: missing");
  EXPECT_EQ(full_error([](Group& g) { g.clear_sampling_params(); }),
            "step input: groups[0].sampling_params: missing");
  EXPECT_EQ(full_error([](Group& g) { g.mutable_block_tables()->RemoveLast(); }),
            "step input: groups[0].block_tables: 1 tables for 2 sequences");
  EXPECT_EQ(full_error([](Group& g) { g.mutable_block_tables(1)->set_seq_id(7); }),
            "step input: groups[0].block_tables[1].seq_id: 7 instead of 2");
  EXPECT_EQ(full_error([](Group& g) { g.mutable_block_tables(1)->set_blocks(0, 20); }),
            "step input: groups[0].block_tables[1].blocks: 20 is not in [0, 20)");
  EXPECT_EQ(
      full_error([](Group& g) { g.mutable_block_tables(0)->mutable_blocks()->Resize(21, 0); }),
      "step input: groups[0].block_tables[0].blocks: 21 blocks, more than the pool has");
  EXPECT_EQ(full_error([](Group& g) { g.mutable_block_tables(0)->mutable_blocks()->RemoveLast(); }),
            "step input: groups[0].seq_data[0].token_chunk_size: 1 blocks of 2 tokens do not cover "
            "3 tokens");
  EXPECT_EQ(full_error([](Group& g) { g.mutable_seq_data(0)->clear_prompt_token_ids(); }),
            "step input: groups[0].seq_data[0].prompt_token_ids: missing");
  EXPECT_EQ(full_error([](Group& g) { g.mutable_seq_data(0)->set_prompt_token_ids(1, 2000); }),
            "step input: groups[0].seq_data[0].prompt_token_ids: 2000 is not in [0, 2000)");
  EXPECT_EQ(full_error([](Group& g) { g.mutable_seq_data(0)->add_output_token_ids(-1); }),
            "step input: groups[0].seq_data[0].output_token_ids: -1 is not in [0, 2000)");
  EXPECT_EQ(full_error([](Group& g) { g.mutable_seq_data(1)->set_token_chunk_size(4); }),
            "step input: groups[0].seq_data[1].token_chunk_size: 0 computed and 4 scheduled of 3 "
            "tokens");
  EXPECT_EQ(full_error([](Group& g) { g.mutable_seq_data(1)->set_token_chunk_size(-1); }),
            "step input: groups[0].seq_data[1].token_chunk_size: -1 is negative");
  EXPECT_EQ(full_error([](Group& g) { g.mutable_seq_data(1)->set_num_computed_tokens(4); }),
            "step input: groups[0].seq_data[1].num_computed_tokens: 4 of 3 tokens");
  EXPECT_EQ(full_error([](Group& g) { g.mutable_seq_data(1)->set_index(-2); }),
            "step input: groups[0].seq_data[1].index: -2 is negative");
  EXPECT_EQ(full_error([](Group& g) {
              g.mutable_seq_data(1)->set_seq_id(1);
              g.mutable_block_tables(1)->set_seq_id(1);
            }),
            "step input: groups[0].seq_data[1].seq_id: 1 is in use");
  EXPECT_EQ(table_.size(), 0u);
}

TEST_F(SequenceTableTest, RefusesInconsistentEncoders) {
  using Group = proto::SequenceGroupMetadata;
  EXPECT_EQ(full_error([](Group& g) { g.clear_encoder_seq_data(); }),
            "step input: groups[0].encoder_seq_data.prompt_token_ids: missing");
  EXPECT_EQ(full_error([](Group& g) { g.mutable_encoder_seq_data()->set_token_chunk_size(2); }),
            "step input: groups[0].encoder_seq_data.token_chunk_size: 2 instead of 3");
  EXPECT_EQ(
      full_error([](Group& g) { g.mutable_encoder_seq_data()->set_num_computed_tokens(1); }),
      "step input: groups[0].encoder_seq_data.num_computed_tokens: 1, but an encoder input is "
      "not divided");
  EXPECT_EQ(full_error([](Group& g) { g.mutable_encoder_seq_data()->set_prompt_token_ids(0, -5); }),
            "step input: groups[0].encoder_seq_data.prompt_token_ids: -5 is not in [0, 2000)");
  EXPECT_EQ(full_error([](Group& g) {
              auto& ids = *g.mutable_encoder_seq_data()->mutable_prompt_token_ids();
              ids.Resize(31, 0);
            }),
            "step input: groups[0].encoder_seq_data.prompt_token_ids: 31 tokens, but the model has "
            "30 positions");
  EXPECT_EQ(full_error([](Group& g) { g.clear_cross_block_table(); }),
            "step input: groups[0].cross_block_table.blocks: 0 blocks of 2 tokens do not cover 3 "
            "tokens");
  EXPECT_EQ(full_error([](Group& g) { g.mutable_cross_block_table()->set_blocks(0, -1); }),
            "step input: groups[0].cross_block_table.blocks: -1 is not in [0, 20)");
  EXPECT_EQ(full_error([](Group& g) {
              g.set_compute_encoder(false);
              g.mutable_encoder_seq_data()->set_token_chunk_size(0);
            }),
            "step input: groups[0].compute_encoder: tokens are scheduled, but the encoder has not "
            "run");
}

TEST_F(SequenceTableTest, RefusesInconsistentDeltas) {
  using Delta = proto::SequenceGroupDelta;
  EXPECT_EQ(delta_error([](Delta&) {}), "no error");
  EXPECT_EQ(delta_error([](Delta& d) { d.mutable_seqs(0)->set_seq_id(9); }),
            "step input: deltas[0].seqs[0].seq_id: 9 is not known");
  EXPECT_EQ(delta_error([](Delta& d) { d.mutable_seqs(1)->set_seq_id(1); }),
            "step input: deltas[0].seqs[1].seq_id: comes twice");
  EXPECT_EQ(delta_error([](Delta& d) { d.mutable_seqs(1)->set_token_chunk_size(0); }),
            "step input: deltas[0].seqs[1].token_chunk_size: 0, must be at least 1");
  EXPECT_EQ(
      delta_error([](Delta& d) { d.mutable_seqs(0)->set_token_chunk_size(2); }),
      "step input: deltas[0].seqs[0].token_chunk_size: 3 computed and 2 scheduled of 4 tokens");
  EXPECT_EQ(delta_error([](Delta& d) { d.mutable_seqs(0)->add_new_blocks(-3); }),
            "step input: deltas[0].seqs[0].new_blocks: -3 is not in [0, 20)");
  EXPECT_EQ(delta_error([](Delta& d) {
              for (int i = 0; i < 19; ++i) d.mutable_seqs(0)->add_new_blocks(i);
            }),
            "step input: deltas[0].seqs[0].new_blocks: 21 blocks, more than the pool has");
  EXPECT_EQ(delta_error([](Delta& d) { d.mutable_seqs(0)->add_replaced_blocks()->set_index(2); }),
            "step input: deltas[0].seqs[0].replaced_blocks: index 2 in a table of 2 blocks");
  EXPECT_EQ(delta_error([](Delta& d) { d.mutable_seqs(0)->add_replaced_blocks()->set_block(20); }),
            "step input: deltas[0].seqs[0].replaced_blocks: block 20 is not in the pool");
  EXPECT_EQ(delta_error([](Delta& d) { d.set_compute_encoder(true); }),
            "step input: deltas[0].compute_encoder: the encoder has run");
}

// Sequence 1 goes on by itself, sequence 2 from what sequence 1 was before.
TEST_F(SequenceTableTest, BeamsGoOnFromOneAnother) {
  start();
  auto step = delta_step();
  step.mutable_deltas(0)->mutable_seqs(0)->set_token(5);
  auto& two = *step.mutable_deltas(0)->mutable_seqs(1);
  two.set_parent_seq_id(1);
  two.set_token(6);
  for (const int32_t block : {11, 12}) two.add_blocks(block);
  const auto scheduled = table_.apply(step);
  table_.check_integrity();
  EXPECT_THAT(scheduled[0]->seqs[0].output, ElementsAre(77, 5));
  EXPECT_THAT(scheduled[0]->seqs[1].output, ElementsAre(77, 6));
  EXPECT_EQ(scheduled[0]->seqs[1].num_computed, 3);
  EXPECT_THAT(scheduled[0]->seqs[1].blocks, ElementsAre(11, 12));
}

TEST_F(SequenceTableTest, RefusesInconsistentBeams) {
  using Seq = proto::SequenceDelta;
  const auto beam_error = [&](const std::function<void(Seq&)>& change) {
    return delta_error([&](proto::SequenceGroupDelta& delta) {
      Seq& seq = *delta.mutable_seqs(1);
      seq.set_parent_seq_id(1);
      seq.set_token(6);
      for (const int32_t block : {11, 12}) seq.add_blocks(block);
      change(seq);
    });
  };
  const std::string at = "step input: deltas[0].seqs[1].";
  EXPECT_EQ(beam_error([](Seq& s) { s.set_token(2000); }), at + "token: 2000 is not in [0, 2000)");
  EXPECT_EQ(beam_error([](Seq& s) { s.clear_token(); }), at + "token: missing");
  EXPECT_EQ(beam_error([](Seq& s) { s.set_parent_seq_id(3); }),
            at + "parent_seq_id: 3 is not known");
  EXPECT_EQ(beam_error([](Seq& s) { s.set_blocks(0, 20); }), at + "blocks: 20 is not in [0, 20)");
  EXPECT_EQ(beam_error([](Seq& s) { s.clear_blocks(); }),
            at + "blocks: 0 blocks of 2 tokens do not cover 3 tokens");
}

TEST_F(SequenceTableTest, RefusesUnknownAndDoubledGroups) {
  EXPECT_EQ(error(delta_step()), "step input: deltas[0].request_id: \"x\" is not known");
  proto::StepInput both = full_step();
  *both.add_deltas() = delta_step().deltas(0);
  EXPECT_EQ(error(both), "step input: deltas[0].request_id: \"x\" comes twice");
  proto::StepInput twice = full_step();
  *twice.add_groups() = twice.groups(0);
  EXPECT_EQ(error(twice), "step input: groups[1].request_id: \"x\" comes twice");
  proto::StepInput others = full_step();
  *others.add_groups() = others.groups(0);
  others.mutable_groups(1)->set_request_id("y");
  EXPECT_EQ(error(others), "step input: groups[1].seq_data[0].seq_id: 1 is in use");
  EXPECT_EQ(table_.size(), 1u);
}

TEST_F(SequenceTableTest, RefusesChunksBeyondTheTableOrThePositions) {
  start();
  for (int length = 4; length <= 30; ++length) {
    const auto step = delta_step();
    proto::StepInput one = step;
    one.mutable_deltas(0)->mutable_seqs()->RemoveLast();
    if (length % 2 == 1) one.mutable_deltas(0)->mutable_seqs(0)->add_new_blocks(length / 2);
    const auto scheduled = table_.apply(one);
    table_.advance(scheduled);
    table_.append_token(*scheduled[0], 1, 5);
  }
  proto::StepInput past = delta_step();
  past.mutable_deltas(0)->mutable_seqs(0)->add_new_blocks(19);
  EXPECT_EQ(
      error(past),
      "step input: deltas[0].seqs[0].token_chunk_size: ends at token 31, but the model has 30 "
      "positions");

  start();
  const auto scheduled = table_.apply(delta_step());
  table_.advance(scheduled);
  table_.append_token(*scheduled[0], 1, 5);
  EXPECT_EQ(error(delta_step()),
            "step input: deltas[0].seqs[0].token_chunk_size: 2 blocks of 2 tokens do not cover 5 "
            "tokens");
}

// full_step() has two of sequence 2's three prompt tokens.
TEST_F(SequenceTableTest, RefusesPartsOfWholePrompts) {
  SequenceLimits limits = kLimits;
  limits.whole_prompts = true;
  table_ = SequenceTable(limits);
  EXPECT_THAT(error(full_step()), HasSubstr("groups[0].seq_data[1].token_chunk_size: ends at token "
                                            "2 of a prompt of 3, which is not divided"));
  EXPECT_EQ(full_error([](auto& g) { g.mutable_seq_data(1)->set_token_chunk_size(3); }),
            "no error");
  EXPECT_EQ(full_error([](auto& g) { g.mutable_sampling_params()->set_prompt_logprobs(0); }),
            "no error");
}

TEST_F(SequenceTableTest, RefusesCopiesOutsideThePools) {
  const auto copy_error = [&](auto add, int src, int dst) {
    proto::StepInput step;
    proto::BlockCopy& copy = *(step.*add)();
    copy.set_src(src);
    copy.set_dst(dst);
    return error(step);
  };
  using Step = proto::StepInput;
  EXPECT_EQ(copy_error(&Step::add_swap_out, 19, 4), "no error");
  EXPECT_EQ(copy_error(&Step::add_swap_out, 20, 4),
            "step input: swap_out[0]: 20 to 4 is not in the pools");
  EXPECT_EQ(copy_error(&Step::add_swap_out, 19, 5),
            "step input: swap_out[0]: 19 to 5 is not in the pools");
  EXPECT_EQ(copy_error(&Step::add_swap_in, 4, 19), "no error");
  EXPECT_EQ(copy_error(&Step::add_swap_in, 5, 0),
            "step input: swap_in[0]: 5 to 0 is not in the pools");
  EXPECT_EQ(copy_error(&Step::add_copy, 0, 19), "no error");
  EXPECT_EQ(copy_error(&Step::add_copy, -1, 0), "step input: copy[0]: -1 to 0 is not in the pools");
}

}  // namespace
}  // namespace tandem::sequence_table_test
