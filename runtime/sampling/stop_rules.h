// When a sequence ends: by token (EOS, stop tokens, length) on the token side, by stop strings on
// the text side.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/protocol/tandem.pb.h"
#include "runtime/sampling/sequence_status.h"

namespace tandem {

struct StopDecision {
  SequenceStatus status = SequenceStatus::kRunning;  // goes on
  std::string reason;  // the stop token's id, as text; "" for EOS and length (vLLM's stop_reason)
};

// Whether the length's limit leaves no choice: the output_len-th generated token is one of
// forced_eos_token_id.
bool eos_is_forced(const proto::SamplingParams& params, int64_t output_len);

// After `token` was appended as the output_len-th generated one. EOS comes before stop tokens, both
// before the length; but a forced end is the length's, whatever the token. A stop token does not
// end a sequence that is shorter than vLLM's min_tokens.
StopDecision check_stop(const proto::SamplingParams& params, int32_t token, int output_len);

// Finds stop strings in text that comes in pieces. Text that may turn out to belong to a stop
// string is held back. The match is the one that ends first; of those that end together, the
// longest. It does not depend on how the text is cut into pieces. Time is linear in the text, times
// the stop strings.
class StopStringMatcher {
 public:
  // include: the text ends behind the stop string instead of before it.
  StopStringMatcher(std::vector<std::string> stops, bool include);
  explicit StopStringMatcher(const proto::SamplingParams& params);

  // Text that is certain now. may_stop false (vLLM: while output_len <= min_tokens_stop): no match
  // may end in this piece, but one may begin. Once stopped, everything more is dropped.
  std::string append(std::string_view piece, bool may_stop = true);
  // What was held back, when the sequence ends for another reason.
  std::string finish();

  bool stopped() const { return stopped_; }
  const std::string& stop_string() const { return stop_string_; }  // that matched, once stopped
  // Bytes of all text returned so far; once stopped, where the text was cut.
  size_t emitted() const { return emitted_; }

 private:
  // Knuth, Morris, Pratt: `matched` bytes of `text` are the end of what was read.
  struct Automaton {
    std::string text;
    std::vector<uint32_t> failure;  // failure[i]: longest proper border of the first i bytes
    uint32_t matched = 0;
    bool step(char c);  // true: all of it
  };

  void stop_at(const Automaton& match);
  std::string release(size_t bytes);

  std::vector<Automaton> automata_;
  bool include_;
  std::string held_;
  size_t emitted_ = 0;
  bool stopped_ = false;
  std::string stop_string_;
};

// HuggingFace's rule: of each token it knows the text inside of a text, and a string ends with the
// token that completes it, if all of its bytes are those of the last tokens. So a first token has
// its space, special tokens have their texts, and what stands on either side of a token that is
// decoded apart is no string.
class TokenStopMatcher {
 public:
  explicit TokenStopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  // text: of the next token of the sequence; the decoder's prompt counts.
  void append(std::string text);
  // Whether the last token completed a string. Of several the first of the list.
  const std::string* match() const;

 private:
  bool ends(const std::string& stop) const;
  bool continues(const std::string& stop, size_t matched) const;

  std::vector<std::string> stops_;
  std::deque<std::string> texts_;  // as many of the last tokens as the longest string has bytes
};

}  // namespace tandem
