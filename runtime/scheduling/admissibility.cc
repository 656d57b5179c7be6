#include "runtime/scheduling/admissibility.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/error.h"

namespace tandem {
namespace {

// The parameter that says how many sequences there are.
std::string count_of(const SequenceGroup& group) {
  if (group.beams() != nullptr) return "num_beams";
  return group.params().best_of() > 0 ? "best_of" : "n";
}

void check_count(const SequenceGroup& group, const SchedulerConfig& config) {
  const auto n = static_cast<int64_t>(group.seqs().size());
  const std::string count = count_of(group);
  if (n > config.max_num_seqs)
    throw InputError(ErrorKind::kResource,
                     count + ": " + std::to_string(n) + " sequences, but max_num_seqs is " +
                         std::to_string(config.max_num_seqs),
                     count);
  if (group.beams() != nullptr && n > config.max_num_batched_tokens)
    throw InputError(ErrorKind::kResource,
                     count + ": " + std::to_string(n) +
                         " beams run together, but max_num_batched_tokens is " +
                         std::to_string(config.max_num_batched_tokens),
                     count);
}

}  // namespace

void check_admissible(const SequenceGroup& group, const SchedulerConfig& config) {
  const int64_t n = static_cast<int64_t>(group.seqs().size());
  const int64_t encoder_len = group.encoder_seq().length();
  if (encoder_len == 0) throw invalid_request("prompt", "has no tokens");
  if (group.pools_encoder()) return;
  const int64_t max_tokens = group.params().max_tokens();
  int64_t prompt_len = 0, output_len = 0;  // a group that is resumed has output
  for (const auto& seq : group.seqs()) {
    if (seq->prompt_len() == 0) throw invalid_request("decoder_prompt", "has no tokens");
    prompt_len = std::max<int64_t>(prompt_len, seq->prompt_len());
    output_len = std::max<int64_t>(output_len, seq->output_len());
  }
  if (max_tokens < 1)
    throw invalid_request("max_tokens", std::to_string(max_tokens) + ", must be at least 1");
  if (output_len >= max_tokens)
    throw invalid_request("max_tokens", std::to_string(max_tokens) + ", but a sequence has " +
                                            std::to_string(output_len) + " tokens already");
  check_count(group, config);
  const int64_t size = config.block_size;
  const auto needed = [&](int64_t seqs, int64_t generated) {
    // The last token is sampled, but never fed back. What is generated already counts as such.
    const int64_t longest = prompt_len + generated - 1;
    return (encoder_len + size - 1) / size + seqs * ((longest + size - 1) / size);
  };
  const int64_t total = config.num_device_blocks;
  if (needed(n, max_tokens) <= total) return;
  const std::string param = needed(1, 1) > total            ? "prompt"
                            : needed(1, max_tokens) > total ? "max_tokens"
                                                            : count_of(group);
  throw InputError(ErrorKind::kResource,
                   param + ": " + std::to_string(encoder_len) + " encoder tokens and " +
                       std::to_string(n) + " x (" + std::to_string(prompt_len) + " prompt + " +
                       std::to_string(max_tokens) + " new) decoder tokens need " +
                       std::to_string(needed(n, max_tokens)) + " blocks of " +
                       std::to_string(size) + " tokens, but the cache has " + std::to_string(total),
                   param);
}

}  // namespace tandem
