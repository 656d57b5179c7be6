// Beam search on whole tables: every beam has a row of scores over the vocabulary, every sequence
// its place in an array of maximal length, as in the reference. One input.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

namespace tandem::testing_support {

struct NaiveBeamOptions {
  int num_beams = 2;
  int vocabulary = 2;
  int prompt_len = 1;
  int max_length = 2;  // prompt included
  double length_penalty = 1;
  enum { kNever, kFalse, kTrue } early_stopping = kFalse;
  std::vector<int32_t> eos;
};

class NaiveBeamSearch {
 public:
  using Row = std::vector<float>;
  using Ids = std::vector<int32_t>;
  // Processed log-probabilities behind a sequence (prompt included).
  using Model = std::function<Row(const Ids&)>;

  struct Result {
    std::vector<Ids> sequences;  // without the prompt
    Row scores;
    std::vector<bool> ended;
    int steps = 0;
  };

  NaiveBeamSearch(NaiveBeamOptions options, Model model)
      : o_(std::move(options)), model_(std::move(model)) {}

  Result run(const Ids& prompt) {
    const size_t beams = size_t(o_.num_beams);
    std::vector<Ids> running(beams, prompt), sequences(beams, prompt);
    Row running_scores(beams, -1e9f), scores(beams, -1e9f);
    running_scores[0] = 0;
    std::vector<bool> sent_finished(beams, false);
    bool unsatisfied = true;
    int cur_len = o_.prompt_len, steps = 0;
    for (bool go_on = true; go_on; ++steps) {
      // All beams' rows, one behind the other.
      Row table, own;
      for (size_t b = 0; b < beams; ++b)
        for (const float x : model_(running[b])) {
          own.push_back(x);
          table.push_back(x + running_scores[b]);
        }
      const size_t keep = beams * size_t(std::max<int>(2, 1 + int(o_.eos.size())));
      const std::vector<size_t> chosen = best_of(table, own, keep);
      std::vector<Ids> top_sequences;
      Row top_scores;
      std::vector<bool> hits;
      for (const size_t at : chosen) {
        top_scores.push_back(table[at]);
        top_sequences.push_back(running[at / size_t(o_.vocabulary)]);
        top_sequences.back().push_back(int32_t(at % size_t(o_.vocabulary)));
        hits.push_back(stops(top_sequences.back()));
      }
      // Next running beams.
      Row masked = top_scores;
      for (size_t i = 0; i < masked.size(); ++i) masked[i] += float(hits[i]) * -1e9f;
      running.clear();
      running_scores.clear();
      for (const size_t i : topk(masked, beams)) {
        running.push_back(top_sequences[i]);
        running_scores.push_back(masked[i]);
      }
      // Finished ones.
      const bool full = all(sent_finished) && o_.early_stopping == NaiveBeamOptions::kTrue;
      const float factor = power(cur_len + 1 - o_.prompt_len);
      Row merged_scores = scores;
      std::vector<Ids> merged = sequences;
      std::vector<bool> merged_finished = sent_finished;
      for (size_t i = 0; i < chosen.size(); ++i) {
        const bool just_finished = hits[i] && i < beams;
        float score = top_scores[i] / factor;
        score += float(full) * -1e9f;
        score += float(!unsatisfied) * -1e9f;
        score += float(!just_finished) * -1e9f;
        merged_scores.push_back(score);
        merged.push_back(top_sequences[i]);
        merged_finished.push_back(just_finished);
      }
      const std::vector<size_t> best = topk(merged_scores, beams);
      for (size_t i = 0; i < beams; ++i) {
        scores[i] = merged_scores[best[i]];
        sequences[i] = merged[best[i]];
        sent_finished[i] = merged_finished[best[i]];
      }
      ++cur_len;
      // Whether to go on.
      const bool longest = o_.early_stopping == NaiveBeamOptions::kNever && o_.length_penalty > 0;
      const float possible =
          running_scores[0] / power((longest ? o_.max_length : cur_len) - o_.prompt_len);
      const float least = *std::min_element(scores.begin(), scores.end());
      bool any = false;
      for (size_t i = 0; i < beams; ++i) any = any || possible > (sent_finished[i] ? least : -1e9f);
      unsatisfied = unsatisfied && any;
      go_on = unsatisfied && !all(hits) &&
              !(all(sent_finished) && o_.early_stopping == NaiveBeamOptions::kTrue);
    }
    for (Ids& ids : sequences) ids.erase(ids.begin(), ids.begin() + o_.prompt_len);
    return {sequences, scores, sent_finished, steps};
  }

 private:
  static bool all(const std::vector<bool>& v) {
    return std::find(v.begin(), v.end(), false) == v.end();
  }
  float power(int length) const { return float(std::pow(double(length), o_.length_penalty)); }
  bool stops(const Ids& ids) const {
    return int(ids.size()) >= o_.max_length ||
           std::find(o_.eos.begin(), o_.eos.end(), ids.back()) != o_.eos.end();
  }
  // torch does not say which of equals come first. Here: those of the lower beam, and of one beam
  // those that are larger before its score is added (and rounds the difference away).
  std::vector<size_t> best_of(const Row& table, const Row& own, size_t k) const {
    const size_t v = size_t(o_.vocabulary);
    std::vector<size_t> order = topk(table, table.size());
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      if (table[a] != table[b]) return table[a] > table[b];
      return a / v != b / v ? a / v < b / v : own[a] > own[b];
    });
    order.resize(k);
    return order;
  }
  static std::vector<size_t> topk(const Row& values, size_t k) {
    std::vector<size_t> order(values.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return values[a] > values[b]; });
    order.resize(k);
    return order;
  }

  NaiveBeamOptions o_;
  Model model_;
};

}  // namespace tandem::testing_support
