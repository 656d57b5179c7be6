// What the device keeps of sequences: their beginnings, a token more, tokens and pages that only it
// knows.
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/hardware/system_scope.cuh"
#include "kernels/cuda/ops_cuda.h"

namespace tandem::cuda {
namespace {

constexpr int kSequenceThreads = 128;

struct Memory {
  int32_t *tokens, *pages;
  float* scores;
  int64_t tokens_stride, pages_stride;
};

// A block for each sequence.
__global__ void __launch_bounds__(kSequenceThreads)
    begin_kernel(Memory memory, const ops::SequenceBegin* sequences, const int32_t* data) {
  wait_for_earlier_kernels();
  const ops::SequenceBegin& s = sequences[blockIdx.x];
  const int32_t *tokens = data + s.first, *pages = tokens + s.tokens;
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < s.tokens; i += kSequenceThreads)
    memory.tokens[s.place * memory.tokens_stride + i] = tokens[i];
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < s.pages; i += kSequenceThreads)
    memory.pages[s.place * memory.pages_stride + i] = pages[i];
  if (threadIdx.x == 0) memory.scores[s.place] = s.score;
}

// places: (place, length) of each.
__global__ void append_ids_kernel(const int32_t* chosen, const int32_t* places, int32_t size,
                                  int32_t* tokens, int64_t stride) {
  wait_for_earlier_kernels();
  const int32_t i = static_cast<int32_t>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < size && places[2 * i] >= 0)
    tokens[places[2 * i] * stride + places[2 * i + 1]] = chosen[i];
}

// positions: or null.
__global__ void substitute_ids_kernel(int32_t* ids, int32_t size, const int32_t* earlier,
                                      int32_t* positions, int32_t padding) {
  wait_for_earlier_kernels();
  const int32_t i = static_cast<int32_t>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= size || ids[i] >= 0) return;
  const int32_t id = earlier[-1 - ids[i]];
  ids[i] = id;
  if (positions != nullptr && id == padding) positions[i] = -1;
}

__global__ void substitute_pages_kernel(int32_t* indices, int32_t size, const int32_t* pages,
                                        int64_t stride) {
  wait_for_earlier_kernels();
  const int32_t i = static_cast<int32_t>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= size || indices[i] >= 0) return;
  const int32_t at = -1 - indices[i];
  indices[i] =
      pages[(at >> ops::kPlacePageBits) * stride + (at & ((1 << ops::kPlacePageBits) - 1))];
}

__global__ void tell_host_kernel(const int32_t* from, int32_t size, const uint32_t* to) {
  wait_for_earlier_kernels();
  const int32_t i = static_cast<int32_t>(blockIdx.x * blockDim.x + threadIdx.x);
  auto* const place = reinterpret_cast<int32_t*>(uint64_t{to[1]} << 32 | to[0]);
  if (i < size) store_to_host(place + i, from[i]);
}

unsigned blocks_of(int64_t size) { return static_cast<unsigned>(ceil_div(size, kSequenceThreads)); }

}  // namespace

void begin_sequences(Context& ctx, const ops::BeginSequencesArgs& args) {
  Memory memory{};
  memory.tokens = args.memory.tokens.data<int32_t>();
  memory.pages = args.memory.pages.data<int32_t>();
  memory.scores = args.memory.scores.data<float>();
  memory.tokens_stride = args.memory.tokens.row_stride();
  memory.pages_stride = args.memory.pages.row_stride();
  TANDEM_LAUNCH(begin_kernel, static_cast<unsigned>(args.sequences.dim(0)), kSequenceThreads, 0,
                stream_of(ctx), memory,
                static_cast<const ops::SequenceBegin*>(args.sequences.raw()),
                args.data.data<int32_t>());
  after_launch("begin_sequences");
}

void append_tokens(Context& ctx, const ops::AppendTokensArgs& args) {
  const int64_t size = args.places.dim(0);
  TANDEM_LAUNCH(append_ids_kernel, blocks_of(size), kSequenceThreads, 0, stream_of(ctx),
                args.chosen.data<int32_t>(), args.places.data<int32_t>(),
                static_cast<int32_t>(size), args.tokens.data<int32_t>(), args.tokens.row_stride());
  after_launch("append_tokens");
}

void substitute_pages(Context& ctx, const ops::SubstitutePagesArgs& args) {
  const int64_t size = args.page_indices.dim(0);
  TANDEM_LAUNCH(substitute_pages_kernel, blocks_of(size), kSequenceThreads, 0, stream_of(ctx),
                args.page_indices.data<int32_t>(), static_cast<int32_t>(size),
                args.pages.data<int32_t>(), args.pages.row_stride());
  after_launch("substitute_pages");
}

void substitute_ids(Context& ctx, const ops::SubstituteIdsArgs& args) {
  const int64_t size = args.ids.dim(0);
  TANDEM_LAUNCH(substitute_ids_kernel, blocks_of(size), kSequenceThreads, 0, stream_of(ctx),
                args.ids.data<int32_t>(), static_cast<int32_t>(size), args.earlier.data<int32_t>(),
                args.positions.empty() ? nullptr : args.positions.data<int32_t>(), args.padding);
  after_launch("substitute_ids");
}

void tell_host(Context& ctx, const ops::TellHostArgs& args) {
  const int64_t size = args.from.dim(0);
  TANDEM_LAUNCH(tell_host_kernel, blocks_of(size), kSequenceThreads, 0, stream_of(ctx),
                args.from.data<int32_t>(), static_cast<int32_t>(size),
                static_cast<const uint32_t*>(args.to.raw()));
  after_launch("tell_host");
}

}  // namespace tandem::cuda
