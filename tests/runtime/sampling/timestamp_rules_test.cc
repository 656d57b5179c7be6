// The rules of times, by hand and against a plain version of HuggingFace's processor.
#include "runtime/sampling/timestamp_rules.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "runtime/sampling/logits_processors.h"

namespace tandem::timestamp_rules_test {
namespace {

using Row = std::vector<float>;
using Ids = std::vector<int32_t>;
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr int kEnd = 10, kNone = 15, kFirst = 16, kSize = 30;

proto::TimestampRules rules(int max_initial = -1, int prefix_tokens = 0) {
  proto::TimestampRules out;
  out.set_prefix_tokens(prefix_tokens);
  out.set_first(kFirst);
  out.set_no_timestamps(kNone);
  out.set_end(kEnd);
  if (max_initial >= 0) out.set_max_initial(max_initial);
  return out;
}

// Which ids are left of a row without preferences that keeps texts where they are allowed.
Ids left(const Ids& output, int max_initial = -1, const Ids& prompt = {}, int prefix_tokens = 0) {
  Row row(kSize, 0.0F);
  std::fill(row.begin(), row.begin() + kFirst, 9.0F);
  mask_by_timestamps(rules(max_initial, prefix_tokens), prompt, output, row);
  Ids out;
  for (int i = 0; i < kSize; ++i)
    if (row[static_cast<size_t>(i)] != -kInf) out.push_back(i);
  return out;
}

Ids range(int begin, int end, int without = -1) {
  Ids out;
  for (int i = begin; i < end; ++i)
    if (i != without) out.push_back(i);
  return out;
}

// faster-whisper's prefix.
TEST(TimestampRules, TheEndOfThePromptMayBeginTheAnswer) {
  constexpr int kSpecial = kEnd + 1;
  EXPECT_EQ(left({}, -1, {kSpecial, kFirst, 1, 2}, 3), left({kFirst, 1, 2}));
  EXPECT_EQ(left({3, kFirst + 4}, -1, {kSpecial, kFirst, 1, 2}, 3),
            left({kFirst, 1, 2, 3, kFirst + 4}));
  EXPECT_EQ(left({}, -1, {kSpecial, kFirst + 5, 1, kFirst + 2}, 1), left({kFirst + 2}));
}

// A client's own prompt, even one that looks like a beginning: HuggingFace's rules begin behind it.
TEST(TimestampRules, OtherPromptsSayNothing) {
  constexpr int kSpecial = kEnd + 1;
  for (const Ids& prompt :
       {Ids{kSpecial}, Ids{kFirst, 1}, Ids{kSpecial, 1, 2}, Ids{kSpecial, kFirst},
        Ids{kSpecial, kFirst, 1, 2}, Ids{kSpecial, kFirst + 1, 1}, Ids{kFirst, 1, kSpecial}})
    EXPECT_EQ(left({}, 3, prompt), left({}, 3));
}

TEST(TimestampRules, ByHand) {
  EXPECT_EQ(left({}), range(kFirst, kSize));               // a time comes first
  EXPECT_EQ(left({}, 3), range(kFirst, kFirst + 4));       // an early one
  EXPECT_EQ(left({kFirst + 2}), range(0, kFirst, kNone));  // then a text
  Ids later = range(0, kFirst, kNone);
  for (int i = kFirst + 3; i < kSize; ++i) later.push_back(i);
  EXPECT_EQ(left({kFirst + 2, 1}), later);  // then anything, but no time again
  Ids pair = range(kEnd, kFirst, kNone);    // the end or the other time of the pair
  for (int i = kFirst + 5; i < kSize; ++i) pair.push_back(i);
  EXPECT_EQ(left({kFirst + 2, 1, kFirst + 5}), pair);
  EXPECT_EQ(left({kFirst + 2, 1, kFirst + 5, kFirst + 5}), range(0, kFirst, kNone));
}

TEST(TimestampRules, TimesThatAreLikelierTogetherWin) {
  Row row(kSize, -kInf);
  row[1] = 1.0F;
  for (int i = kFirst + 3; i < kFirst + 7; ++i) row[static_cast<size_t>(i)] = 0.0F;  // log 4 > 1
  Row fewer = row;
  mask_by_timestamps(rules(), {}, Ids{kFirst + 1, 1}, row);
  EXPECT_EQ(row[1], -kInf);
  fewer[kFirst + 6] = fewer[kFirst + 5] = -kInf;  // log 2 < 1
  mask_by_timestamps(rules(), {}, Ids{kFirst + 1, 1}, fewer);
  EXPECT_EQ(fewer[1], 1.0F);
}

// As it is written there, with log softmax.
void plain(const proto::TimestampRules& r, const Ids& seq, Row& s) {
  s[kNone] = -kInf;
  const bool last = !seq.empty() && seq.back() >= kFirst;
  const bool before = seq.size() < 2 || seq[seq.size() - 2] >= kFirst;
  if (last && before) std::fill(s.begin() + kFirst, s.end(), -kInf);
  if (last && !before) std::fill(s.begin(), s.begin() + kEnd, -kInf);
  Ids times;
  std::copy_if(seq.begin(), seq.end(), std::back_inserter(times),
               [](int t) { return t >= kFirst; });
  if (!times.empty())
    std::fill(s.begin() + kFirst, s.begin() + times.back() + (last && !before ? 0 : 1), -kInf);
  if (seq.empty()) {
    std::fill(s.begin(), s.begin() + kFirst, -kInf);
    if (r.has_max_initial() && kFirst + r.max_initial() + 1 < kSize)
      std::fill(s.begin() + kFirst + r.max_initial() + 1, s.end(), -kInf);
  }
  double sum = 0, times_sum = 0;
  for (size_t i = 0; i < s.size(); ++i) {
    sum += std::exp(double{s[i]});
    if (i >= kFirst) times_sum += std::exp(double{s[i]});
  }
  const double text = *std::max_element(s.begin(), s.begin() + kFirst);
  if (std::log(times_sum / sum) > text - std::log(sum))
    std::fill(s.begin(), s.begin() + kFirst, -kInf);
}

TEST(TimestampRules, MatchThePlainVersion) {
  std::mt19937 random(4);
  std::normal_distribution<float> normal(0, 2);
  for (int round = 0; round < 3000; ++round) {
    Ids output(random() % 7);
    for (int32_t& id : output)
      id = static_cast<int32_t>(random() % 2 ? random() % kEnd
                                             : kFirst + random() % (kSize - kFirst));
    Row row(kSize);
    for (float& x : row) x = random() % 5 == 0 ? -kInf : normal(random);
    Row want = row;
    const proto::TimestampRules r = rules(round % 3 == 0 ? -1 : static_cast<int>(random() % 20));
    plain(r, output, want);
    mask_by_timestamps(r, {}, output, row);
    EXPECT_EQ(row, want) << round;
  }
}

TEST(TimestampRules, StandBehindTheOtherProcessors) {
  proto::SamplingParams params;
  *params.mutable_timestamps() = rules();
  params.add_suppress_tokens(kFirst + 1);
  const Ids prompt = {1, 2};
  const SamplerSequence seq{&params, {}, prompt, {}, 0};
  EXPECT_TRUE(needs_processing(seq));
  EXPECT_TRUE(changes_whole_rows(params));
  Row row(kSize, 0.0F);
  process_logits(seq, row);
  EXPECT_EQ(row[0], -kInf);
  EXPECT_EQ(row[kFirst + 1], -kInf);
  EXPECT_EQ(row[kFirst + 2], 0.0F);
}

}  // namespace
}  // namespace tandem::timestamp_rules_test
