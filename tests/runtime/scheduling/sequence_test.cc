#include "runtime/scheduling/sequence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/scheduling/test_groups.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

EncoderDecoderInputs inputs() {
  EncoderDecoderInputs in;
  for (const int id : {2, 0, 5}) in.add_prompt_token_ids(id);
  for (const int id : {0, 11, 12, 2}) in.add_encoder_prompt_token_ids(id);
  return in;
}

TEST(Sequence, StartsFromEitherPrompt) {
  const Sequence decoder(7, inputs());
  EXPECT_EQ(decoder.seq_id(), 7);
  EXPECT_THAT(decoder.tokens(), ElementsAre(2, 0, 5));
  EXPECT_EQ(decoder.prompt_len(), 3);
  EXPECT_EQ(decoder.output_len(), 0);
  const Sequence encoder(8, inputs(), /*from_decoder_prompt=*/false);
  EXPECT_THAT(encoder.tokens(), ElementsAre(0, 11, 12, 2));
  EXPECT_EQ(encoder.prompt_len(), 4);
}

TEST(Sequence, GrowsAndCountsWhatIsComputed) {
  Sequence seq(1, inputs());
  EXPECT_EQ(seq.num_uncomputed_tokens(), 3);
  seq.advance(2);
  EXPECT_EQ(seq.num_computed_tokens(), 2);
  EXPECT_EQ(seq.num_uncomputed_tokens(), 1);
  seq.advance(1);
  seq.append_token(42);
  EXPECT_EQ(seq.num_uncomputed_tokens(), 1);
  EXPECT_THAT(seq.prompt_tokens(), ElementsAre(2, 0, 5));
  EXPECT_THAT(seq.output_tokens(), ElementsAre(42));
  EXPECT_EQ(seq.length(), 4);
  seq.reset_computed();
  EXPECT_EQ(seq.num_uncomputed_tokens(), 4);
  EXPECT_THAT(seq.output_tokens(), ElementsAre(42)) << "recomputation keeps what was emitted";
}

TEST(Sequence, PendingTokensCountButAreNotKnown) {
  Sequence seq(1, inputs(), true, 4);
  EXPECT_EQ(seq.index(), 4);
  seq.advance(3);
  seq.add_pending();
  seq.advance(1);
  seq.add_pending();
  EXPECT_EQ(seq.num_pending_tokens(), 2);
  EXPECT_EQ(seq.length(), 5);
  EXPECT_EQ(seq.output_len(), 2);
  EXPECT_EQ(seq.num_uncomputed_tokens(), 1);
  EXPECT_THAT(seq.output_tokens(), IsEmpty());
  seq.resolve_pending(42);
  EXPECT_EQ(seq.length(), 5);
  EXPECT_THAT(seq.tokens(), ElementsAre(2, 0, 5, 42));
  seq.reset_computed();
  EXPECT_EQ(seq.num_pending_tokens(), 1) << "its step is in flight still";
  seq.drop_pending();
  EXPECT_EQ(seq.output_len(), 1);
}

TEST(SequenceDeathTest, KnownTokensDoNotFollowPendingOnes) {
  Sequence seq(1, inputs());
  EXPECT_DEATH(seq.resolve_pending(1), "0 vs. 0");
  seq.add_pending();
  EXPECT_DEATH(seq.append_token(1), "1 vs. 0");
}

TEST(SequenceGroupDeathTest, IndicesAscend) {
  EXPECT_DEATH(testing_support::make_group({.seq_ids = {1, 2}, .indices = {1, 1}}), "1 vs. 1");
}

TEST(SequenceDeathTest, CannotComputeMoreThanThereIs) {
  Sequence seq(1, inputs());
  EXPECT_DEATH(seq.advance(4), "4 vs. 3");
}

TEST(Sequence, Statuses) {
  EXPECT_FALSE(is_finished(SequenceStatus::kWaiting));
  EXPECT_FALSE(is_finished(SequenceStatus::kRunning));
  EXPECT_FALSE(is_finished(SequenceStatus::kSwapped));
  EXPECT_STREQ(finish_reason(SequenceStatus::kRunning), "");
  EXPECT_STREQ(finish_reason(SequenceStatus::kFinishedStopped), "stop");
  EXPECT_STREQ(finish_reason(SequenceStatus::kFinishedLength), "length");
  EXPECT_STREQ(finish_reason(SequenceStatus::kFinishedAborted), "abort");
}

TEST(SequenceGroup, FindsItsSequences) {
  const auto group = testing_support::make_group(
      {.request_id = "x", .seq_ids = {4, 5, 6}, .encoder_len = 9, .prompt_len = 2, .priority = 3});
  EXPECT_EQ(group->request_id(), "x");
  EXPECT_EQ(group->priority(), 3);
  EXPECT_EQ(group->encoder_seq().length(), 9);
  EXPECT_EQ(group->find(5), group->seqs()[1].get());
  EXPECT_EQ(group->find(7), nullptr);
  EXPECT_THAT(group->unfinished_seqs(), SizeIs(3));
  group->find(5)->set_status(SequenceStatus::kFinishedStopped);
  EXPECT_THAT(group->unfinished_seqs(), ElementsAre(group->find(4), group->find(6)));
  EXPECT_THAT(group->seqs_with(SequenceStatus::kFinishedStopped), ElementsAre(group->find(5)));
  EXPECT_THAT(group->seqs_with(SequenceStatus::kSwapped), IsEmpty());
  EXPECT_FALSE(group->finished());
  group->find(4)->set_status(SequenceStatus::kFinishedLength);
  group->find(6)->set_status(SequenceStatus::kFinishedAborted);
  EXPECT_TRUE(group->finished());
}

TEST(SequenceGroupDeathTest, NeedsSequences) {
  EXPECT_DEATH(SequenceGroup("x", {}, std::make_unique<Sequence>(1, inputs(), false), {}, 0), "");
}

// A beam's output is a node of a tree: known at once, read when somebody asks.
TEST(Sequence, BeamsGoOnFromOneAnother) {
  EncoderDecoderInputs inputs;
  for (const int32_t id : {2, 0}) inputs.add_prompt_token_ids(id);
  Sequence seq(1, inputs);
  TokenTree tree;
  const auto a = tree.append(TokenTree::kRoot, 5, 0), b = tree.append(a, 6, 0);
  const auto other = tree.append(tree.append(TokenTree::kRoot, 7, 0), 8, 0);
  seq.advance(2);
  seq.continue_from(tree, a, 2);
  EXPECT_EQ(seq.num_known_tokens(), 3);
  EXPECT_EQ(seq.num_uncomputed_tokens(), 1);
  EXPECT_THAT(seq.tokens(), ElementsAre(2, 0, 5));
  seq.continue_from(tree, b, 3);
  seq.continue_from(tree, other, 3);  // nobody has read b
  EXPECT_EQ(seq.output_len(), 2);
  EXPECT_THAT(seq.output_tokens(), ElementsAre(7, 8));
  EXPECT_THAT(seq.prompt_tokens(), ElementsAre(2, 0));
  seq.add_pending();
  seq.add_pending();
  seq.resolve_pending_from(tree, tree.append(b, 9, 0));
  EXPECT_EQ(seq.length(), 6);
  EXPECT_EQ(seq.num_pending_tokens(), 1);
  EXPECT_THAT(seq.tokens(), ElementsAre(2, 0, 5, 6, 9));
}

}  // namespace
}  // namespace tandem
