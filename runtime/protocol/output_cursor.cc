#include "runtime/protocol/output_cursor.h"

#include <algorithm>

namespace tandem {
namespace {

proto::CompletionOutput& output_at(proto::RequestOutput& output, int index) {
  auto& list = *output.mutable_outputs();
  const auto less = [](const proto::CompletionOutput& o, int i) { return o.index() < i; };
  const auto at = std::lower_bound(list.begin(), list.end(), index, less) - list.begin();
  if (at == list.size() || list.Get(static_cast<int>(at)).index() != index) {
    list.Add()->set_index(index);
    for (int i = list.size() - 1; i > at; --i) list.SwapElements(i, i - 1);
  }
  return *list.Mutable(static_cast<int>(at));
}

}  // namespace

bool OutputCursor::Position::behind(const proto::CompletionOutput& sequence) const {
  return !ended && (num_tokens < sequence.token_ids_size() || text_bytes < sequence.text().size() ||
                    num_segments < sequence.segments_size() || !sequence.finish_reason().empty());
}

void OutputCursor::resume(const proto::ResumeRequest& received) {
  *this = OutputCursor();
  for (const proto::StreamPosition& p : received.received())
    positions_[p.index()] = {p.num_tokens(), static_cast<size_t>(p.text_bytes()), 0, false};
  num_prompt_logprobs_ = received.num_prompt_logprobs();
}

bool OutputCursor::behind(const proto::RequestOutput& output) const {
  if (end_sent_) return false;
  if (output.finished() || (output.has_inputs() && !inputs_sent_)) return true;
  if (!output.language().empty() && !language_sent_) return true;
  if (num_prompt_logprobs_ < output.prompt_logprobs_size()) return true;
  for (const proto::CompletionOutput& sequence : output.outputs()) {
    const auto it = positions_.find(sequence.index());
    if ((it == positions_.end() ? Position{} : it->second).behind(sequence)) return true;
  }
  return false;
}

proto::RequestChunk OutputCursor::next_chunk(const proto::RequestOutput& output) {
  proto::RequestChunk chunk;
  next_chunk(output, chunk);
  return chunk;
}

void OutputCursor::next_chunk(const proto::RequestOutput& output, proto::RequestChunk& chunk) {
  chunk.set_request_id(output.request_id());
  if (output.has_inputs() && !inputs_sent_) {
    *chunk.mutable_inputs() = output.inputs();
    inputs_sent_ = true;
  }
  if (!output.language().empty() && !language_sent_) {
    chunk.set_language(output.language());
    language_sent_ = true;
  }
  for (const proto::CompletionOutput& sequence : output.outputs()) {
    Position& sent = positions_[sequence.index()];
    if (!sent.behind(sequence)) continue;
    const bool ended = !sequence.finish_reason().empty();
    proto::CompletionChunk& news = *chunk.add_outputs();
    news.set_index(sequence.index());
    news.set_token_offset(sent.num_tokens);
    news.mutable_token_ids()->Add(sequence.token_ids().begin() + sent.num_tokens,
                                  sequence.token_ids().end());
    news.set_text_offset(static_cast<int64_t>(sent.text_bytes));
    news.mutable_text()->assign(sequence.text(), sent.text_bytes);
    for (int k = sent.num_tokens; k < sequence.logprobs_size(); ++k)
      *news.add_logprobs() = sequence.logprobs(k);
    news.set_cumulative_logprob(sequence.cumulative_logprob());
    if (sequence.has_score()) news.set_score(sequence.score());
    if (ended) news.set_finish_reason(sequence.finish_reason());
    if (!sequence.stop_reason().empty()) news.set_stop_reason(sequence.stop_reason());
    news.set_segment_offset(sent.num_segments);
    for (int k = sent.num_segments; k < sequence.segments_size(); ++k)
      *news.add_segments() = sequence.segments(k);
    sent = {sequence.token_ids_size(), sequence.text().size(), sequence.segments_size(), ended};
  }
  chunk.set_prompt_logprobs_offset(num_prompt_logprobs_);
  for (; num_prompt_logprobs_ < output.prompt_logprobs_size(); ++num_prompt_logprobs_)
    *chunk.add_prompt_logprobs() = output.prompt_logprobs(num_prompt_logprobs_);
  if (!output.finished()) return;
  chunk.set_finished(true);
  if (output.has_metrics()) *chunk.mutable_metrics() = output.metrics();
  if (output.has_embedding()) *chunk.mutable_embedding() = output.embedding();
  *chunk.mutable_warnings() = output.warnings();
  end_sent_ = true;
}

void append_chunk(proto::RequestOutput& output, const proto::RequestChunk& chunk) {
  if (chunk.has_inputs()) *output.mutable_inputs() = chunk.inputs();
  if (!chunk.language().empty()) output.set_language(chunk.language());
  for (const proto::CompletionChunk& news : chunk.outputs()) {
    proto::CompletionOutput& to = output_at(output, news.index());
    to.mutable_token_ids()->MergeFrom(news.token_ids());
    to.mutable_text()->append(news.text());
    to.mutable_logprobs()->MergeFrom(news.logprobs());
    to.mutable_segments()->MergeFrom(news.segments());
    to.set_cumulative_logprob(news.cumulative_logprob());
    if (news.has_score()) to.set_score(news.score());
    to.set_finish_reason(news.finish_reason());
    to.set_stop_reason(news.stop_reason());
  }
  output.mutable_prompt_logprobs()->MergeFrom(chunk.prompt_logprobs());
  if (chunk.finished()) output.set_finished(true);
  if (chunk.has_embedding()) *output.mutable_embedding() = chunk.embedding();
  output.mutable_warnings()->MergeFrom(chunk.warnings());
  if (chunk.has_metrics()) *output.mutable_metrics() = chunk.metrics();
}

}  // namespace tandem
