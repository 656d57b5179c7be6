#include "text/grammar/token_constraint.h"

#include <string_view>
#include <utility>

#include "text/grammar/grammar_error.h"

namespace tandem {
namespace {

constexpr size_t kMaxBytes = size_t{40} << 20;
constexpr int64_t kMaxSteps = 1000000;  // of one call

std::unique_ptr<const GrammarProgram> compile(const Grammar& grammar,
                                              const TokenVocabulary& vocabulary) {
  auto program = std::make_unique<GrammarProgram>(grammar, vocabulary.writable());
  if (program->place(program->start()).completes) return program;
  const GrammarProgram all(grammar, nullptr);
  if (all.place(all.start()).completes)
    throw wrong_grammar("the model's tokens cannot write any text of it");
  throw wrong_grammar("no text matches it");
}

}  // namespace

TokenConstraint::TokenConstraint(const Grammar& grammar,
                                 std::shared_ptr<const TokenVocabulary> vocabulary)
    : vocabulary_(std::move(vocabulary)),
      program_(compile(grammar, *vocabulary_)),
      recogniser_(*program_) {
  {
    const MutexLock lock(mutex_);
    recogniser_.set_budget(kMaxSteps);
    forget();
  }
  allowed({});
}

TokenConstraint::Allowed TokenConstraint::allowed(std::span<const int32_t> output) const {
  const MutexLock lock(mutex_);
  recogniser_.set_budget(kMaxSteps);
  if (used() > kMaxBytes) forget();
  const State state = walk(output);
  if (state == Recogniser::kDead) return {};
  const bool first = output.empty();
  auto& mask = masks_[int64_t{state} * 2 + (first ? 1 : 0)];
  if (mask == nullptr) mask = std::make_shared<const Mask>(find_tokens(state, first));
  return {mask, recogniser_.accepts(state)};
}

TokenConstraint::State TokenConstraint::walk(std::span<const int32_t> output) const {
  State state = recogniser_.start();
  bool first = true;
  for (const int32_t id : output) {
    const std::string_view bytes = vocabulary_->bytes(id, std::exchange(first, false));
    if (bytes.empty()) return Recogniser::kDead;
    for (const char byte : bytes) {
      state = recogniser_.next(state, static_cast<uint8_t>(byte));
      if (state == Recogniser::kDead) return state;
    }
  }
  return state;
}

TokenConstraint::Mask TokenConstraint::find_tokens(State state, bool first) const {
  const TokenVocabulary::Trie& trie = vocabulary_->trie(first);
  Mask mask((static_cast<size_t>(vocabulary_->size()) + 63) / 64);
  std::vector<State> path(static_cast<size_t>(trie.max_depth) + 1);
  path[0] = state;
  for (size_t i = 0; i < trie.nodes.size();) {
    const TokenVocabulary::Node& node = trie.nodes[i];
    const State next = recogniser_.next(path[size_t{node.depth} - 1], node.byte);
    if (next == Recogniser::kDead) {
      i = static_cast<size_t>(node.skip);
      continue;
    }
    path[node.depth] = next;
    for (int32_t k = node.first; k < node.last; ++k) {
      const auto id = static_cast<size_t>(trie.ids[static_cast<size_t>(k)]);
      mask[id / 64] |= uint64_t{1} << (id % 64);
    }
    ++i;
  }
  return mask;
}

size_t TokenConstraint::used() const {
  const size_t of_mask = (static_cast<size_t>(vocabulary_->size()) + 63) / 64 * 8 + 64;
  return recogniser_.size() + masks_.size() * of_mask;
}

size_t TokenConstraint::size() const {
  const MutexLock lock(mutex_);
  return used() + program_->size();
}

// Sequences begin anew: they are walked from their first token in any case.
void TokenConstraint::forget() const {
  masks_.clear();
  recogniser_.clear();
}

}  // namespace tandem
