#include "runtime/engine/stream_table.h"

#include <algorithm>

#include "base/error.h"

namespace tandem {

StreamCursor::Position& StreamCursor::at(size_t index) {
  if (seqs_.size() <= index) seqs_.resize(index + 1);
  return seqs_[index];
}

void StreamCursor::resume(const RequestState& request, const proto::ResumeRequest& received) {
  StreamCursor cursor;
  for (const proto::StreamPosition& p : received.received()) {
    if (p.index() < 0 || p.index() >= request.num_outputs())
      throw invalid_request("received.index", std::to_string(p.index()) + " of " +
                                                  std::to_string(request.num_outputs()) +
                                                  " sequences");
    const auto& output = request.output_of(p.index());
    if (p.num_tokens() < 0 || p.num_tokens() > output.token_ids_size() || p.text_bytes() < 0 ||
        static_cast<size_t>(p.text_bytes()) > output.text().size())
      throw invalid_request("received", "more than sequence " + std::to_string(p.index()) + " has");
    cursor.at(static_cast<size_t>(p.index())) = {p.num_tokens(),
                                                 static_cast<size_t>(p.text_bytes()), false};
  }
  const int known = static_cast<int>(request.prompt_logprobs().size());
  if (received.num_prompt_logprobs() < 0 || received.num_prompt_logprobs() > known)
    throw invalid_request("num_prompt_logprobs", "more than there are");
  cursor.num_prompt_logprobs_ = received.num_prompt_logprobs();
  *this = std::move(cursor);
}

bool StreamCursor::behind(const RequestState& request) const {
  if (last_sent_) return false;
  if (!inputs_sent_ || request.finished()) return true;
  if (num_prompt_logprobs_ < static_cast<int>(request.prompt_logprobs().size())) return true;
  for (int i = 0; i < request.num_outputs(); ++i) {
    const auto& output = request.output_of(i);
    const auto at = static_cast<size_t>(i);
    const Position sent = at < seqs_.size() ? seqs_[at] : Position{};
    if (sent.num_tokens < output.token_ids_size() || sent.text_bytes < output.text().size() ||
        sent.finished != request.output_finished(i))
      return true;
  }
  return false;
}

proto::RequestChunk StreamCursor::next_chunk(const RequestState& request, double now) {
  proto::RequestChunk chunk;
  next_chunk(request, now, chunk);
  return chunk;
}

void StreamCursor::next_chunk(const RequestState& request, double now, proto::RequestChunk& chunk) {
  chunk.set_request_id(request.request_id());
  if (!inputs_sent_) *chunk.mutable_inputs() = request.inputs();
  inputs_sent_ = true;
  for (int i = 0; i < request.num_outputs(); ++i) {
    const proto::CompletionOutput& output = request.output_of(i);
    const bool ended = request.output_finished(i);
    Position& sent = at(static_cast<size_t>(i));
    if (sent.finished || (sent.num_tokens == output.token_ids_size() &&
                          sent.text_bytes == output.text().size() && !ended))
      continue;
    proto::CompletionChunk& news = *chunk.add_outputs();
    news.set_index(output.index());
    news.set_token_offset(sent.num_tokens);
    news.mutable_token_ids()->Add(output.token_ids().begin() + sent.num_tokens,
                                  output.token_ids().end());
    news.set_text_offset(static_cast<int64_t>(sent.text_bytes));
    news.mutable_text()->assign(output.text(), sent.text_bytes);
    for (int k = sent.num_tokens; k < output.logprobs_size(); ++k)
      *news.add_logprobs() = output.logprobs(k);
    news.set_cumulative_logprob(output.cumulative_logprob());
    if (output.has_score()) news.set_score(output.score());
    if (!output.finish_reason().empty()) news.set_finish_reason(output.finish_reason());
    if (!output.stop_reason().empty()) news.set_stop_reason(output.stop_reason());
    sent = {output.token_ids_size(), output.text().size(), ended};
  }
  chunk.set_prompt_logprobs_offset(num_prompt_logprobs_);
  for (auto k = static_cast<size_t>(num_prompt_logprobs_); k < request.prompt_logprobs().size();
       ++k)
    *chunk.add_prompt_logprobs() = request.prompt_logprobs()[k];
  num_prompt_logprobs_ = static_cast<int>(request.prompt_logprobs().size());
  if (request.finished()) {
    chunk.set_finished(true);
    *chunk.mutable_metrics() = request.metrics(now);
    if (request.embedding() != nullptr) *chunk.mutable_embedding() = *request.embedding();
    last_sent_ = true;
  }
}

std::vector<std::string> ClientWindow::acknowledge(uint64_t message) {
  acknowledged_ = std::max(acknowledged_, std::min(message, next_ - 1));
  std::vector<std::string> arrived;
  while (!last_chunks_.empty() && last_chunks_.begin()->first <= acknowledged_) {
    for (std::string& id : last_chunks_.begin()->second) arrived.push_back(std::move(id));
    last_chunks_.erase(last_chunks_.begin());
  }
  return arrived;
}

}  // namespace tandem
