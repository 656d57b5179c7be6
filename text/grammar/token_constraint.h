// Which tokens may follow, so that a sequence writes a text of a grammar.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "text/grammar/grammar.h"
#include "text/grammar/grammar_program.h"
#include "text/grammar/recogniser.h"
#include "text/grammar/token_vocabulary.h"

namespace tandem {

// Keeps what it has found out, within a bound of memory. Sequences of any number of requests may
// share it; it remembers nothing of them. Usable from any thread.
class TokenConstraint {
 public:
  // A bit for each token of the vocabulary, in words of 64.
  using Mask = std::vector<uint64_t>;

  // Throws GrammarError: the grammar has no text, or none that the tokens can write, or is too
  // large. That takes 100 ms and 64 MB at most.
  TokenConstraint(const Grammar& grammar, std::shared_ptr<const TokenVocabulary> vocabulary);

  struct Allowed {
    std::shared_ptr<const Mask> tokens;  // null: `output` is no beginning of a text
    bool ends = false;                   // `output` is a whole text
  };
  // Behind the tokens. Throws GrammarError if that takes too long to find out.
  Allowed allowed(std::span<const int32_t> output) const;

  const TokenVocabulary& vocabulary() const { return *vocabulary_; }
  // Bytes of memory, about.
  size_t size() const;

 private:
  using State = Recogniser::State;
  State walk(std::span<const int32_t> output) const REQUIRES(mutex_);
  Mask find_tokens(State state, bool first) const REQUIRES(mutex_);
  size_t used() const REQUIRES(mutex_);
  void forget() const REQUIRES(mutex_);

  std::shared_ptr<const TokenVocabulary> vocabulary_;
  std::unique_ptr<const GrammarProgram> program_;
  mutable Mutex mutex_;
  mutable Recogniser recogniser_ GUARDED_BY(mutex_);
  // By state, twice, plus one for the first token.
  mutable std::unordered_map<int64_t, std::shared_ptr<const Mask>> masks_ GUARDED_BY(mutex_);
};

}  // namespace tandem
