// Rounds of beam search: checks, dispatch.
#include <algorithm>
#include <vector>

#include "kernels/check/check_sequences.h"
#include "kernels/op_table.h"

namespace tandem::ops {
namespace {

// As BeamRound and BeamPlace say. Places of a round differ.
void check_round(const SearchBeamsArgs& args, const BeamRound& round) {
  TANDEM_CHECK_GE(round.num_beams, 0);
  if (round.num_beams == 0) return;
  TANDEM_CHECK_LE(round.num_beams, kMaxDeviceBeams);
  TANDEM_CHECK(round.rows == 1 || round.rows == round.num_beams, "rows of a round of beam search");
  check_part(round.first_row, round.rows, args.ids.dim(0));
  TANDEM_CHECK_GE(round.num_candidates, round.num_beams);
  TANDEM_CHECK_LE(round.num_candidates, kMaxSelect);
  check_part(round.first_beam, round.num_beams, args.beams.dim(0));
  check_index(round.length, args.memory.tokens.dim(1));
  check_part(0, round.full_pages, args.memory.pages.dim(1));
  check_part(round.first_end, round.num_ends, args.ends.dim(0));
  std::vector<int32_t> places;
  for (int32_t i = 0; i < round.num_beams; ++i) {
    const auto beam = entry_of<BeamPlace>(args.beams, round.first_beam + i);
    check_index(beam.place, args.memory.tokens.dim(0));
    if (beam.filled >= 0) TANDEM_CHECK_GE(round.full_pages, 1);
    places.push_back(beam.place);
  }
  std::sort(places.begin(), places.end());
  TANDEM_CHECK(std::adjacent_find(places.begin(), places.end()) == places.end(),
               "two beams in a place");
}

// Pages of a round are there for all beams or for none, and differ.
void check_moves(const MoveBeamPagesArgs& args, const BeamRound& round, int64_t blocks) {
  if (round.num_beams == 0) return;
  TANDEM_CHECK_LE(round.num_beams, kMaxDeviceBeams);
  check_part(round.first_beam, round.num_beams, args.beams.dim(0));
  std::vector<int32_t> pages;
  for (int32_t i = 0; i < round.num_beams; ++i) {
    const auto beam = entry_of<BeamPlace>(args.beams, round.first_beam + i);
    if (beam.page >= 0) {
      check_index(beam.page, blocks);
      pages.push_back(beam.page);
    }
    if (args.parents.device() == Device::kCpu)
      check_index(args.parents.data<int32_t>()[round.first_beam + i], round.num_beams);
  }
  TANDEM_CHECK(pages.empty() || pages.size() == static_cast<size_t>(round.num_beams),
               "beams of a round with pages and without");
  std::sort(pages.begin(), pages.end());
  TANDEM_CHECK(std::adjacent_find(pages.begin(), pages.end()) == pages.end(),
               "two beams in a page");
}

}  // namespace

void search_beams(Context& ctx, const SearchBeamsArgs& args) {
  TANDEM_CHECK_EQ(args.ids.rank(), 2);
  const int64_t k = args.ids.dim(1), beams = args.beams.rank() == 2 ? args.beams.dim(0) : 0;
  TANDEM_CHECK_GE(k, 1);
  TANDEM_CHECK_LE(k, int64_t{kMaxSelect});
  check_table(args.ids, k);
  const int64_t dims[] = {args.ids.dim(0), k};
  check_shape_and_type(args.values, dims, 2, DType::kF32);
  TANDEM_CHECK(args.values.contiguous());
  check_table(args.rounds, kBeamRoundInts);
  check_table(args.beams, kBeamPlaceInts);
  TANDEM_CHECK_EQ(args.ends.rank(), 1);
  check_vector(args.ends, args.ends.dim(0), DType::kI32);
  check_memory(args.memory);
  check_vector(args.parents, beams, DType::kI32);
  check_vector(args.chosen, beams, DType::kI32);
  TANDEM_CHECK_EQ(args.best.rank(), 1);
  TANDEM_CHECK_GE(args.best.dim(0), beams);
  check_vector(args.best, args.best.dim(0), DType::kI32);
  if (args.rounds.device() == Device::kCpu && args.beams.device() == Device::kCpu)
    for (int64_t i = 0; i < args.rounds.dim(0); ++i)
      check_round(args, entry_of<BeamRound>(args.rounds, i));
  if (args.rounds.dim(0) > 0 && beams > 0) ops_of(ctx).search_beams(ctx, args);
}

void move_beam_pages(Context& ctx, const MoveBeamPagesArgs& args) {
  check_table(args.rounds, kBeamRoundInts);
  check_table(args.beams, kBeamPlaceInts);
  check_vector(args.parents, args.beams.dim(0), DType::kI32);
  int64_t blocks = int64_t{1} << 31;
  for (const Tensor& pool : args.pools) {
    TANDEM_CHECK_GE(pool.rank(), 1);
    TANDEM_CHECK(pool.contiguous());
    blocks = std::min(blocks, pool.dim(0));
  }
  if (args.pools.empty() || args.rounds.dim(0) == 0 || args.beams.dim(0) == 0) return;
  if (args.rounds.device() == Device::kCpu && args.beams.device() == Device::kCpu)
    for (int64_t i = 0; i < args.rounds.dim(0); ++i)
      check_moves(args, entry_of<BeamRound>(args.rounds, i), blocks);
  ops_of(ctx).move_beam_pages(ctx, args);
}

}  // namespace tandem::ops
