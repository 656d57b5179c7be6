// StreamCursor and ClientWindow: what a client has been sent, and what it has acknowledged.

#include "runtime/engine/stream_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/engine/engine_core_driver.h"
#include "tests/support/files/expect_error.h"
#include "tests/text/fake_tokenizer.h"

namespace tandem {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing_support::letter;
using testing_support::small_request;

class StreamCursorTest : public testing::Test {
 protected:
  void token(int index, int32_t token) {
    proto::SequenceGroupOutput out;
    out.add_samples()->set_seq_id(index);
    out.mutable_samples(0)->set_token_id(token);
    request.apply(out, 1, 2);
  }
  static proto::ResumeRequest received(int index, int tokens, int bytes) {
    proto::ResumeRequest resume;
    auto& p = *resume.add_received();
    p.set_index(index);
    p.set_num_tokens(tokens);
    p.set_text_bytes(bytes);
    return resume;
  }

  FakeTokenizer tokenizer;
  RequestState request{"a", small_request(2, 4), tokenizer, 0};
  StreamCursor cursor;
};

TEST_F(StreamCursorTest, ChunksMadeRarelyLoseNothing) {
  EXPECT_TRUE(cursor.behind(request));  // of its inputs
  token(0, letter('x'));
  token(0, letter('y'));
  auto chunk = cursor.next_chunk(request, 3);
  EXPECT_TRUE(chunk.has_inputs());
  ASSERT_EQ(chunk.outputs_size(), 1);
  EXPECT_EQ(chunk.outputs(0).text(), "xy");
  EXPECT_FALSE(cursor.behind(request));
  token(1, letter('z'));
  EXPECT_TRUE(cursor.behind(request));
  token(0, 2);
  chunk = cursor.next_chunk(request, 3);
  EXPECT_FALSE(chunk.has_inputs());
  ASSERT_EQ(chunk.outputs_size(), 2);
  EXPECT_EQ(chunk.outputs(0).token_offset(), 2);
  EXPECT_EQ(chunk.outputs(0).text_offset(), 2);
  EXPECT_EQ(chunk.outputs(0).finish_reason(), "stop");
  EXPECT_EQ(chunk.outputs(1).index(), 1);
  token(1, 2);
  chunk = cursor.next_chunk(request, 3);
  ASSERT_EQ(chunk.outputs_size(), 1);  // nothing more of one that has ended
  EXPECT_EQ(chunk.outputs(0).index(), 1);
  EXPECT_TRUE(chunk.finished());
  EXPECT_TRUE(chunk.has_metrics());
  EXPECT_FALSE(cursor.behind(request));
}

TEST_F(StreamCursorTest, ResumesBehindWhatIsThere) {
  for (const char c : {'x', 'y', 'z'}) token(0, letter(c));
  cursor.next_chunk(request, 3);
  cursor.resume(request, received(0, 2, 1));
  auto chunk = cursor.next_chunk(request, 3);
  EXPECT_TRUE(chunk.has_inputs());
  EXPECT_EQ(chunk.outputs(0).token_offset(), 2);
  EXPECT_EQ(chunk.outputs(0).token_ids_size(), 1);
  EXPECT_EQ(chunk.outputs(0).text_offset(), 1);
  EXPECT_EQ(chunk.outputs(0).text(), "yz");
  cursor.resume(request, {});  // it has nothing
  EXPECT_EQ(cursor.next_chunk(request, 3).outputs(0).text(), "xyz");
}

TEST_F(StreamCursorTest, AResumedStreamEndsAgain) {
  token(0, 2);
  token(1, 2);
  EXPECT_TRUE(cursor.next_chunk(request, 3).finished());
  cursor.resume(request, received(0, 1, 0));
  EXPECT_TRUE(cursor.behind(request));
  const auto chunk = cursor.next_chunk(request, 3);
  ASSERT_EQ(chunk.outputs_size(), 2);
  EXPECT_EQ(chunk.outputs(0).finish_reason(), "stop");
  EXPECT_TRUE(chunk.finished());
}

TEST_F(StreamCursorTest, PositionsThatAreNot) {
  token(0, letter('x'));
  cursor.next_chunk(request, 3);
  for (const auto& bad : {received(2, 0, 0), received(-1, 0, 0)})
    EXPECT_INPUT_ERROR(cursor.resume(request, bad), "received.index", "of 2 sequences");
  for (const auto& bad : {received(0, 2, 0), received(0, 0, 2), received(1, 1, 0),
                          received(0, -1, 0), received(0, 0, -1)})
    EXPECT_INPUT_ERROR(cursor.resume(request, bad), "received");
  proto::ResumeRequest bad;
  bad.set_num_prompt_logprobs(1);
  EXPECT_INPUT_ERROR(cursor.resume(request, bad), "num_prompt_logprobs");
  bad.set_num_prompt_logprobs(-1);
  EXPECT_INPUT_ERROR(cursor.resume(request, bad), "num_prompt_logprobs");
  EXPECT_FALSE(cursor.behind(request));  // unchanged
}

TEST(StreamCursor, PromptLogProbabilities) {
  auto prepared = small_request();
  for (int i = 0; i < 3; ++i) prepared.inputs.add_prompt_token_ids(4);
  prepared.params.set_prompt_logprobs(0);
  const FakeTokenizer tokenizer;
  RequestState request("a", prepared, tokenizer, 0);
  StreamCursor cursor;
  cursor.next_chunk(request, 1);
  proto::SequenceGroupOutput out;
  out.set_prompt_logprobs_start(1);
  for (int i = 0; i < 2; ++i) out.add_prompt_logprobs();
  request.apply(out, 1, 2);
  EXPECT_TRUE(cursor.behind(request));
  const auto first = cursor.next_chunk(request, 1);
  EXPECT_EQ(first.prompt_logprobs_size(), 2);
  EXPECT_EQ(first.prompt_logprobs_offset(), 0);
  EXPECT_FALSE(cursor.behind(request));
  proto::ResumeRequest resume;
  resume.set_num_prompt_logprobs(1);
  cursor.resume(request, resume);
  const auto again = cursor.next_chunk(request, 1);
  EXPECT_EQ(again.prompt_logprobs_size(), 1);
  EXPECT_EQ(again.prompt_logprobs_offset(), 1);
}

TEST(ClientWindow, CreditComesBackWithAcknowledgements) {
  ClientWindow window;
  for (uint64_t i = 1; i <= ClientWindow::kMaxUnacknowledged; ++i) {
    EXPECT_TRUE(window.has_credit());
    EXPECT_EQ(window.next_message(), i);
  }
  EXPECT_FALSE(window.has_credit());
  window.acknowledge(3);
  for (int i = 0; i < 3; ++i) window.next_message();
  EXPECT_FALSE(window.has_credit());
  window.acknowledge(2);  // older than the last one
  EXPECT_FALSE(window.has_credit());
  window.acknowledge(1'000'000);
  EXPECT_TRUE(window.has_credit());
  EXPECT_EQ(window.next_message(), 20u);
}

TEST(ClientWindow, AcknowledgementsAreCumulative) {
  ClientWindow window;
  for (int i = 0; i < 5; ++i) window.next_message();
  window.wait_for_acknowledgement(2, "a");
  window.wait_for_acknowledgement(3, "b");
  window.wait_for_acknowledgement(3, "c");
  window.wait_for_acknowledgement(5, "d");
  EXPECT_THAT(window.acknowledge(1), IsEmpty());
  EXPECT_THAT(window.acknowledge(4), ElementsAre("a", "b", "c"));
  EXPECT_THAT(window.acknowledge(4), IsEmpty());
  EXPECT_THAT(window.acknowledge(5), ElementsAre("d"));
}

}  // namespace
}  // namespace tandem
