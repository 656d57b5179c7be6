// See received_parts.h.
#include "client/received_parts.h"

#include <algorithm>
#include <limits>

namespace tandem::client {
namespace {

constexpr size_t kMaxSequences = 65536;

}  // namespace

void ReceivedParts::write(proto::ResumeRequest& resume) const {
  for (const auto& [index, position] : positions_) {
    proto::StreamPosition& p = *resume.add_received();
    p.set_index(index);
    p.set_num_tokens(position.num_tokens);
    p.set_text_bytes(position.text_bytes);
  }
  resume.set_num_prompt_logprobs(num_prompt_logprobs_);
}

std::string ReceivedParts::take_news(proto::RequestChunk& chunk) {
  for (proto::CompletionChunk& output : *chunk.mutable_outputs()) {
    std::string wrong = take_news(output);
    if (!wrong.empty()) return "sequence " + std::to_string(output.index()) + ": " + wrong;
  }
  const int have = num_prompt_logprobs_;
  const int count = chunk.prompt_logprobs_size();
  if (chunk.prompt_logprobs_offset() < 0) return "a negative offset";
  if (count > std::numeric_limits<int>::max() - have) return "too many prompt logprobs";
  if (count > 0 && chunk.prompt_logprobs_offset() > have)
    return "prompt logprobs from " + std::to_string(chunk.prompt_logprobs_offset()) + " on after " +
           std::to_string(have);
  const int known = std::clamp(have - chunk.prompt_logprobs_offset(), 0, count);
  chunk.mutable_prompt_logprobs()->DeleteSubrange(0, known);
  chunk.set_prompt_logprobs_offset(have);
  num_prompt_logprobs_ += count - known;
  return {};
}

std::string ReceivedParts::take_news(proto::CompletionChunk& chunk) {
  if (chunk.index() < 0) return "a negative index";
  if (positions_.size() >= kMaxSequences && positions_.count(chunk.index()) == 0)
    return "too many sequences";
  Position& have = positions_[chunk.index()];
  const int num_tokens = chunk.token_ids_size();
  const auto text_bytes = static_cast<int64_t>(chunk.text().size());
  if (chunk.token_offset() < 0 || chunk.text_offset() < 0) return "a negative offset";
  if (num_tokens > std::numeric_limits<int>::max() - have.num_tokens) return "too many tokens";
  if (chunk.token_offset() > have.num_tokens)
    return "tokens from " + std::to_string(chunk.token_offset()) + " on after " +
           std::to_string(have.num_tokens);
  if (chunk.text_offset() > have.text_bytes)
    return "text from byte " + std::to_string(chunk.text_offset()) + " on after " +
           std::to_string(have.text_bytes);
  if (chunk.logprobs_size() != 0 && chunk.logprobs_size() != num_tokens)
    return std::to_string(chunk.logprobs_size()) + " logprobs for " + std::to_string(num_tokens) +
           " tokens";
  const int num_segments = chunk.segments_size();
  if (chunk.segment_offset() < 0) return "a negative offset";
  if (num_segments > std::numeric_limits<int>::max() - have.num_segments)
    return "too many segments";
  if (chunk.segment_offset() > have.num_segments)
    return "segments from " + std::to_string(chunk.segment_offset()) + " on after " +
           std::to_string(have.num_segments);
  const int known_tokens = std::min(have.num_tokens - chunk.token_offset(), num_tokens);
  if (known_tokens > 0) {
    chunk.mutable_token_ids()->ExtractSubrange(0, known_tokens, nullptr);
    if (chunk.logprobs_size() > 0) chunk.mutable_logprobs()->DeleteSubrange(0, known_tokens);
  }
  const int64_t known_text = std::min(have.text_bytes - chunk.text_offset(), text_bytes);
  if (known_text > 0) chunk.mutable_text()->erase(0, static_cast<size_t>(known_text));
  const int known_segments = std::min(have.num_segments - chunk.segment_offset(), num_segments);
  chunk.mutable_segments()->DeleteSubrange(0, known_segments);
  chunk.set_segment_offset(have.num_segments);
  chunk.set_token_offset(have.num_tokens);
  chunk.set_text_offset(have.text_bytes);
  have.num_tokens += num_tokens - known_tokens;
  have.text_bytes += text_bytes - known_text;
  have.num_segments += num_segments - known_segments;
  return {};
}

}  // namespace tandem::client
