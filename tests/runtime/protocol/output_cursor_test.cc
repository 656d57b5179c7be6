// OutputCursor: an output in pieces that are new, and whole again.

#include "runtime/protocol/output_cursor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/engine/core/stream_table.h"
#include "tests/support/engine/engine_core_driver.h"
#include "tests/support/files/expect_error.h"
#include "tests/text/fake_tokenizer.h"

namespace tandem {
namespace {

using testing_support::letter;
using testing_support::small_request;

class OutputCursorTest : public ::testing::Test {
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
  OutputCursor cursor;
};

TEST_F(OutputCursorTest, ChunksMadeRarelyLoseNothing) {
  EXPECT_TRUE(cursor.behind(request.output()));  // of its inputs
  token(0, letter('x'));
  token(0, letter('y'));
  auto chunk = cursor.next_chunk(request.output());
  EXPECT_TRUE(chunk.has_inputs());
  ASSERT_EQ(chunk.outputs_size(), 1);
  EXPECT_EQ(chunk.outputs(0).text(), "xy");
  EXPECT_FALSE(cursor.behind(request.output()));
  token(1, letter('z'));
  EXPECT_TRUE(cursor.behind(request.output()));
  token(0, 2);
  chunk = cursor.next_chunk(request.output());
  EXPECT_FALSE(chunk.has_inputs());
  ASSERT_EQ(chunk.outputs_size(), 2);
  EXPECT_EQ(chunk.outputs(0).token_offset(), 2);
  EXPECT_EQ(chunk.outputs(0).text_offset(), 2);
  EXPECT_EQ(chunk.outputs(0).finish_reason(), "stop");
  EXPECT_EQ(chunk.outputs(1).index(), 1);
  token(1, 2);
  chunk = cursor.next_chunk(request.output());
  ASSERT_EQ(chunk.outputs_size(), 1);  // nothing more of one that has ended
  EXPECT_EQ(chunk.outputs(0).index(), 1);
  EXPECT_TRUE(chunk.finished());
  EXPECT_TRUE(chunk.has_metrics());
  EXPECT_FALSE(cursor.behind(request.output()));
}

TEST_F(OutputCursorTest, ResumesBehindWhatIsThere) {
  for (const char c : {'x', 'y', 'z'}) token(0, letter(c));
  cursor.next_chunk(request.output());
  cursor.resume(received(0, 2, 1));
  auto chunk = cursor.next_chunk(request.output());
  EXPECT_TRUE(chunk.has_inputs());
  EXPECT_EQ(chunk.outputs(0).token_offset(), 2);
  EXPECT_EQ(chunk.outputs(0).token_ids_size(), 1);
  EXPECT_EQ(chunk.outputs(0).text_offset(), 1);
  EXPECT_EQ(chunk.outputs(0).text(), "yz");
  cursor.resume({});  // it has nothing
  EXPECT_EQ(cursor.next_chunk(request.output()).outputs(0).text(), "xyz");
}

TEST_F(OutputCursorTest, AResumedStreamEndsAgain) {
  token(0, 2);
  token(1, 2);
  EXPECT_TRUE(cursor.next_chunk(request.output()).finished());
  cursor.resume(received(0, 1, 0));
  EXPECT_TRUE(cursor.behind(request.output()));
  const auto chunk = cursor.next_chunk(request.output());
  ASSERT_EQ(chunk.outputs_size(), 2);
  EXPECT_EQ(chunk.outputs(0).finish_reason(), "stop");
  EXPECT_TRUE(chunk.finished());
}

TEST_F(OutputCursorTest, PositionsThatAreNot) {
  token(0, letter('x'));
  cursor.next_chunk(request.output());
  for (const auto& bad : {received(2, 0, 0), received(-1, 0, 0)})
    EXPECT_INPUT_ERROR(check_received(request.output(), bad), "received.index", "of 2 sequences");
  for (const auto& bad : {received(0, 2, 0), received(0, 0, 2), received(1, 1, 0),
                          received(0, -1, 0), received(0, 0, -1)})
    EXPECT_INPUT_ERROR(check_received(request.output(), bad), "received");
  proto::ResumeRequest bad;
  bad.set_num_prompt_logprobs(1);
  EXPECT_INPUT_ERROR(check_received(request.output(), bad), "num_prompt_logprobs");
  bad.set_num_prompt_logprobs(-1);
  EXPECT_INPUT_ERROR(check_received(request.output(), bad), "num_prompt_logprobs");
}

TEST(OutputCursor, PromptLogProbabilities) {
  auto prepared = small_request();
  for (int i = 0; i < 3; ++i) prepared.inputs.add_prompt_token_ids(4);
  prepared.params.set_prompt_logprobs(0);
  const FakeTokenizer tokenizer;
  RequestState request("a", prepared, tokenizer, 0);
  OutputCursor cursor;
  cursor.next_chunk(request.output());
  proto::SequenceGroupOutput out;
  out.set_prompt_logprobs_start(1);
  for (int i = 0; i < 2; ++i) out.add_prompt_logprobs();
  request.apply(out, 1, 2);
  EXPECT_TRUE(cursor.behind(request.output()));
  const auto first = cursor.next_chunk(request.output());
  EXPECT_EQ(first.prompt_logprobs_size(), 2);
  EXPECT_EQ(first.prompt_logprobs_offset(), 0);
  EXPECT_FALSE(cursor.behind(request.output()));
  proto::ResumeRequest resume;
  resume.set_num_prompt_logprobs(1);
  cursor.resume(resume);
  const auto again = cursor.next_chunk(request.output());
  EXPECT_EQ(again.prompt_logprobs_size(), 1);
  EXPECT_EQ(again.prompt_logprobs_offset(), 1);
}

// Whoever resumes is given segments from the first on, and says nothing of them.
TEST(OutputCursor, SegmentsAndTheLanguageComeOnce) {
  proto::RequestOutput output, gathered;
  proto::CompletionOutput& speech = *output.add_outputs();
  const auto next = [&](OutputCursor& cursor) {
    EXPECT_TRUE(cursor.behind(output));
    const auto chunk = cursor.next_chunk(output);
    EXPECT_FALSE(cursor.behind(output));
    append_chunk(gathered, chunk);
    return chunk;
  };
  OutputCursor cursor;
  output.set_language("<|en|>");
  EXPECT_EQ(next(cursor).language(), "<|en|>");
  for (int i = 0; i < 3; ++i) {
    speech.add_segments()->set_start(i);
    const auto chunk = next(cursor);
    EXPECT_EQ(chunk.language(), "");
    EXPECT_EQ(chunk.outputs(0).segment_offset(), i);
    EXPECT_EQ(chunk.outputs(0).segments_size(), 1);
  }
  EXPECT_EQ(gathered.DebugString(), output.DebugString());
  cursor.resume({});
  const auto again = next(cursor);
  EXPECT_EQ(again.language(), "<|en|>");
  EXPECT_EQ(again.outputs(0).segment_offset(), 0);
  EXPECT_EQ(again.outputs(0).segments_size(), 3);
}

TEST_F(OutputCursorTest, ChunksAreTheWholeAgain) {
  proto::RequestOutput gathered;
  gathered.set_request_id("a");
  for (const auto& [index, id] : std::vector<std::pair<int, int32_t>>{
           {1, letter('y')}, {0, letter('x')}, {1, letter('z')}, {1, 2}, {0, 2}}) {
    token(index, id);
    append_chunk(gathered, cursor.next_chunk(request.output()));
  }
  EXPECT_EQ(gathered.SerializeAsString(), request.output().SerializeAsString());
}

// What is copied grows with the output, not with its square: a chunk holds what is new, whatever
// there was before.
TEST(OutputCursor, CopiesEachTokenOnce) {
  const FakeTokenizer tokenizer;
  auto prepared = small_request(1, 20000);
  prepared.params.set_logprobs(0);
  RequestState request("a", prepared, tokenizer, 0);
  OutputCursor cursor;
  size_t first_half = 0, bytes = 0;
  int tokens = 0;
  for (int i = 0; i < 20000; ++i) {
    proto::SequenceGroupOutput out;
    out.add_samples()->set_token_id(letter('x'));
    out.mutable_samples(0)->mutable_logprobs()->add_top()->set_token_id(letter('x'));
    request.apply(out, 1, 2);
    const auto chunk = cursor.next_chunk(request.output());
    tokens += chunk.outputs(0).token_ids_size();
    bytes += chunk.ByteSizeLong();
    if (i == 9999) first_half = bytes;
  }
  EXPECT_EQ(tokens, 20000);
  EXPECT_LT(bytes, 2.2 * static_cast<double>(first_half));
}

}  // namespace
}  // namespace tandem
