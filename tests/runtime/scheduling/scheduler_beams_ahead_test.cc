// Beams that workers search by themselves, case by case: rounds run ahead of their results, blocks,
// messages, preemption with rounds in flight. The worker checks every key that is read.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "runtime/scheduling/scheduler.h"
#include "tests/support/scheduling/beam_loop.h"

namespace tandem {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using testing_support::beam_request;
using testing_support::BeamLoop;

SchedulerConfig ahead_config(int block_size, int blocks, int steps) {
  SchedulerConfig config;
  config.block_size = block_size;
  config.num_device_blocks = blocks;
  config.max_steps_in_flight = steps;
  config.beam_vocabulary = testing_support::kBeamVocabulary;
  return config;
}

// What a search ends with when nothing else runs, and no round runs ahead.
std::string result_alone(const proto::AddRequest& request) {
  SchedulerConfig config = ahead_config(2, 500, 1);
  config.beam_vocabulary = 0;
  BeamLoop loop(config);
  loop.add(request);
  loop.run_to_end();
  return loop.results.at(request.request_id()).DebugString();
}

std::vector<int> chunks(const proto::SequenceGroupDelta& delta) {
  std::vector<int> out;
  for (const auto& seq : delta.seqs()) out.push_back(seq.token_chunk_size());
  return out;
}
std::vector<int> new_blocks(const proto::SequenceGroupDelta& delta) {
  std::vector<int> out;
  for (const auto& seq : delta.seqs()) out.push_back(seq.new_blocks_size());
  return out;
}

TEST(SchedulerBeamsAhead, RoundsFollowOneAnotherBeforeAnyAnswer) {
  BeamLoop loop(ahead_config(2, 60, 4));
  loop.add(beam_request("a", 0, 2, 5, 8, 3));
  const proto::StepInput first = loop.schedule();
  ASSERT_EQ(first.groups_size(), 1);
  const proto::SequenceGroupMetadata& full = first.groups(0);
  EXPECT_TRUE(full.beams_ahead());
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(full.seq_data(i).beam_score(), i == 0 ? 0 : -1e9f);
    EXPECT_EQ(full.seq_data(i).token_chunk_size(), i == 0 ? 5 : 0);
    EXPECT_EQ(full.seq_data(i).num_computed_tokens(), 0);
    EXPECT_EQ(full.block_tables(i).blocks_size(), 3);
  }
  // Two full blocks are shared; the last one, which has one token, is there three times.
  EXPECT_EQ(loop.free_blocks(), 60 - 1 - 2 - 3);
  const auto tables = loop.tables("a");
  for (int i = 1; i < 3; ++i) {
    EXPECT_EQ(tables[i][1], tables[0][1]);
    EXPECT_NE(tables[i][2], tables[0][2]);
  }
  EXPECT_THAT(loop.pending("a"), ElementsAre(1, 1, 1));
  for (const auto& seq : loop.group("a").seqs()) EXPECT_EQ(seq->num_computed_tokens(), 5);

  const proto::StepInput second = loop.schedule();
  ASSERT_EQ(second.deltas_size(), 1);
  EXPECT_THAT(chunks(second.deltas(0)), ElementsAre(1, 1, 1));
  EXPECT_THAT(new_blocks(second.deltas(0)), Each(0));
  const proto::StepInput third = loop.schedule();
  EXPECT_THAT(chunks(third.deltas(0)), ElementsAre(1, 1, 1));
  EXPECT_THAT(new_blocks(third.deltas(0)), Each(1)) << "all at a block's boundary";
  for (const auto& seq : third.deltas(0).seqs()) {
    EXPECT_FALSE(seq.has_token() || seq.has_parent_seq_id());
    EXPECT_EQ(seq.blocks_size() + seq.replaced_blocks_size(), 0);
  }
  EXPECT_EQ(third.copy_size(), 0);
  EXPECT_EQ(loop.free_blocks(), 60 - 1 - 2 - 3 - 3);
  EXPECT_THAT(loop.pending("a"), ElementsAre(3, 3, 3));
  EXPECT_THAT(loop.tokens("a"), Each(SizeIs(5)));
  loop.complete();
  EXPECT_THAT(loop.pending("a"), ElementsAre(2, 2, 2));
  EXPECT_THAT(loop.tokens("a"), Each(SizeIs(6)));
  for (const auto& seq : loop.group("a").seqs()) EXPECT_EQ(seq->num_computed_tokens(), 7);
  loop.run_to_end();
  EXPECT_EQ(loop.results.at("a").DebugString(), result_alone(beam_request("a", 0, 2, 5, 8, 3)));
}

TEST(SchedulerBeamsAhead, APromptThatFillsItsBlocksIsShared) {
  BeamLoop loop(ahead_config(2, 60, 2));
  loop.add(beam_request("a", 0, 2, 4, 8, 3));
  loop.schedule();
  EXPECT_EQ(loop.free_blocks(), 60 - 1 - 2);
  EXPECT_THAT(new_blocks(loop.schedule().deltas(0)), Each(1));
}

TEST(SchedulerBeamsAhead, NoMoreRoundsThanTokens) {
  BeamLoop loop(ahead_config(2, 60, 4));
  auto request = beam_request("a", 0, 2, 3, 2, 3);
  request.mutable_sampling_params()->set_ignore_eos(true);
  loop.add(request);
  EXPECT_TRUE(has_work(loop.schedule()));
  EXPECT_TRUE(has_work(loop.schedule()));
  EXPECT_FALSE(has_work(loop.schedule()));
  loop.run_to_end();
  EXPECT_EQ(loop.results.at("a").hypotheses(0).token_ids_size(), 2);
}

// max_time, of the loop's clock.
TEST(SchedulerBeamsAhead, ASearchEndsWhenItsTimeIsOver) {
  for (const int ahead : {1, 4}) {
    BeamLoop loop(ahead_config(2, 60, ahead));
    auto request = beam_request("a", 0, 2, 3, 20, 3);
    request.mutable_sampling_params()->set_ignore_eos(true);
    request.mutable_sampling_params()->set_max_time(0);
    loop.add(request);
    loop.run_to_end();
    const int tokens = loop.results.at("a").hypotheses(0).token_ids_size();
    EXPECT_GE(tokens, 1);
    EXPECT_LT(tokens, 20);
    EXPECT_EQ(loop.results.at("a").hypotheses(0).finish_reason(), "length");
  }
}

// What is behind the full blocks of a beam stays its own: rounds in flight write there.
TEST(SchedulerBeamsAhead, FullBlocksChangeTablesWithTheMoves) {
  for (const int block_size : {1, 2, 3}) {
    BeamLoop loop(ahead_config(block_size, 300, 3));
    auto request = beam_request("a", 0, 2, 4, 14, 4);
    request.mutable_sampling_params()->set_ignore_eos(true);
    loop.add(request);
    int changed = 0;
    while (loop.scheduler().find("a") != nullptr) {
      while (loop.answers.size() < 3 && has_work(loop.schedule())) {
      }
      auto expected = loop.tables("a");
      const auto old = expected;
      const proto::BeamMoves moves = loop.answers.front().outputs(0).moves();
      const size_t full = loop.tokens("a")[0].size() / static_cast<size_t>(block_size);
      for (size_t i = 0; i < 4; ++i) {
        const auto parent = static_cast<size_t>(moves.parents(static_cast<int>(i)));
        std::copy_n(old[parent].begin(), full, expected[i].begin());
      }
      loop.complete();
      if (loop.scheduler().find("a") == nullptr) break;
      EXPECT_EQ(loop.tables("a"), expected);
      changed += expected != old;
    }
    EXPECT_GT(changed, 3);
  }
}

TEST(SchedulerBeamsAhead, AWorkerThatMovesOtherwiseIsRefused) {
  BeamLoop loop(ahead_config(2, 100, 3));
  auto request = beam_request("a", 0, 2, 4, 14, 3);
  request.mutable_sampling_params()->set_ignore_eos(true);
  loop.add(request);
  for (int i = 0; i < 3; ++i) loop.schedule();
  loop.complete();
  const auto tokens = loop.tokens("a");
  const auto tables = loop.tables("a");
  const proto::StepOutput good = loop.answers.front();
  proto::StepOutput bad = good;
  proto::BeamMoves& moves = *bad.mutable_outputs(0)->mutable_moves();
  moves.set_token_ids(2, moves.token_ids(2) ^ 1);
  const std::string error = loop.error_of(bad);
  EXPECT_THAT(error, HasSubstr("request \"a\""));
  for (const auto& list : std::vector{moves, good.outputs(0).moves()}) {
    std::string text = "tokens";
    for (const int32_t token : list.token_ids()) text += " " + std::to_string(token);
    EXPECT_THAT(error, HasSubstr(text));
  }
  moves = good.outputs(0).moves();
  moves.set_parents(0, (moves.parents(0) + 1) % 3);
  EXPECT_THAT(loop.error_of(bad), HasSubstr("instead of"));
  moves = good.outputs(0).moves();
  moves.mutable_parents()->RemoveLast();
  EXPECT_THAT(loop.error_of(bad), HasSubstr("instead of"));
  moves.mutable_token_ids()->RemoveLast();
  EXPECT_THAT(loop.error_of(bad), HasSubstr("instead of"));
  EXPECT_EQ(loop.tokens("a"), tokens);
  EXPECT_EQ(loop.tables("a"), tables);
  EXPECT_THAT(loop.pending("a"), ElementsAre(2, 2, 2));
  loop.answers.front().mutable_outputs(0)->clear_moves();  // need not be there
  loop.complete();
  EXPECT_THAT(loop.pending("a"), ElementsAre(1, 1, 1));
  loop.run_to_end();
}

// N-grams of the encoder's input depend on tokens, which workers have to be told.
TEST(SchedulerBeamsAhead, OthersWaitForTheirResults) {
  BeamLoop loop(ahead_config(2, 100, 3));
  auto request = beam_request("a", 0, 2, 4, 6, 3);
  request.mutable_sampling_params()->set_encoder_no_repeat_ngram_size(2);
  loop.add(request);
  const proto::StepInput first = loop.schedule();
  EXPECT_FALSE(first.groups(0).beams_ahead());
  EXPECT_EQ(first.groups(0).seq_data(1).beam_score(), 0);
  EXPECT_FALSE(has_work(loop.schedule()));
  proto::StepOutput bad = loop.answers.front();
  bad.mutable_outputs(0)->mutable_moves();
  EXPECT_THAT(loop.error_of(bad), HasSubstr("workers do not search"));
  loop.complete();
  EXPECT_TRUE(loop.schedule().deltas(0).seqs(0).has_token());
}

// --- Preemption ----------------------------------------------------------------------------------

// A pool of 8 blocks of one token: "g" takes one with each step, "b" two, until "g" needs those.
class TightPool : public BeamLoop {
 public:
  explicit TightPool(PreemptionMode mode, bool caches = false) : BeamLoop(config(mode, caches)) {
    add(beam_request("g", 0, 1, 1, 7, 1));
    add(beams());
  }
  static proto::AddRequest beams() {
    auto request = beam_request("b", 10, 1, 1, 3, 2);
    request.mutable_inputs()->set_encoder_prompt_token_ids(0, 200);  // not that of "g"
    request.mutable_sampling_params()->set_ignore_eos(true);
    return request;
  }
  static SchedulerConfig config(PreemptionMode mode, bool caches) {
    SchedulerConfig config = ahead_config(1, 8, 4);
    config.enable_prefix_caching = config.enable_encoder_cache = caches;
    config.num_host_blocks = 20;
    config.preemption = mode;
    config.max_num_batched_tokens = 4;
    return config;
  }
};

TEST(SchedulerBeamsAhead, RecomputedWithItsFirstRoundsInFlight) {
  TightPool loop(PreemptionMode::kRecompute);
  for (int i = 0; i < 3; ++i) loop.schedule();
  EXPECT_THAT(loop.pending("b"), ElementsAre(2, 2));
  loop.schedule();
  EXPECT_EQ(loop.scheduler().num_preemptions(), 1);
  EXPECT_THAT(loop.pending("b"), ElementsAre(0, 0));
  EXPECT_FALSE(loop.group("b").launched());
  loop.complete();
  loop.complete();
  EXPECT_FALSE(loop.group("b").beams()->started()) << "answers from before are void";
  EXPECT_THAT(loop.tokens("b"), Each(SizeIs(1)));
  loop.run_to_end();
  EXPECT_EQ(loop.results.at("b").DebugString(), result_alone(TightPool::beams()));
}

// The beams' own tokens are computed again, the last ones of all in one step, as the budget allows.
TEST(SchedulerBeamsAhead, RecomputedBeamsRunTogether) {
  TightPool loop(PreemptionMode::kRecompute);
  for (int i = 0; i < 2; ++i) loop.schedule();
  loop.complete();
  loop.schedule();
  loop.schedule();
  ASSERT_EQ(loop.scheduler().num_preemptions(), 1);
  EXPECT_TRUE(loop.group("b").beams()->started());
  EXPECT_THAT(loop.pending("b"), ElementsAre(0, 0));
  EXPECT_THAT(loop.tokens("b"), Each(SizeIs(2)));
  proto::StepInput step;
  while (step.groups_size() == 0) {  // until "g" has ended
    loop.complete();
    step = loop.schedule();
  }
  const auto& full = step.groups(0);
  EXPECT_TRUE(full.compute_encoder());
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(full.seq_data(i).output_token_ids_size(), 1);
    EXPECT_EQ(full.seq_data(i).token_chunk_size(), 1);
    EXPECT_EQ(full.seq_data(i).beam_score(), loop.group("b").beams()->search.score(i));
  }
  EXPECT_THAT(loop.pending("b"), ElementsAre(0, 0));
  EXPECT_THAT(chunks(loop.schedule().deltas(0)), ElementsAre(1, 1));
  EXPECT_THAT(loop.pending("b"), ElementsAre(1, 1));
  loop.run_to_end();
  EXPECT_EQ(loop.results.at("b").DebugString(), result_alone(TightPool::beams()));
}

// Answers count, and change tables on the host; it comes back when none is awaited.
TEST(SchedulerBeamsAhead, SwappedWithRoundsInFlight) {
  TightPool loop(PreemptionMode::kSwap);
  for (int i = 0; i < 4; ++i) loop.schedule();
  EXPECT_EQ(loop.scheduler().num_swapped(), 1);
  EXPECT_THAT(loop.pending("b"), ElementsAre(2, 2));
  const auto before = loop.tables("b");
  loop.complete();
  EXPECT_THAT(loop.tokens("b"), Each(SizeIs(2)));
  EXPECT_EQ(loop.scheduler().num_swapped(), 1);
  const proto::BeamMoves moves = loop.answers.front().outputs(1).moves();
  loop.complete();
  EXPECT_THAT(loop.tokens("b"), Each(SizeIs(3)));
  EXPECT_THAT(loop.pending("b"), ElementsAre(0, 0));
  const auto after = loop.tables("b");
  for (size_t i = 0; i < 2; ++i)
    EXPECT_EQ(after[i], before[static_cast<size_t>(moves.parents(static_cast<int>(i)))]);
  loop.run_to_end();
  EXPECT_EQ(loop.results.at("b").DebugString(), result_alone(TightPool::beams()));
}

// Found in the caches but for their last tokens, beams run in the step that they come in with.
TEST(SchedulerBeamsAhead, ComesBackWithNothingButItsLastTokens) {
  TightPool loop(PreemptionMode::kRecompute, /*caches=*/true);
  for (int i = 0; i < 2; ++i) loop.schedule();
  loop.complete();
  for (int i = 0; i < 2; ++i) loop.schedule();
  ASSERT_EQ(loop.scheduler().num_preemptions(), 1);
  loop.scheduler().abort_seq_group("g");
  const proto::StepInput step = loop.schedule();
  ASSERT_EQ(step.groups_size(), 1);
  EXPECT_FALSE(step.groups(0).compute_encoder());
  for (const auto& seq : step.groups(0).seq_data()) {
    EXPECT_EQ(seq.num_computed_tokens(), 1);
    EXPECT_EQ(seq.token_chunk_size(), 1);
  }
  EXPECT_THAT(loop.pending("b"), ElementsAre(1, 1));
  loop.run_to_end();
  EXPECT_EQ(loop.results.at("b").DebugString(), result_alone(TightPool::beams()));
}

TEST(SchedulerBeamsAhead, OnlyThePromptIsCached) {
  SchedulerConfig config = ahead_config(2, 100, 2);
  config.enable_prefix_caching = config.enable_encoder_cache = true;
  BeamLoop loop(config);
  for (const char* id : {"a", "b"}) {
    auto request = beam_request(id, id[0] * 100, 2, 5, 6, 3);
    request.mutable_sampling_params()->set_ignore_eos(true);
    loop.add(request);
    loop.schedule();
    EXPECT_EQ(loop.group(id).seqs()[0]->num_computed_tokens(), 5);
    loop.run_to_end();
    EXPECT_EQ(loop.scheduler().block_manager().device().num_idle(), 2 + 1);
  }
  EXPECT_EQ(loop.scheduler().block_manager().cache_stats().prefix_hits, 4);
}

}  // namespace
}  // namespace tandem
