#include "runtime/sampling/constraint_mask.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "text/grammar/grammar_error.h"
#include "text/grammar/token_constraint.h"

namespace tandem {
namespace {

constexpr float kForbidden = -std::numeric_limits<float>::infinity();

// The generated tokens that are the text.
std::span<const int32_t> text_of(const SamplerSequence& seq) {
  const bool forced = seq.prompt_ids.size() == 1 && seq.params->has_forced_bos_token_id();
  return forced && !seq.output_ids.empty() ? seq.output_ids.subspan(1) : seq.output_ids;
}

// Nothing but tokens of a constraint that was too much work to follow.
TokenConstraint::Allowed allowed_by(const SamplerSequence& seq) {
  if (seq.constraint == nullptr) return {std::make_shared<const TokenConstraint::Mask>(), false};
  try {
    return seq.constraint->allowed(text_of(seq));
  } catch (const GrammarError& error) {
    spdlog::warn("{}: {}", seq.params->constraint().field(), error.what());
    return {std::make_shared<const TokenConstraint::Mask>(), false};
  }
}

}  // namespace

void mask_by_constraint(const SamplerSequence& seq, std::span<float> row) {
  const TokenConstraint::Allowed allowed = allowed_by(seq);
  const bool ends = allowed.tokens == nullptr || allowed.ends;
  const auto& end_tokens = seq.params->eos_token_id();
  const auto keeps_end = [&](size_t id) {
    return ends && std::find(end_tokens.begin(), end_tokens.end(), static_cast<int32_t>(id)) !=
                       end_tokens.end();
  };
  for (size_t word = 0; word * 64 < row.size(); ++word) {
    const uint64_t bits =
        allowed.tokens != nullptr && word < allowed.tokens->size() ? (*allowed.tokens)[word] : 0;
    const size_t end = std::min(row.size(), word * 64 + 64);
    for (size_t id = word * 64; id < end; ++id)
      if ((bits >> (id % 64) & 1) == 0 && !keeps_end(id)) row[id] = kForbidden;
  }
}

}  // namespace tandem
