// Processors as edits of single entries: on any row, what process_logits() makes of it.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <iostream>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "kernels/core/context.h"
#include "kernels/sampling_ops.h"
#include "runtime/sampling/logits_processors.h"

namespace tandem::logit_edits_test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr int kVocabulary = 40;

class RandomCase {
 public:
  explicit RandomCase(std::mt19937& random) : random_(random) {
    fill_ids(encoder, 12);
    fill_ids(prompt, 3);
    prompt.push_back(id());
    fill_ids(output, 12);
    params.set_max_tokens(integer(1, 13));
    penalties();
    lists();
    lengths();
  }
  SamplerSequence sequence() const { return {&params, encoder, prompt, output, 0}; }

  std::vector<float> row() {
    std::vector<float> out(kVocabulary);
    for (float& x : out) {
      x = std::normal_distribution<float>(0, 5)(random_);
      const int kind = integer(0, 30);
      if (kind == 0) x = -kInf;
      if (kind == 1) x = kInf;
      if (kind == 2) x = std::nanf("");
      if (kind == 3) x = 0;
    }
    return out;
  }

  proto::SamplingParams params;
  std::vector<int32_t> encoder, prompt, output;

 private:
  int integer(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  bool sometimes() { return integer(0, 3) == 0; }
  double factor() { return std::uniform_real_distribution<double>(0.3, 3)(random_); }
  int32_t id() { return integer(-1, kVocabulary + 1); }  // some outside the row
  int32_t frequent() { return integer(0, 5); }           // so that n-grams and sequences recur
  void fill_ids(std::vector<int32_t>& ids, int most) {
    for (int n = integer(0, most); n > 0; --n) ids.push_back(sometimes() ? id() : frequent());
  }

  void penalties() {
    if (sometimes()) params.set_repetition_penalty(factor());
    if (sometimes()) params.set_encoder_repetition_penalty(factor());
    if (sometimes()) params.set_presence_penalty(factor() - 1);
    if (sometimes()) params.set_frequency_penalty(factor() - 1);
    if (sometimes()) params.set_no_repeat_ngram_size(integer(1, 3));
    if (sometimes()) params.set_encoder_no_repeat_ngram_size(integer(1, 3));
    if (sometimes())
      for (int n = integer(1, 4); n > 0; --n)
        (*params.mutable_logit_bias())[id()] = static_cast<float>(factor() - 1);
    if (sometimes())
      for (int n = integer(1, 3); n > 0; --n) {
        auto* bias = params.add_sequence_bias();
        for (int i = integer(1, 2); i > 0; --i) bias->add_ids(frequent());
        bias->set_bias(sometimes() ? -kInf : static_cast<float>(factor()));
      }
  }
  void lists() {
    for (int n = integer(0, 2); n > 0; --n) params.add_eos_token_id(frequent());
    if (sometimes())
      for (int n = integer(1, 3); n > 0; --n) {
        auto* word = params.add_bad_words_ids();
        for (int i = integer(1, 2); i > 0; --i) word->add_ids(frequent());
      }
    if (sometimes()) params.add_suppress_tokens(id());
    if (sometimes()) params.add_begin_suppress_tokens(id());
    params.set_begin_index(integer(0, 6));
    if (sometimes()) params.add_stop_token_ids(frequent());
  }
  void lengths() {
    if (sometimes()) params.set_min_tokens(integer(0, 12));
    if (sometimes()) params.set_min_tokens_stop(integer(0, 12));
    if (sometimes()) params.set_forced_bos_token_id(frequent());
    if (sometimes()) params.add_forced_eos_token_id(id());
    if (sometimes()) {
      auto* decay = params.mutable_exponential_decay_length_penalty();
      decay->set_start_length(integer(0, 8));
      decay->set_factor(factor());
    }
    if (integer(0, 19) == 0) params.set_remove_invalid_values(true);
    std::set<int32_t> allowed;
    if (integer(0, 5) == 0)
      for (int i = integer(1, 12); i > 0; --i) allowed.insert(id());
    params.mutable_allowed_token_ids()->Add(allowed.begin(), allowed.end());
  }

  std::mt19937& random_;
};

// The row after ops::select.
std::vector<float> selected(Context& ctx, const LogitEdits& edits, const SamplerSequence& seq,
                            std::vector<float> row) {
  const auto size = std::ssize(row), count = std::ssize(edits.list);
  std::vector<int32_t> tokens(seq.prompt_ids.begin(), seq.prompt_ids.end()), list;
  tokens.insert(tokens.end(), seq.output_ids.begin(), seq.output_ids.end());
  for (const auto& e : edits.list)
    list.insert(list.end(), {e.id, static_cast<int32_t>(e.edit), std::bit_cast<int32_t>(e.value)});
  std::vector<int32_t> flags{edits.masked ? ops::kRowMasked : 0};
  std::vector<int32_t> indptr{0, static_cast<int32_t>(count)};
  std::vector<int32_t> history(ops::kRowHistoryInts);
  std::memcpy(history.data(), &edits.history, sizeof(edits.history));
  ops::SelectArgs args;
  args.logits = Tensor::borrow(row).reshape({1, size});
  args.flags = Tensor::borrow(flags);
  args.edit_indptr = Tensor::borrow(indptr);
  args.edits = Tensor::borrow(list).reshape({count, 3});
  args.k = 1;
  args.log_sums = Tensor({1}, DType::kF32);
  args.edited = Tensor({count}, DType::kF32);
  args.ids = Tensor({1, 1}, DType::kI32);
  args.values = Tensor({1, 1}, DType::kF32);
  args.histories = Tensor::borrow(history).reshape({1, ops::kRowHistoryInts});
  args.tokens = Tensor::borrow(tokens).reshape({1, std::ssize(tokens)});
  std::vector<int32_t> words(edits.allowed.begin(), edits.allowed.end()), mask{0};
  if (!words.empty()) {
    args.masks = Tensor::borrow(words).reshape({1, std::ssize(words)});
    args.mask_rows = Tensor::borrow(mask);
  }
  ops::select(ctx, args);
  return row;
}

TEST(LogitEdits, DoWhatTheProcessorsDo) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  int with_edits = 0, masked = 0, allowed = 0, refused = 0, apart = 0, with_history = 0;
  Context ctx(1);
  for (int round = 0; round < 20000; ++round) {
    RandomCase c(random);
    const SamplerSequence seq = c.sequence();
    // The device has the tokens, or the host says all that comes from them.
    const bool history_apart = round % 2 == 0;
    const auto edits = logit_edits(seq, kVocabulary, history_apart);
    ASSERT_EQ(edits.has_value(), !c.params.remove_invalid_values());
    if (!edits) {
      ++refused;
      continue;
    }
    std::vector<float> want = c.row(), got = selected(ctx, *edits, seq, want);
    process_logits(seq, want);
    for (size_t e = 0; e < edits->list.size(); ++e) {
      const int32_t id = edits->list[e].id;
      ASSERT_GE(id, 0);
      ASSERT_LT(id, kVocabulary);
      const bool first = e == 0 || e == static_cast<size_t>(edits->history.edits_before);
      if (!first) {
        ASSERT_GE(id, edits->list[e - 1].id) << "edits of an entry are adjacent";
      }
      ASSERT_EQ(edits->list[edits->find(id)].id, id);
    }
    ASSERT_EQ(edits->find(kVocabulary), edits->list.size());
    for (size_t i = 0; i < want.size(); ++i) {
      if (std::isnan(want[i])) {
        ASSERT_TRUE(std::isnan(got[i])) << "entry " << i << ", " << c.params.ShortDebugString();
      } else {
        ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(want[i]))
            << "entry " << i << ": " << got[i] << ", not " << want[i] << "; "
            << c.params.ShortDebugString();
      }
    }
    if (!needs_processing(seq)) {
      ASSERT_TRUE(edits->list.empty() && !edits->masked && edits->allowed.empty());
    }
    with_edits += !edits->list.empty();
    masked += edits->masked;
    allowed += !edits->allowed.empty();
    const bool looks = edits->penalises() || edits->history.ngram_size > 0;
    ASSERT_TRUE(history_apart || (!looks && edits->history.edits_before == 0));
    apart += looks;
    with_history += looks && edits->history.edits_before > 0;
  }
  // The cases are what they should be.
  EXPECT_GT(with_edits, 10000);
  EXPECT_GT(masked, 100);
  EXPECT_GT(allowed, 1000);
  EXPECT_GT(refused, 100);
  EXPECT_GT(apart, 3000);
  EXPECT_GT(with_history, 500);
}

}  // namespace
}  // namespace tandem::logit_edits_test
