// Logits processors against values worked out by hand, and naive versions of their definitions.
#include "runtime/sampling/logits_processors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace tandem::logits_processors_test {
namespace {

using Row = std::vector<float>;
using Ids = std::vector<int32_t>;
constexpr float kInf = std::numeric_limits<float>::infinity();

// A request with everything off.
proto::SamplingParams neutral() {
  proto::SamplingParams p;
  p.set_temperature(1);
  p.set_top_p(1);
  p.set_typical_p(1);
  p.set_repetition_penalty(1);
  p.set_encoder_repetition_penalty(1);
  p.set_max_tokens(1000);
  return p;
}

struct Case {
  proto::SamplingParams params = neutral();
  Ids encoder, prompt = {2}, output;

  Row process(Row row) const {
    SamplerSequence seq{&params, encoder, prompt, output, 0};
    const Row before = row;
    process_logits(seq, row);
    // What is announced as a no-op is one.
    if (!needs_processing(seq)) {
      EXPECT_EQ(row, before);
    }
    return row;
  }
};

std::set<int> masked(const Row& row) {
  std::set<int> ids;
  for (size_t i = 0; i < row.size(); ++i)
    if (row[i] == -kInf) ids.insert(static_cast<int>(i));
  return ids;
}

Row ramp(size_t n) {
  Row row(n);
  std::iota(row.begin(), row.end(), 1.0f);
  return row;
}

TEST(Processors, NothingIsOnByDefault) {
  Case c;
  c.encoder = {1, 2, 3};
  c.output = {4, 5};
  EXPECT_EQ(c.process(ramp(8)), ramp(8));
  // An empty message means the same.
  c.params = {};
  EXPECT_EQ(c.process(ramp(8)), ramp(8));
}

TEST(Processors, RepetitionPenaltyCountsPromptAndOutputOnce) {
  Case c;
  c.params.set_repetition_penalty(2);
  c.prompt = {0, 1};
  c.output = {1, 3, 3, 100};  // ids beyond the row are passed over
  EXPECT_EQ(c.process({4, -4, 4, 3, -4}), (Row{2, -8, 4, 1.5f, -4}));
}

TEST(Processors, EncoderRepetitionPenaltyFavoursTheInput) {
  Case c;
  c.params.set_encoder_repetition_penalty(2);
  c.encoder = {0, 1, 1};
  EXPECT_EQ(c.process({4, -4, 4}), (Row{8, -2, 4}));
}

TEST(Processors, PresenceAndFrequencyCountGeneratedTokens) {
  Case c;
  c.params.set_presence_penalty(0.5);
  c.params.set_frequency_penalty(1);
  c.prompt = {0};
  EXPECT_EQ(c.process({4, 4, 4}), (Row{4, 4, 4}));
  c.output = {1, 2, 1};
  EXPECT_EQ(c.process({4, 4, 4}), (Row{4, 1.5f, 2.5f}));
}

TEST(Processors, NoRepeatNgram) {
  Case c;
  c.params.set_no_repeat_ngram_size(2);
  c.prompt = {2, 7};
  c.output = {5, 7, 6, 7};
  EXPECT_EQ(masked(c.process(ramp(9))), (std::set<int>{5, 6}));
  c.params.set_no_repeat_ngram_size(1);
  EXPECT_EQ(masked(c.process(ramp(9))), (std::set<int>{2, 5, 6, 7}));
  c.params.set_no_repeat_ngram_size(7);
  EXPECT_TRUE(masked(c.process(ramp(9))).empty());
}

TEST(Processors, EncoderNoRepeatNgram) {
  Case c;
  c.params.set_encoder_no_repeat_ngram_size(3);
  c.encoder = {1, 2, 3, 1, 2, 4};
  c.prompt = {1};
  EXPECT_TRUE(masked(c.process(ramp(6))).empty());  // too short to begin an n-gram
  c.output = {2};
  EXPECT_EQ(masked(c.process(ramp(6))), (std::set<int>{3, 4}));
  c.params.set_encoder_no_repeat_ngram_size(1);
  EXPECT_EQ(masked(c.process(ramp(6))), (std::set<int>{1, 2, 3, 4}));
}

std::set<int> naive_ngrams(const Ids& text, const Ids& history, size_t n) {
  std::set<int> banned;
  for (size_t i = 0; i + n <= text.size(); ++i) {
    Ids with(history);
    with.push_back(text[i + n - 1]);
    if (with.size() >= n && std::equal(with.end() - static_cast<long>(n), with.end(),
                                       text.begin() + static_cast<long>(i)))
      banned.insert(text[i + n - 1]);
  }
  return banned;
}

TEST(Processors, NgramsAgreeWithTheirDefinition) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 rng(seed);
  for (int trial = 0; trial < 2000; ++trial) {
    Case c;
    const auto fill = [&](Ids& ids, size_t most) {
      ids.resize(rng() % most);
      for (int32_t& id : ids) id = static_cast<int32_t>(rng() % 4);
    };
    fill(c.encoder, 12);
    fill(c.prompt, 5);
    fill(c.output, 12);
    const auto n = static_cast<int>(1 + rng() % 5);
    const bool of_encoder = rng() % 2;
    if (of_encoder)
      c.params.set_encoder_no_repeat_ngram_size(n);
    else
      c.params.set_no_repeat_ngram_size(n);
    Ids history = c.prompt;
    history.insert(history.end(), c.output.begin(), c.output.end());
    ASSERT_EQ(masked(c.process(ramp(4))),
              naive_ngrams(of_encoder ? c.encoder : history, history, static_cast<size_t>(n)));
  }
}

void add_word(proto::SamplingParams& p, const Ids& ids) {
  auto* word = p.add_bad_words_ids();
  for (const int32_t id : ids) word->add_ids(id);
}

TEST(Processors, BadWords) {
  Case c;
  c.params.add_eos_token_id(0);
  for (const Ids& word : std::vector<Ids>{{4}, {1, 2}, {3, 1, 5}, {0}, {2, 0}, {9, 9, 9, 9, 9, 6}})
    add_word(c.params, word);
  c.prompt = {2};
  EXPECT_EQ(masked(c.process(ramp(7))), (std::set<int>{0, 4}));  // [2, 0] by its last token
  c.output = {3, 1};
  EXPECT_EQ(masked(c.process(ramp(7))), (std::set<int>{2, 4, 5}));  // EOS alone is never one
}

// NoBadWordsLogitsProcessor and SequenceBiasLogitsProcessor of transformers 5.23, as they are
// written there: a word of one id is a bias of the whole vocabulary; a longer one counts where the
// ids before its last one end the sequence, which must not be shorter than the word.
Row naive_sequence_bias(const std::vector<std::pair<Ids, float>>& words, const Ids& history,
                        Row row) {
  Row bias(row.size(), 0.0f);
  for (const auto& [ids, value] : words)
    if (ids.size() == 1) bias[static_cast<size_t>(ids[0])] = value;
  for (const auto& [ids, value] : words) {
    if (ids.size() == 1 || ids.size() > history.size()) continue;
    const Ids prefix(ids.begin(), ids.end() - 1);
    const Ids tail(history.end() - static_cast<long>(prefix.size()), history.end());
    if (tail == prefix) bias[static_cast<size_t>(ids.back())] += value;
  }
  for (size_t i = 0; i < row.size(); ++i) row[i] += bias[i];
  return row;
}

TEST(Processors, BadWordsAndBiasesAgreeWithHuggingFaces) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 rng(seed);
  const auto some_ids = [&](size_t size) {
    Ids ids(size);
    for (int32_t& id : ids) id = static_cast<int32_t>(rng() % 5);
    return ids;
  };
  int hits = 0;
  for (int trial = 0; trial < 5000; ++trial) {
    Case c;
    c.prompt = some_ids(1 + rng() % 2);
    // Longer than any word: on shorter ones HuggingFace does not look.
    c.output = some_ids(3 + rng() % 5);
    c.params.add_eos_token_id(4);
    std::vector<std::pair<Ids, float>> words;
    std::set<Ids> known;
    const bool bad = trial % 2 == 0;
    for (size_t n = rng() % 4; n > 0; --n) {
      const Ids ids = some_ids(1 + rng() % 3);
      if (!known.insert(ids).second) continue;
      const float value = bad ? -kInf : static_cast<float>(rng() % 9) - 4;
      if (bad) {
        add_word(c.params, ids);
        if (ids == Ids{4}) continue;  // an end token alone is no bad word
      } else {
        auto* bias = c.params.add_sequence_bias();
        bias->mutable_ids()->Assign(ids.begin(), ids.end());
        bias->set_bias(value);
      }
      words.emplace_back(ids, value);
    }
    Ids history = c.prompt;
    history.insert(history.end(), c.output.begin(), c.output.end());
    const Row want = naive_sequence_bias(words, history, ramp(5));
    hits += want != ramp(5);
    ASSERT_EQ(c.process(ramp(5)), want) << c.params.ShortDebugString();
  }
  EXPECT_GT(hits, 500);
}

TEST(Processors, NothingButAllowedTokens) {
  Case c;
  for (const int32_t id : {0, 2, 3, 9}) c.params.add_allowed_token_ids(id);  // 9: no such entry
  EXPECT_EQ(c.process(ramp(6)), (Row{1, -kInf, 3, 4, -kInf, -kInf}));
  // A bias or a penalty brings nothing back, a forced token comes all the same.
  (*c.params.mutable_logit_bias())[1] = 100;
  (*c.params.mutable_logit_bias())[3] = 0.5f;
  c.params.set_repetition_penalty(2);
  c.output = {1, 2};
  EXPECT_EQ(c.process(ramp(6)), (Row{1, -kInf, 1.5f, 4.5f, -kInf, -kInf}));
  c.params.add_forced_eos_token_id(5);
  c.params.set_max_tokens(3);
  EXPECT_EQ(masked(c.process(ramp(6))), (std::set<int>{0, 1, 2, 3, 4}));
}

TEST(Processors, BiasesAreSummed) {
  Case c;
  (*c.params.mutable_logit_bias())[1] = 2.5f;
  auto* one = c.params.add_sequence_bias();
  one->add_ids(1);
  one->set_bias(-1);
  auto* two = c.params.add_sequence_bias();
  two->add_ids(2);
  two->add_ids(3);
  two->set_bias(10);
  c.prompt = {2};
  EXPECT_EQ(c.process({0, 0, 0, 0}), (Row{0, 1.5f, 0, 10}));
  c.output = {1};
  EXPECT_EQ(c.process({0, 0, 0, 0}), (Row{0, 1.5f, 0, 0}));
}

TEST(Processors, EndsAreMaskedWhileTooShort) {
  Case c;
  c.params.add_eos_token_id(0);
  c.params.add_eos_token_id(1);
  c.params.add_stop_token_ids(3);
  c.params.set_min_tokens(2);
  c.params.set_min_tokens_stop(1);
  EXPECT_EQ(masked(c.process(ramp(5))), (std::set<int>{0, 1, 3}));
  c.output = {4};
  EXPECT_EQ(masked(c.process(ramp(5))), (std::set<int>{0, 1}));
  c.output = {4, 4};
  EXPECT_TRUE(masked(c.process(ramp(5))).empty());
}

TEST(Processors, ForcedBosOnlyBehindASingleToken) {
  Case c;
  c.params.set_forced_bos_token_id(1);
  EXPECT_EQ(c.process(ramp(3)), (Row{-kInf, 0, -kInf}));
  c.output = {1};
  EXPECT_EQ(c.process(ramp(3)), ramp(3));
  c.output.clear();
  c.prompt = {2, 1};
  EXPECT_EQ(c.process(ramp(3)), ramp(3));
}

TEST(Processors, ForcedEosOnTheLastTokenBeatsAMinimum) {
  Case c;
  c.params.add_forced_eos_token_id(2);
  c.params.add_eos_token_id(2);
  c.params.set_max_tokens(3);
  c.params.set_min_tokens(3);
  c.output = {1};
  EXPECT_EQ(masked(c.process(ramp(4))), (std::set<int>{2}));
  c.output = {1, 1};
  EXPECT_EQ(c.process(ramp(4)), (Row{-kInf, -kInf, 0, -kInf}));
}

TEST(Processors, RemoveInvalidValues) {
  Case c;
  c.params.set_remove_invalid_values(true);
  constexpr float kMax = std::numeric_limits<float>::max();
  EXPECT_EQ(c.process({NAN, kInf, -kInf, 1}), (Row{0, kMax, -kMax, 1}));
}

TEST(Processors, ExponentialDecay) {
  Case c;
  c.params.add_eos_token_id(1);
  c.params.add_eos_token_id(1);
  c.params.mutable_exponential_decay_length_penalty()->set_start_length(2);
  c.params.mutable_exponential_decay_length_penalty()->set_factor(2);
  c.output = {3};
  EXPECT_EQ(c.process({0, -4, 0, 0}), (Row{0, -4, 0, 0}));
  c.output = {3, 3, 3};  // two tokens over: 4 * (2^2 - 1)
  EXPECT_EQ(c.process({0, -4, 0, 0}), (Row{0, 8, 0, 0}));
  EXPECT_EQ(c.process({0, -kInf, 0, 0}), (Row{0, -kInf, 0, 0}));
}

TEST(Processors, SuppressedTokens) {
  Case c;
  c.params.add_suppress_tokens(1);
  c.params.add_begin_suppress_tokens(3);
  c.params.set_begin_index(2);
  EXPECT_EQ(masked(c.process(ramp(5))), (std::set<int>{1}));
  c.output = {0};
  EXPECT_EQ(masked(c.process(ramp(5))), (std::set<int>{1, 3}));
  c.output = {0, 0};
  EXPECT_EQ(masked(c.process(ramp(5))), (std::set<int>{1}));
}

}  // namespace
}  // namespace tandem::logits_processors_test
