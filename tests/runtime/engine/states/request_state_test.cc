// RequestState: sampled tokens → text and ends; what goes to a scheduler, first and again.

#include "runtime/engine/states/request_state.h"

#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <utility>

#include "runtime/engine/make_sequence_group.h"
#include "tests/support/engine/engine_core_driver.h"
#include "tests/support/files/expect_error.h"
#include "tests/text/fake_tokenizer.h"

namespace tandem {
namespace {

using testing_support::letter;
using testing_support::small_request;

class RequestStateTest : public ::testing::Test {
 protected:
  RequestState& make(PreparedRequest request) {
    state_ = std::make_unique<RequestState>("a", std::move(request), tokenizer_, 100, 3);
    state_->set_first_seq_id(50);
    return *state_;
  }
  static proto::SequenceGroupOutput output(int64_t seq_id, int32_t token) {
    proto::SequenceGroupOutput out;
    out.set_seq_id(seq_id);
    out.add_samples()->set_seq_id(seq_id);
    out.mutable_samples(0)->set_token_id(token);
    return out;
  }
  static proto::SequenceGroupOutput prompt_logprobs(int start, int count) {
    proto::SequenceGroupOutput out;
    out.set_seq_id(50);
    out.set_prompt_logprobs_start(start);
    for (int i = 0; i < count; ++i)
      out.add_prompt_logprobs()->add_top()->set_token_id(start % 1000 + i);
    return out;
  }

  FakeTokenizer tokenizer_;
  std::unique_ptr<RequestState> state_;
};

TEST_F(RequestStateTest, TokensBecomeText) {
  RequestState& state = make(small_request(2, 3));
  EXPECT_EQ(state.num_seq_ids(), 3);
  EXPECT_TRUE(state.apply(output(50, letter('x')), 101, 102).empty());
  EXPECT_TRUE(state.apply(output(51, letter('y')), 102, 103).empty());
  EXPECT_EQ(state.num_output_tokens(), 2);
  const auto finished = state.apply(output(51, 2), 103, 104);
  ASSERT_EQ(finished.size(), 1u);
  EXPECT_EQ(finished[0].seq_id, 51);
  EXPECT_EQ(finished[0].status, SequenceStatus::kFinishedStopped);
  EXPECT_FALSE(state.finished());
  state.apply(output(50, letter('x')), 104, 105);
  state.apply(output(50, letter('x')), 105, 106);
  EXPECT_TRUE(state.finished());
  const proto::RequestOutput& all = state.output();
  EXPECT_EQ(all.request_id(), "a");
  EXPECT_TRUE(all.finished());
  EXPECT_EQ(all.outputs(0).text(), "xxx");
  EXPECT_EQ(all.outputs(0).finish_reason(), "length");
  EXPECT_EQ(all.outputs(1).finish_reason(), "stop");
  EXPECT_EQ(all.metrics().queue_time(), 1);
  EXPECT_EQ(all.metrics().time_to_first_token(), 2);
  EXPECT_EQ(all.metrics().total_time(), 6);
}

TEST_F(RequestStateTest, SamplesOfOthersArePassedOver) {
  RequestState& state = make(small_request(1, 3));
  for (const int64_t id : {int64_t{49}, int64_t{51}, std::numeric_limits<int64_t>::min(),
                           std::numeric_limits<int64_t>::max()})
    EXPECT_TRUE(state.apply(output(id, letter('x')), 1, 2).empty());
  EXPECT_EQ(state.num_output_tokens(), 0);
  state.apply(output(50, 2), 1, 2);
  EXPECT_TRUE(state.apply(output(50, letter('x')), 1, 2).empty());  // it has ended
  EXPECT_EQ(state.num_output_tokens(), 1);
}

TEST_F(RequestStateTest, AStopStringEndsASequence) {
  auto request = small_request(1, 8);
  request.params.add_stop("xy");
  RequestState& state = make(request);
  state.apply(output(50, letter('a')), 1, 2);
  state.apply(output(50, letter('x')), 1, 2);
  EXPECT_EQ(state.output().outputs(0).text(), "a");  // held back
  EXPECT_EQ(state.apply(output(50, letter('y')), 1, 2).size(), 1u);
  EXPECT_EQ(state.output().outputs(0).stop_reason(), "xy");
}

// As HuggingFace's MaxTimeCriteria: the token that comes when the time is over is the last one.
TEST_F(RequestStateTest, MaxTimeEndsAllSequences) {
  auto request = small_request(2, 8);
  request.params.set_max_time(5);
  request.params.add_stop("xyz");
  RequestState& state = make(request);
  state.apply(output(50, letter('a')), 200, 201);  // its time begins
  EXPECT_TRUE(state.apply(output(51, letter('x')), 201, 205).empty());
  const auto finished = state.apply(output(51, letter('y')), 202, 205.5);
  ASSERT_EQ(finished.size(), 2u);
  EXPECT_EQ(finished[0].status, SequenceStatus::kFinishedLength);
  EXPECT_TRUE(state.finished());
  EXPECT_EQ(state.output().outputs(0).text(), "a");
  EXPECT_EQ(state.output().outputs(1).text(), "xy");  // what was held back too
  EXPECT_EQ(state.output().outputs(1).finish_reason(), "length");
  state.check_integrity();
}

TEST_F(RequestStateTest, WithMaxTimeThereIsATokenAtLeast) {
  auto request = small_request(2, 8);
  request.params.set_max_time(0);
  RequestState& state = make(request);
  EXPECT_EQ(state.apply(output(50, letter('a')), 200, 201).size(), 1u);
  EXPECT_FALSE(state.finished());
  EXPECT_EQ(state.apply(output(51, 2), 201, 202).size(), 1u);
  EXPECT_EQ(state.output().outputs(1).finish_reason(), "stop");
  EXPECT_TRUE(state.finished());
}

TEST_F(RequestStateTest, ARequestStartsAgainWithWhatItHas) {
  RequestState& state = make(small_request(3, 8));
  state.apply(output(50, letter('x')), 1, 2);
  state.apply(output(51, 2), 1, 2);
  state.set_first_seq_id(90);
  const proto::AddRequest add = state.add_request();
  EXPECT_EQ(add.request_id(), "a");
  EXPECT_EQ(add.priority(), 3);
  EXPECT_EQ(add.arrival_time(), 100);
  ASSERT_EQ(add.seqs_size(), 2);
  const auto group = make_sequence_group(add);
  EXPECT_EQ(group->priority(), 3);
  ASSERT_EQ(group->seqs().size(), 2u);
  EXPECT_EQ(group->seqs()[0]->seq_id(), 90);
  EXPECT_EQ(group->seqs()[0]->output_len(), 1);
  EXPECT_EQ(group->seqs()[1]->seq_id(), 92);
  EXPECT_EQ(group->seqs()[1]->index(), 2);
  EXPECT_EQ(group->encoder_seq().seq_id(), 93);
  EXPECT_EQ(group->encoder_seq().length(), 1);
  state.apply(output(92, letter('z')), 1, 2);
  EXPECT_EQ(state.output().outputs(2).text(), "z");
}

TEST_F(RequestStateTest, AnIndexThatIsNoSequences) {
  proto::AddRequest add = make(small_request(2)).add_request();
  add.mutable_seqs(1)->set_index(2);
  EXPECT_INPUT_ERROR(make_sequence_group(add), "seqs.index", "2 of 2");
  add.mutable_seqs(1)->set_index(-1);
  EXPECT_INPUT_ERROR(make_sequence_group(add), "seqs.index", "-1 of 2");
}

TEST_F(RequestStateTest, PromptLogProbabilitiesComeOnce) {
  auto request = small_request();
  for (int i = 0; i < 4; ++i) request.inputs.add_prompt_token_ids(5);  // five tokens
  request.params.set_prompt_logprobs(0);
  RequestState& state = make(request);
  state.apply(prompt_logprobs(1, 2), 1, 2);
  state.apply(prompt_logprobs(4, 1), 1, 2);  // a gap
  EXPECT_EQ(state.output().prompt_logprobs().size(), 2);
  state.apply(prompt_logprobs(1, 3), 1, 2);  // the prompt is recomputed
  ASSERT_EQ(state.output().prompt_logprobs().size(), 3);
  EXPECT_EQ(state.output().prompt_logprobs()[2].top(0).token_id(), 3);
  state.apply(prompt_logprobs(4, 9), 1, 2);  // more than there are
  state.apply(prompt_logprobs(std::numeric_limits<int>::max(), 2), 1, 2);
  EXPECT_EQ(state.output().prompt_logprobs().size(), 4);
}

TEST_F(RequestStateTest, PromptLogProbabilitiesThatNobodyAskedFor) {
  auto request = small_request();
  request.inputs.add_prompt_token_ids(5);
  RequestState& state = make(request);
  state.apply(prompt_logprobs(1, 1), 1, 2);
  EXPECT_TRUE(state.output().prompt_logprobs().empty());
}

}  // namespace
}  // namespace tandem
