#include "runtime/sampling/constraint_mask.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "base/log/log.h"
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
    log_warning("{}: {}", seq.params->constraint().field(), error.what());
    return {std::make_shared<const TokenConstraint::Mask>(), false};
  }
}

// use(word, bits) of each 64 tokens of a row: a bit for each that may follow.
template <class Use>
void for_words(const SamplerSequence& seq, size_t size, const Use& use) {
  const TokenConstraint::Allowed allowed = allowed_by(seq);
  const bool ends = allowed.tokens == nullptr || allowed.ends;
  for (size_t word = 0; word * 64 < size; ++word) {
    uint64_t bits =
        allowed.tokens != nullptr && word < allowed.tokens->size() ? (*allowed.tokens)[word] : 0;
    if (ends)
      for (const int32_t id : seq.params->eos_token_id())
        if (id >= 0 && static_cast<size_t>(id) / 64 == word) bits |= uint64_t{1} << (id % 64);
    use(word, bits);
  }
}

}  // namespace

void mask_by_constraint(const SamplerSequence& seq, std::span<float> row) {
  for_words(seq, row.size(), [&](size_t word, uint64_t bits) {
    const size_t end = std::min(row.size(), word * 64 + 64);
    for (size_t id = word * 64; id < end; ++id)
      if ((bits >> (id % 64) & 1) == 0) row[id] = kForbidden;
  });
}

std::vector<uint32_t> constraint_bits(const SamplerSequence& seq, int64_t vocabulary) {
  std::vector<uint32_t> out;
  for_words(seq, static_cast<size_t>(vocabulary), [&](size_t, uint64_t bits) {
    out.push_back(static_cast<uint32_t>(bits));
    out.push_back(static_cast<uint32_t>(bits >> 32));
  });
  out.resize(static_cast<size_t>((vocabulary + 31) / 32));
  return out;
}

}  // namespace tandem
