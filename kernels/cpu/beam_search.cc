// The CPU's rounds of beam search on a memory of sequences: what devices are compared with. They
// rank as the host's search does (kernels/beam_order.h), which also knows when to end.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include "kernels/beam_order.h"
#include "kernels/cpu/ops_cpu.h"
#include "kernels/row_math.h"

namespace tandem::cpu {
namespace {

struct Next {
  int32_t parent, token;
  float score;
};

struct Round {
  ops::BeamRound round;
  std::vector<ops::BeamPlace> beams;
};

Round round_at(const Tensor& rounds, const Tensor& beams, int64_t i) {
  Round r;
  std::memcpy(static_cast<void*>(&r.round), rounds.row<int32_t>(i), sizeof(r.round));
  r.beams.resize(static_cast<size_t>(r.round.num_beams));
  for (size_t b = 0; b < r.beams.size(); ++b)
    std::memcpy(static_cast<void*>(&r.beams[b]),
                beams.row<int32_t>(r.round.first_beam + static_cast<int64_t>(b)),
                sizeof(ops::BeamPlace));
  return r;
}

// The best continuations of all beams, best first.
std::vector<BeamContinuation> best_continuations(const ops::SearchBeamsArgs& args, const Round& r) {
  // (A vocabulary may be smaller than what is asked of each row.)
  const int64_t width = std::min<int64_t>(r.round.num_candidates, args.ids.dim(1));
  std::vector<BeamContinuation> all;
  for (int32_t b = 0; b < r.round.num_beams; ++b) {
    const int64_t row = r.round.first_row + (r.round.rows == 1 ? 0 : b);
    const float score = args.memory.scores.data<float>()[r.beams[static_cast<size_t>(b)].place];
    for (int64_t i = 0; i < width; ++i) {
      const float value = args.values.row<float>(row)[i];
      all.push_back({value + score, b, value, args.ids.row<int32_t>(row)[i]});
    }
  }
  std::stable_sort(all.begin(), all.end(), goes_before);
  all.resize(std::min(all.size(), static_cast<size_t>(r.round.num_candidates)));
  return all;
}

// The best of them that do not end; what ends goes on only where nothing else is left.
std::vector<Next> next_beams(const ops::SearchBeamsArgs& args, const Round& r) {
  const std::span ends(static_cast<const int32_t*>(args.ends.raw()) + r.round.first_end,
                       static_cast<size_t>(r.round.num_ends));
  const std::vector<BeamContinuation> all = best_continuations(args, r);
  std::vector<float> scores;
  for (const BeamContinuation& c : all) {
    const bool stops = std::find(ends.begin(), ends.end(), c.token) != ends.end();
    scores.push_back(c.score + (stops ? kImpossibleScore : 0.0f));
  }
  std::vector<Next> next;
  for (const int32_t i : top_ids(scores, static_cast<size_t>(r.round.num_beams))) {
    const BeamContinuation& c = all[static_cast<size_t>(i)];
    next.push_back({r.round.rows == 1 ? 0 : c.beam, c.token, scores[static_cast<size_t>(i)]});
  }
  next.resize(static_cast<size_t>(r.round.num_beams));
  return next;
}

// The first `size` entries of the beams' rows become those of their parents.
void move_rows(const Tensor& rows, int64_t size, const Round& r, const std::vector<Next>& next) {
  std::vector<std::vector<int32_t>> before;
  for (const ops::BeamPlace& beam : r.beams) {
    const int32_t* row = rows.row<int32_t>(beam.place);
    before.emplace_back(row, row + size);
  }
  for (size_t b = 0; b < r.beams.size(); ++b)
    std::ranges::copy(before[static_cast<size_t>(next[b].parent)],
                      rows.row<int32_t>(r.beams[b].place));
}

}  // namespace

void search_beams(Context&, const ops::SearchBeamsArgs& args) {
  for (int64_t g = 0; g < args.rounds.dim(0); ++g) {
    const Round r = round_at(args.rounds, args.beams, g);
    if (r.beams.empty()) continue;
    for (const ops::BeamPlace& beam : r.beams)
      if (beam.filled >= 0)
        args.memory.pages.row<int32_t>(beam.place)[r.round.full_pages - 1] = beam.filled;
    const std::vector<Next> next = next_beams(args, r);
    move_rows(args.memory.tokens, r.round.length, r, next);
    move_rows(args.memory.pages, r.round.full_pages, r, next);
    for (size_t b = 0; b < next.size(); ++b) {
      const int32_t place = r.beams[b].place;
      args.memory.tokens.row<int32_t>(place)[r.round.length] = next[b].token;
      args.memory.scores.data<float>()[place] = next[b].score;
      const int64_t at = r.round.first_beam + static_cast<int64_t>(b);
      args.parents.data<int32_t>()[at] = next[b].parent;
      args.chosen.data<int32_t>()[at] = args.best.data<int32_t>()[at] = next[b].token;
    }
  }
}

void move_beam_pages(Context&, const ops::MoveBeamPagesArgs& args) {
  for (const Tensor& pool : args.pools) {
    if (pool.bytes() == 0) continue;
    const size_t bytes = pool.bytes() / static_cast<size_t>(pool.dim(0));
    const auto page = [&](const ops::BeamPlace& beam) {
      return static_cast<std::byte*>(pool.raw()) + static_cast<size_t>(beam.page) * bytes;
    };
    for (int64_t g = 0; g < args.rounds.dim(0); ++g) {
      const Round r = round_at(args.rounds, args.beams, g);
      if (r.beams.empty() || r.beams[0].page < 0) continue;
      std::vector<std::vector<std::byte>> before;
      for (const ops::BeamPlace& beam : r.beams)
        before.emplace_back(page(beam), page(beam) + bytes);
      for (size_t b = 0; b < r.beams.size(); ++b) {
        const int32_t parent =
            args.parents.data<int32_t>()[r.round.first_beam + static_cast<int64_t>(b)];
        std::ranges::copy(before[static_cast<size_t>(parent)], page(r.beams[b]));
      }
    }
  }
}

}  // namespace tandem::cpu
