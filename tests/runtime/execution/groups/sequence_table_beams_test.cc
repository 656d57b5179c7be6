// Groups whose beams go on by themselves on a worker: what its copy of them says, and which
// messages it refuses.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "runtime/execution/groups/sequence_table.h"

namespace tandem::sequence_table_beams_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr SequenceLimits kLimits{.block_size = 2,
                                 .num_device_blocks = 20,
                                 .num_host_blocks = 5,
                                 .vocab_size = 50,
                                 .max_encoder_positions = 30,
                                 .max_decoder_positions = 30,
                                 .searches_beams = true};

// Three beams, sequences 5 to 7, with a decoder prompt of three tokens: the full block is shared,
// the other one each beam's own.
proto::StepInput first_round() {
  proto::StepInput step;
  auto& group = *step.add_groups();
  group.set_request_id("x");
  group.set_beams_ahead(true);
  group.set_compute_encoder(true);
  group.mutable_sampling_params()->set_num_beams(3);
  group.mutable_sampling_params()->set_max_tokens(9);
  group.mutable_encoder_seq_data()->add_prompt_token_ids(4);
  group.mutable_encoder_seq_data()->set_encoder_length(1);
  group.mutable_encoder_seq_data()->set_token_chunk_size(1);
  group.mutable_cross_block_table()->add_blocks(19);
  for (int i = 0; i < 3; ++i) {
    auto& seq = *group.add_seq_data();
    seq.set_seq_id(5 + i);
    seq.set_index(i);
    for (const int32_t id : {1, 2, 3}) seq.add_prompt_token_ids(id);
    auto& table = *group.add_block_tables();
    table.set_seq_id(5 + i);
    for (const int32_t block : {10, 11 + i}) table.add_blocks(block);
  }
  group.mutable_seq_data(0)->set_token_chunk_size(3);
  return step;
}

proto::StepInput next_round(bool new_blocks) {
  proto::StepInput step;
  auto& group = *step.add_deltas();
  group.set_request_id("x");
  for (int i = 0; i < 3; ++i) {
    auto& seq = *group.add_seqs();
    seq.set_seq_id(5 + i);
    seq.set_token_chunk_size(1);
    if (new_blocks) seq.add_new_blocks(14 + i);
  }
  return step;
}

class SequenceTableBeams : public ::testing::Test {
 protected:
  // A round, as a worker does it: launched, and gone on from.
  WorkerGroup& round(const proto::StepInput& step, int full_blocks) {
    const auto scheduled = table_.apply(step);
    table_.advance(scheduled);
    WorkerGroup& group = *scheduled[0];
    table_.go_on(group, full_blocks, [](int beam, int page) { return -100 * (beam + 1) - page; });
    pending_.clear();
    for (int i = 0; i < 3; ++i) pending_.push_back(table_.append_pending(group, 5 + i, -1 - i));
    table_.check_integrity();
    return group;
  }
  std::string error(const proto::StepInput& step) {
    try {
      table_.apply(step);
    } catch (const std::runtime_error& e) {
      table_.check_integrity();
      EXPECT_EQ(table_.size(), 0u) << "the group at fault is forgotten";
      return e.what();
    }
    return "no error";
  }
  std::string full_error(const std::function<void(proto::SequenceGroupMetadata&)>& change) {
    auto step = first_round();
    change(*step.mutable_groups(0));
    return error(step);
  }
  std::string delta_error(const std::function<void(proto::SequenceGroupDelta&)>& change) {
    round(first_round(), 1);
    auto step = next_round(false);
    change(*step.mutable_deltas(0));
    return error(step);
  }

  SequenceTable table_{kLimits};
  std::vector<SequenceTable::PendingToken> pending_;
};

TEST_F(SequenceTableBeams, GoOnByThemselves) {
  auto* group = &round(first_round(), 1);
  for (int i = 0; i < 3; ++i) {
    const WorkerSequence& seq = group->seqs[static_cast<size_t>(i)];
    EXPECT_EQ(seq.num_computed, 3);
    EXPECT_THAT(seq.output, ElementsAre(-1 - i));
    EXPECT_THAT(seq.blocks, ElementsAre(-100 * (i + 1), 11 + i));
  }
  const auto unknown = pending_;
  group = &round(next_round(false), 2);
  EXPECT_THAT(group->seqs[2].output, ElementsAre(-3, -3));
  EXPECT_THAT(group->seqs[1].blocks, ElementsAre(-200, -201));
  for (int i = 0; i < 3; ++i) table_.know(unknown[static_cast<size_t>(i)], 40 + i);
  EXPECT_THAT(group->seqs[2].output, ElementsAre(42, -3));
  // The next one begins a block, and needs it.
  group = &round(next_round(true), 2);
  EXPECT_THAT(group->seqs[1].blocks, ElementsAre(-200, -201, 15));
}

TEST_F(SequenceTableBeams, SaysWhichSequencesAreGone) {
  round(first_round(), 1);
  EXPECT_THAT(table_.take_forgotten(), IsEmpty());
  table_.apply(first_round());  // anew: what a device has of them is void
  EXPECT_THAT(table_.take_forgotten(), ElementsAre(5, 6, 7));
  proto::StepInput end;
  end.add_finished_request_ids("x");
  table_.apply(end);
  EXPECT_THAT(table_.take_forgotten(), ElementsAre(5, 6, 7));
  EXPECT_THAT(table_.take_forgotten(), IsEmpty());
}

TEST_F(SequenceTableBeams, RefusesWhatIsNoRound) {
  using Group = proto::SequenceGroupMetadata;
  const std::string at = "step input: groups[0].";
  EXPECT_EQ(full_error(
                [](Group& g) { g.mutable_sampling_params()->set_encoder_no_repeat_ngram_size(2); }),
            at + "beams_ahead: this worker does not search these beams");
  EXPECT_EQ(full_error([](Group& g) { g.mutable_sampling_params()->set_num_beams(33); }),
            at + "beams_ahead: this worker does not search these beams");
  EXPECT_EQ(full_error([](Group& g) { g.mutable_sampling_params()->set_num_beams(4); }),
            at + "seq_data: 3 sequences of 4 beams");
  EXPECT_EQ(full_error([](Group& g) { g.mutable_seq_data(1)->set_index(2); }),
            at + "seq_data[1].index: 2");
  EXPECT_EQ(full_error([](Group& g) { g.mutable_seq_data(1)->set_token_chunk_size(3); }),
            at + "seq_data[1].token_chunk_size: the search has not begun");
  EXPECT_EQ(full_error([](Group& g) { g.mutable_seq_data(2)->add_prompt_token_ids(3); }),
            at + "seq_data[2].output_token_ids: beams of different lengths");
  EXPECT_EQ(full_error([](Group& g) { g.mutable_block_tables(2)->mutable_blocks()->RemoveLast(); }),
            at + "block_tables[2].blocks: 1 blocks of 2 tokens do not cover 3 tokens");
  // Computed again, after a preemption: all beams' last tokens in one step.
  const auto again = [](Group& g) {
    for (auto& seq : *g.mutable_seq_data()) {
      seq.add_output_token_ids(7);
      seq.set_token_chunk_size(4);
    }
  };
  EXPECT_EQ(full_error([&](Group& g) {
              again(g);
              g.mutable_seq_data(1)->set_token_chunk_size(3);
            }),
            at + "seq_data[1].token_chunk_size: a round has all beams or none");
  auto step = first_round();
  again(*step.mutable_groups(0));
  EXPECT_EQ(round(step, 2).seqs[2].output.size(), 2u);
}

TEST_F(SequenceTableBeams, RefusesDeltasThatAreNoRound) {
  using Delta = proto::SequenceGroupDelta;
  const std::string at = "step input: deltas[0].";
  EXPECT_EQ(delta_error([](Delta& d) { d.mutable_seqs()->RemoveLast(); }),
            at + "seq_data[2].token_chunk_size: a round has all beams or none");
  EXPECT_EQ(delta_error([](Delta& d) { d.mutable_seqs(1)->set_token(3); }),
            at + "seqs[1].token: the worker searches by itself");
  EXPECT_EQ(delta_error([](Delta& d) { d.mutable_seqs(1)->set_parent_seq_id(5); }),
            at + "seqs[1].token: the worker searches by itself");
  EXPECT_EQ(delta_error([](Delta& d) { d.mutable_seqs(1)->add_new_blocks(-200); }),
            at + "seqs[1].new_blocks: -200 is not in [0, 20)");
  EXPECT_EQ(delta_error([](Delta& d) { d.mutable_seqs(0)->set_token_chunk_size(2); }),
            at + "seqs[0].token_chunk_size: 3 computed and 2 scheduled of 4 tokens");
}

TEST_F(SequenceTableBeams, AreNotForEveryWorker) {
  SequenceLimits limits = kLimits;
  limits.searches_beams = false;
  SequenceTable table(limits);
  try {
    table.apply(first_round());
    FAIL();
  } catch (const std::runtime_error& e) {
    EXPECT_STREQ(e.what(),
                 "step input: groups[0].beams_ahead: this worker does not search these beams");
  }
}

}  // namespace
}  // namespace tandem::sequence_table_beams_test
