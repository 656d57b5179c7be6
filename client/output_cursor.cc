#include "client/output_cursor.h"

namespace tandem::client {

proto::RequestChunk OutputCursor::next_chunk(const proto::RequestOutput& output) {
  proto::RequestChunk chunk;
  if (output.has_inputs() && !seen_inputs_) {
    *chunk.mutable_inputs() = output.inputs();
    seen_inputs_ = true;
  }
  for (const proto::CompletionOutput& sequence : output.outputs()) {
    Position& seen = seen_[sequence.index()];
    if (seen.finished ||
        (seen.num_tokens == sequence.token_ids_size() &&
         seen.text_bytes == sequence.text().size() && sequence.finish_reason().empty()))
      continue;
    proto::CompletionChunk& news = *chunk.add_outputs();
    news.set_index(sequence.index());
    news.set_token_offset(seen.num_tokens);
    news.mutable_token_ids()->Add(sequence.token_ids().begin() + seen.num_tokens,
                                  sequence.token_ids().end());
    news.set_text_offset(static_cast<int64_t>(seen.text_bytes));
    news.set_text(sequence.text().substr(seen.text_bytes));
    for (int k = seen.num_tokens; k < sequence.logprobs_size(); ++k)
      *news.add_logprobs() = sequence.logprobs(k);
    news.set_cumulative_logprob(sequence.cumulative_logprob());
    if (sequence.has_score()) news.set_score(sequence.score());
    news.set_finish_reason(sequence.finish_reason());
    news.set_stop_reason(sequence.stop_reason());
    seen = {sequence.token_ids_size(), sequence.text().size(), !sequence.finish_reason().empty()};
  }
  chunk.set_prompt_logprobs_offset(seen_prompt_logprobs_);
  for (; seen_prompt_logprobs_ < output.prompt_logprobs_size(); ++seen_prompt_logprobs_)
    *chunk.add_prompt_logprobs() = output.prompt_logprobs(seen_prompt_logprobs_);
  chunk.set_finished(output.finished());
  if (output.has_embedding()) *chunk.mutable_embedding() = output.embedding();
  if (output.has_metrics()) *chunk.mutable_metrics() = output.metrics();
  return chunk;
}

}  // namespace tandem::client
