// Random rounds of beam search for the tests of search_beams and move_beam_pages, on the host.
#pragma once

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/order_key.h"
#include "tests/kernels/kernels_test_util.h"

namespace tandem::testing {

inline Tensor copy_of(const Tensor& t) {
  Tensor copy(t.shape(), t.dtype());
  if (t.bytes() > 0) std::memcpy(copy.raw(), t.raw(), t.bytes());
  return copy;
}

struct BeamProblem {
  static constexpr int kBlocks = 400;

  // What the groups of a problem share; `largest`: beams of a group.
  BeamProblem(Random& random, int64_t groups, int32_t largest)
      : k(static_cast<int32_t>(random.integer(1, ops::kMaxSelect))),
        max_length(static_cast<int32_t>(random.integer(1, 40))),
        max_pages(static_cast<int32_t>(random.integer(1, 9))) {
    for (int64_t g = 0; g < groups; ++g)
      rounds.push_back(random.integer(0, 4) == 0 ? ops::BeamRound{} : round(random, largest));
    beams.resize(beams.size() + static_cast<size_t>(random.integer(0, 3)));  // of no round
    take_places(random);
    for (int32_t& e : ends) e = static_cast<int32_t>(random.integer(0, kTokens - 1));
    ids = indices(all_ids).reshape({static_cast<int64_t>(all_ids.size()) / k, k});
    values = Tensor({ids.dim(0), k}, DType::kF32);
    std::ranges::copy(all_values, values.data<float>());
  }

  // Arguments on the host; memory and outputs are new.
  ops::SearchBeamsArgs args() const {
    const auto n = static_cast<int64_t>(beams.size());
    ops::SearchBeamsArgs a;
    a.ids = ids;
    a.values = values;
    a.rounds = table(rounds, ops::kBeamRoundInts);
    a.beams = table(beams, ops::kBeamPlaceInts);
    a.ends = indices(ends);
    a.memory = {copy_of(memory.tokens), copy_of(memory.pages), copy_of(memory.scores)};
    a.parents = indices(std::vector<int32_t>(static_cast<size_t>(n), -7));
    a.chosen = copy_of(a.parents);
    a.best = indices(std::vector<int32_t>(static_cast<size_t>(n + 2), -7));
    return a;
  }

  template <class Entry>
  static Tensor table(const std::vector<Entry>& entries, int64_t columns) {
    Tensor t({static_cast<int64_t>(entries.size()), columns}, DType::kI32);
    if (!entries.empty()) std::memcpy(t.raw(), entries.data(), t.bytes());
    return t;
  }

  std::vector<ops::BeamRound> rounds;
  std::vector<ops::BeamPlace> beams;
  std::vector<int32_t> ends;
  ops::SequenceMemory memory;
  Tensor ids, values;

 private:
  static constexpr int kTokens = 100;

  ops::BeamRound round(Random& random, int32_t largest) {
    ops::BeamRound r{};
    const auto from = [&](int64_t low, int64_t high) {
      return static_cast<int32_t>(random.integer(low, high));
    };
    r.num_beams = from(2, largest);
    r.rows = random.integer(0, 3) == 0 ? 1 : r.num_beams;
    r.first_row = static_cast<int32_t>(all_ids.size()) / k;
    r.num_candidates = from(r.num_beams, std::min(ops::kMaxSelect, 3 * r.num_beams));
    r.first_beam = static_cast<int32_t>(beams.size());
    r.length = from(0, max_length - 1);
    r.full_pages = from(0, max_pages);
    r.num_ends = from(0, 5);
    r.first_end = static_cast<int32_t>(ends.size());
    ends.resize(ends.size() + static_cast<size_t>(r.num_ends));
    beams.resize(beams.size() + static_cast<size_t>(r.num_beams));
    const int64_t kind = random.integer(0, 7);
    for (int32_t i = 0; i < r.rows; ++i) add_row(random, kind);
    return r;
  }

  // A row of candidates as select() gives it.
  void add_row(Random& random, int64_t kind) {
    constexpr float kInf = std::numeric_limits<float>::infinity();
    std::vector<float> row;
    for (int i = 0; i < kTokens; ++i) {
      const bool odd = random.integer(0, 20) == 0;
      float x = -std::abs(random.normal());
      if (kind <= 2) x = static_cast<float>(random.integer(-2, 0));  // ties
      if (kind == 3 && random.integer(0, 9) > 0) x = -kInf;          // few are possible
      if (kind == 4) x = -kInf;                                      // none
      if (kind == 5 && odd) x = random.pick({kInf, -kInf, std::nanf("")});
      if (kind == 6) x = random.pick({0.0f, -0.0f, -1.0f, -1e9f, -kInf});
      row.push_back(x);
    }
    std::vector<int32_t> order(row.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      return order_key(row[static_cast<size_t>(a)]) > order_key(row[static_cast<size_t>(b)]);
    });
    for (int32_t i = 0; i < k; ++i) {
      all_ids.push_back(order[static_cast<size_t>(i)]);
      all_values.push_back(row[static_cast<size_t>(all_ids.back())]);
    }
  }

  // Places and pages of all beams, in any order, and what is in the places.
  void take_places(Random& random) {
    const auto n = static_cast<int64_t>(beams.size());
    const int64_t places = n + random.integer(0, 3);
    std::vector<int32_t> order(static_cast<size_t>(places)), pages(kBlocks);
    std::iota(order.begin(), order.end(), 0);
    std::iota(pages.begin(), pages.end(), 0);
    std::shuffle(order.begin(), order.end(), random.engine());
    std::shuffle(pages.begin(), pages.end(), random.engine());
    for (size_t i = 0; i < beams.size(); ++i) beams[i] = {order[i], pages[i], -1};
    memory = {Tensor({places, max_length}, DType::kI32), Tensor({places, max_pages}, DType::kI32),
              Tensor({places}, DType::kF32)};
    for (int64_t i = 0; i < places * max_length; ++i)
      memory.tokens.data<int32_t>()[i] = static_cast<int32_t>(random.integer(0, kTokens - 1));
    for (int64_t i = 0; i < places * max_pages; ++i)
      memory.pages.data<int32_t>()[i] = static_cast<int32_t>(random.integer(0, 1000));
    for (int64_t i = 0; i < places; ++i) memory.scores.data<float>()[i] = random.normal();
    for (const ops::BeamRound& r : rounds) begin_round(random, r);
  }

  void begin_round(Random& random, const ops::BeamRound& r) {
    const bool has_pages = random.integer(0, 2) > 0;
    const bool filled = r.full_pages > 0 && random.integer(0, 2) > 0;
    const int64_t kind = random.integer(0, 4);
    for (int32_t i = 0; i < r.num_beams; ++i) {
      ops::BeamPlace& beam = beams[static_cast<size_t>(r.first_beam + i)];
      if (!has_pages) beam.page = -1;
      if (filled) beam.filled = static_cast<int32_t>(random.integer(0, 1000));
      float& score = memory.scores.data<float>()[beam.place];
      if (r.rows == 1 || kind == 0) score = i == 0 ? 0.0f : -1e9f;
      if (r.rows > 1 && kind == 1) score = static_cast<float>(random.integer(-2, 0));
      if (r.rows > 1 && kind == 2 && random.integer(0, 3) == 0)
        score = random.pick({std::numeric_limits<float>::infinity(),
                             -std::numeric_limits<float>::infinity(), std::nanf("")});
    }
  }

  int32_t k, max_length, max_pages;
  std::vector<int32_t> all_ids;
  std::vector<float> all_values;
};

}  // namespace tandem::testing
