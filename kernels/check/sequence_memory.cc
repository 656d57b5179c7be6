// What a device keeps of sequences: checks, dispatch.
#include "kernels/check/check_sequences.h"
#include "kernels/op_table.h"

namespace tandem::ops {

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

void substitute_ids(Context& ctx, const SubstituteIdsArgs& args) {
  TANDEM_CHECK_EQ(args.ids.rank(), 1);
  TANDEM_CHECK_EQ(args.earlier.rank(), 1);
  check_vector(args.ids, args.ids.dim(0), DType::kI32);
  check_vector(args.earlier, args.earlier.dim(0), DType::kI32);
  check_range(args.ids, -args.earlier.dim(0), int64_t{1} << 31);
  if (!args.positions.empty()) check_vector(args.positions, args.ids.dim(0), DType::kI32);
  if (args.ids.dim(0) > 0) ops_of(ctx).substitute_ids(ctx, args);
}

void tell_host(Context& ctx, const TellHostArgs& args) {
  TANDEM_CHECK_EQ(args.from.rank(), 1);
  check_vector(args.from, args.from.dim(0), DType::kI32);
  check_vector(args.to, 2, DType::kI32);
  if (args.from.dim(0) > 0) ops_of(ctx).tell_host(ctx, args);
}

}  // namespace tandem::ops
