// What a device knows of sequences, and its rounds of beam search: checks, dispatch.
#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/check_args.h"
#include "kernels/op_table.h"

namespace tandem::ops {
namespace {

// [n, columns] i32, without gaps.
void check_table(const Tensor& t, int64_t columns) {
  TANDEM_CHECK_EQ(t.rank(), 2);
  const int64_t dims[] = {t.dim(0), columns};
  check_shape_and_type(t, dims, 2, DType::kI32);
  TANDEM_CHECK(t.contiguous());
}

template <class Entry>
Entry entry_of(const Tensor& table, int64_t i) {
  Entry entry;
  std::memcpy(static_cast<void*>(&entry), table.row<int32_t>(i), sizeof(entry));
  return entry;
}

// `count` elements from `first` on are among `size`.
void check_part(int64_t first, int64_t count, int64_t size) {
  TANDEM_CHECK_GE(first, 0);
  TANDEM_CHECK_GE(count, 0);
  TANDEM_CHECK_LE(first + count, size);
}

void check_index(int64_t i, int64_t size) { check_part(i, 1, size); }

void check_memory_rows(const Tensor& t) {
  TANDEM_CHECK_EQ(t.rank(), 2);
  const int64_t dims[] = {t.dim(0), t.dim(1)};
  check_shape_and_type(t, dims, 2, DType::kI32);
}

void check_memory(const SequenceMemory& memory) {
  check_memory_rows(memory.tokens);
  check_memory_rows(memory.pages);
  TANDEM_CHECK_EQ(memory.tokens.dim(0), memory.pages.dim(0));
  check_vector(memory.scores, memory.tokens.dim(0), DType::kF32);
}

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

void begin_sequences(Context& ctx, const BeginSequencesArgs& args) {
  check_memory(args.memory);
  check_table(args.sequences, kSequenceBeginInts);
  TANDEM_CHECK_EQ(args.data.rank(), 1);
  check_vector(args.data, args.data.dim(0), DType::kI32);
  if (args.sequences.device() == Device::kCpu)
    for (int64_t i = 0; i < args.sequences.dim(0); ++i) {
      const auto s = entry_of<SequenceBegin>(args.sequences, i);
      check_index(s.place, args.memory.tokens.dim(0));
      check_part(0, s.tokens, args.memory.tokens.dim(1));
      check_part(0, s.pages, args.memory.pages.dim(1));
      check_part(s.first, int64_t{s.tokens} + s.pages, args.data.dim(0));
    }
  if (args.sequences.dim(0) > 0) ops_of(ctx).begin_sequences(ctx, args);
}

void append_tokens(Context& ctx, const AppendTokensArgs& args) {
  check_memory_rows(args.tokens);
  check_table(args.places, 2);
  TANDEM_CHECK_EQ(args.chosen.rank(), 1);
  TANDEM_CHECK_GE(args.chosen.dim(0), args.places.dim(0));
  check_vector(args.chosen, args.chosen.dim(0), DType::kI32);
  if (args.places.device() == Device::kCpu)
    for (int64_t i = 0; i < args.places.dim(0); ++i) {
      const int32_t* place = args.places.row<int32_t>(i);
      if (place[0] < 0) continue;
      check_index(place[0], args.tokens.dim(0));
      check_index(place[1], args.tokens.dim(1));
    }
  if (args.places.dim(0) > 0) ops_of(ctx).append_tokens(ctx, args);
}

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

void substitute_pages(Context& ctx, const SubstitutePagesArgs& args) {
  TANDEM_CHECK_EQ(args.page_indices.rank(), 1);
  check_vector(args.page_indices, args.page_indices.dim(0), DType::kI32);
  check_memory_rows(args.pages);
  if (args.page_indices.device() == Device::kCpu)
    for (int64_t i = 0; i < args.page_indices.dim(0); ++i) {
      const int32_t index = args.page_indices.data<int32_t>()[i];
      if (index >= 0) continue;
      check_index((-1 - index) >> kPlacePageBits, args.pages.dim(0));
      check_index((-1 - index) & ((1 << kPlacePageBits) - 1), args.pages.dim(1));
    }
  if (args.page_indices.dim(0) > 0) ops_of(ctx).substitute_pages(ctx, args);
}

}  // namespace tandem::ops
