// Processors as edits of single entries: on any row, what process_logits() makes of it.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <iostream>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/token_ops.h"
#include "runtime/logits_processors.h"

namespace tandem {
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
  }

  std::mt19937& random_;
};

// As ops::select says.
float edited(const LogitEdits::Edit& e, float x) {
  switch (e.edit) {
    case ops::LogitEdit::kAdd: return x + e.value;
    case ops::LogitEdit::kPenalise: return x < 0 ? x * e.value : x / e.value;
    case ops::LogitEdit::kSet: return e.value;
    case ops::LogitEdit::kFavour: return std::isfinite(x) ? x + std::fabs(x) * e.value : x;
  }
  return x;
}

TEST(LogitEdits, DoWhatTheProcessorsDo) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  int with_edits = 0, masked = 0, refused = 0;
  for (int round = 0; round < 20000; ++round) {
    RandomCase c(random);
    const SamplerSequence seq = c.sequence();
    const auto edits = logit_edits(seq, kVocabulary);
    ASSERT_EQ(edits.has_value(), !c.params.remove_invalid_values());
    if (!edits) {
      ++refused;
      continue;
    }
    std::vector<float> want = c.row(), got = want;
    process_logits(seq, want);
    if (edits->masked) std::fill(got.begin(), got.end(), -kInf);
    int32_t last = 0;
    for (const auto& e : edits->list) {
      ASSERT_GE(e.id, last) << "edits of an entry are adjacent";
      ASSERT_LT(e.id, kVocabulary);
      got[static_cast<size_t>(e.id)] = edited(e, got[static_cast<size_t>(e.id)]);
      last = e.id;
    }
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
      ASSERT_TRUE(edits->list.empty() && !edits->masked);
    }
    with_edits += !edits->list.empty();
    masked += edits->masked;
  }
  // The cases are what they should be.
  EXPECT_GT(with_edits, 10000);
  EXPECT_GT(masked, 100);
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace tandem
