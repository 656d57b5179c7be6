// What the CPU keeps of sequences as a device does: plain, what devices are compared with.
#include <algorithm>
#include <cstring>
#include <span>

#include "kernels/cpu/ops_cpu.h"

namespace tandem::cpu {

void begin_sequences(Context&, const ops::BeginSequencesArgs& args) {
  for (int64_t i = 0; i < args.sequences.dim(0); ++i) {
    ops::SequenceBegin s;
    std::memcpy(static_cast<void*>(&s), args.sequences.row<int32_t>(i), sizeof(s));
    const int32_t* tokens = args.data.data<int32_t>() + s.first;
    std::copy_n(tokens, s.tokens, args.memory.tokens.row<int32_t>(s.place));
    std::copy_n(tokens + s.tokens, s.pages, args.memory.pages.row<int32_t>(s.place));
    args.memory.scores.data<float>()[s.place] = s.score;
  }
}

void append_tokens(Context&, const ops::AppendTokensArgs& args) {
  for (int64_t i = 0; i < args.places.dim(0); ++i) {
    const int32_t* place = args.places.row<int32_t>(i);
    if (place[0] >= 0)
      args.tokens.row<int32_t>(place[0])[place[1]] = args.chosen.data<int32_t>()[i];
  }
}

void substitute_pages(Context&, const ops::SubstitutePagesArgs& args) {
  constexpr int32_t kMask = (1 << ops::kPlacePageBits) - 1;
  const auto size = static_cast<size_t>(args.page_indices.dim(0));
  for (int32_t& index : std::span(args.page_indices.data<int32_t>(), size)) {
    if (index >= 0) continue;
    const int32_t at = -1 - index;
    index = args.pages.row<int32_t>(at >> ops::kPlacePageBits)[at & kMask];
  }
}

void substitute_ids(Context&, const ops::SubstituteIdsArgs& args) {
  const int32_t* earlier = args.earlier.data<int32_t>();
  int32_t* ids = args.ids.data<int32_t>();
  for (int64_t i = 0; i < args.ids.dim(0); ++i) {
    if (ids[i] >= 0) continue;
    ids[i] = earlier[-1 - ids[i]];
    if (!args.positions.empty() && ids[i] == args.padding) args.positions.data<int32_t>()[i] = -1;
  }
}

void tell_host(Context&, const ops::TellHostArgs& args) {
  void* to = nullptr;
  static_assert(sizeof(to) == 2 * sizeof(int32_t));
  std::memcpy(static_cast<void*>(&to), args.to.raw(), sizeof(to));
  std::memcpy(to, args.from.raw(), args.from.bytes());
}

}  // namespace tandem::cpu
