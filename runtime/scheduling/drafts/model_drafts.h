// Drafts that the workers' draft model says: of which sequences, how many, and which requests it is
// prepared for. What it was asked and what came of it is all that is known here;
// docs/design/scheduling.md §10 has the weighing. Synchronous; the scheduler's thread.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>

namespace tandem {

class ModelDrafts {
 public:
  // Below, `row` is what a draft costs the model that verifies it (StepTimes::draft_cost()).

  // A request's encoder runs: is the draft model to be prepared for it? Now and then one is if it
  // seems not worth while, to see whether it is.
  bool prepares(double row);
  // A sequence of such a request, which may be known from before a preemption.
  void add(int64_t seq_id);
  void forget(int64_t seq_id) { seqs_.erase(seq_id); }

  // count: tokens to ask for, at most `most`. gain: the mean number that will be right. value:
  // their worth in tokens, less the cost of all of them.
  struct Plan {
    int count = 0;
    double gain = 0, value = 0;
  };
  Plan plan(int64_t seq_id, double row, int most) const;
  // All drafts of a sequence must be right with that likelihood to be worth a row.
  double least_likelihood(double row) const { return row + cost_; }

  // Of `asked` tokens it said some, and so many of these were right.
  void record(int64_t seq_id, int asked, int said, int right);
  // It was asked, and could not.
  void cannot(int64_t seq_id) { forget(seq_id); }
  // Of a step of the draft model, as a share of one of the model with as many rows.
  void set_cost(double cost) { cost_ = cost; }

  int64_t size() const { return static_cast<int64_t>(seqs_.size()); }
  bool has(int64_t seq_id) const { return seqs_.contains(seq_id); }

 private:
  // Hits among trials, of which the last ones count more.
  struct Rate {
    double hits, trials;
    void record(bool hit, double memory);
  };
  struct Record {
    bool explores;  // others' failures do not count
    Rate begun{0, 0}, right{0, 0};
  };
  static double of(const Rate& own, const Rate& all);

  double cost_ = 0.2;  // until it is measured
  // Over all sequences: the rate at which the model drafted when asked, and at which drafts were
  // right.
  Rate begun_{8, 8}, right_{6.4, 8};
  std::unordered_map<int64_t, Record> seqs_;
  int turned_away_ = 0;
  bool explores_ = false;  // the request that was prepared last
};

}  // namespace tandem
