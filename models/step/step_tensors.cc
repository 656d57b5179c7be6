// Planning, filling up and uploading a step (step_tensors.h).
#include "models/step/step_tensors.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "kernels/core/padded_size.h"

namespace tandem {
namespace {

std::vector<AttentionSequence> encoder_sequences(const AttentionMetadata& m) {
  std::vector<AttentionSequence> out;
  for (size_t i = 0; i < m.encoder_seq_lens.size(); ++i) {
    const int32_t begin = m.encoder_start_loc[i], length = m.encoder_seq_lens[i];
    out.push_back({begin, length, length, begin, false});
  }
  return out;
}

std::vector<AttentionSequence> global_sequences(const AttentionMetadata& m) {
  std::vector<AttentionSequence> out;
  for (size_t i = 0; i + 1 < m.global_start_loc.size(); ++i)
    out.push_back({m.global_start_loc[i], m.global_start_loc[i + 1] - m.global_start_loc[i],
                   m.encoder_seq_lens[i], m.encoder_start_loc[i], false});
  return out;
}

std::vector<AttentionSequence> self_sequences(const AttentionMetadata& m) {
  std::vector<AttentionSequence> out;
  for (size_t i = 0; i < m.seq_lens.size(); ++i)
    out.push_back(
        {m.query_start_loc[i], m.num_tokens[i], m.seq_lens[i], m.self_pages.indptr[i], true});
  return out;
}

std::vector<AttentionSequence> cross_sequences(const AttentionMetadata& m) {
  std::vector<AttentionSequence> out;
  for (size_t i = 0; i < m.cross_seq_lens.size(); ++i)
    out.push_back({m.cross_query_start_loc[i],
                   m.cross_query_start_loc[i + 1] - m.cross_query_start_loc[i], m.cross_seq_lens[i],
                   m.cross_pages.indptr[i], false});
  return out;
}

// Blocks of attention that a device has at once, roughly: two for each of an H100's
// multiprocessors, twice. More work than that is the blocks' in turn.
constexpr int32_t kBlocksAtOnce = 528;

int32_t chunks_of(int32_t keys) { return (keys - 1) / kKeysPerChunk + 1; }

StepShape::Attention shape_of(const AttentionPlan& plan, int32_t limit) {
  StepShape::Attention shape;
  int32_t longest = 1;
  for (const AttentionWork& work : plan.rows) {
    shape.pieces += work.chunk == 0 ? 1 : 0;
    longest = std::max(longest, work.key_end);
  }
  shape.pieces = padded_size(shape.pieces);
  shape.keys = listed_keys(longest, limit);
  shape.shared_keys = plan.shared_keys;
  // There are kernels for 1, up to 4 and up to 8.
  shape.queries = plan.row_queries <= 1 ? 1 : plan.row_queries <= 4 ? 4 : kRowsPerBlock;
  return shape;
}

// `pages`: of its list.
void fill_up_plan(AttentionPlan& plan, int32_t& pages, const StepShape::Attention& shape,
                  int32_t tokens, int32_t block_size, int heads) {
  const int32_t chunks = chunks_of(shape.keys), work = shape.pieces * chunks;
  const int32_t partials = chunks > 1 ? tokens * chunks : 0;
  const int32_t listed = shape.pieces * ((shape.keys - 1) / block_size + 1);
  TANDEM_CHECK_LE(std::ssize(plan.rows), int64_t{work});
  TANDEM_CHECK_LE(plan.partials, partials);
  TANDEM_CHECK_LE(pages, listed);
  plan.rows.resize(static_cast<size_t>(work));
  plan.row_queries = shape.queries;
  plan.partials = partials;
  plan.tickets = chunks > 1 ? shape.pieces : 0;
  plan.row_blocks = std::clamp((kBlocksAtOnce - 1) / std::max(heads, 1) + 1, shape.pieces, work);
  pages = listed;
}

// One list of int32 after another, each from a multiple of 16 bytes.
class Upload {
 public:
  size_t add(std::span<const int32_t> values, int32_t size, int32_t fill = 0) {
    const size_t at = data_.size();
    const auto count = static_cast<size_t>(std::max<int64_t>(size, std::ssize(values)));
    data_.resize(at + (count + 3) / 4 * 4, 0);
    std::copy(values.begin(), values.end(), data_.begin() + static_cast<long>(at));
    std::fill(data_.begin() + static_cast<long>(at + values.size()),
              data_.begin() + static_cast<long>(at + count), fill);
    parts_.push_back({at, count});
    return parts_.size() - 1;
  }
  size_t add(const std::vector<AttentionWork>& work) {
    return add({reinterpret_cast<const int32_t*>(work.data()), work.size() * kAttentionWorkInts},
               0);
  }
  void send(Context& ctx) {
    if (data_.empty()) return;
    device_ = ctx.make({static_cast<int64_t>(data_.size())}, DType::kI32);
    ctx.backend().copy_in(Tensor::borrow(data_), device_);
  }
  Tensor vector(size_t part) const {
    const auto [at, count] = parts_[part];
    return count == 0 ? Tensor()
                      : device_.rows(static_cast<int64_t>(at), static_cast<int64_t>(at + count));
  }
  Tensor work(size_t part) const {
    const Tensor flat = vector(part);
    return flat.empty() ? flat
                        : flat.reshape({flat.size() / kAttentionWorkInts, kAttentionWorkInts});
  }

 private:
  struct Part {
    size_t at, count;
  };
  std::vector<int32_t> data_;
  std::vector<Part> parts_;
  Tensor device_;
};

struct PlanParts {
  PlanParts(Upload& upload, const AttentionPlan& plan, int heads)
      : rows(upload.add(plan.rows)),
        tiles(upload.add(plan.tiles)),
        tickets(upload.add({}, plan.tickets * heads)),
        partials(plan.partials),
        row_queries(plan.row_queries),
        row_blocks(plan.row_blocks),
        shared_keys(plan.shared_keys) {}
  ops::DeviceAttentionPlan of(const Upload& upload) const {
    return {upload.work(rows), upload.work(tiles), upload.vector(tickets), partials, row_queries,
            row_blocks,        shared_keys};
  }
  size_t rows, tiles, tickets;
  int32_t partials, row_queries, row_blocks;
  bool shared_keys;
};

StepTensors::Pages borrow_pages(const PageTable& t) {
  return {Tensor::borrow(t.indptr), Tensor::borrow(t.page_indices),
          Tensor::borrow(t.last_page_len)};
}

// No tensor of no values.
Tensor borrow_any(const std::vector<int32_t>& values) {
  return values.empty() ? Tensor() : Tensor::borrow(values);
}

// A copy on the context's device.
Tensor there(Context& ctx, const Tensor& list) {
  if (list.dim(0) == 0) return {};
  const Tensor out = ctx.make(list.shape(), list.dtype());
  if (ctx.on_cpu()) {
    std::memcpy(out.raw(), list.raw(), list.bytes());
  } else {
    ctx.backend().copy_in(list, out);
  }
  return out;
}

// [2 n] as [n, 2].
Tensor as_ranges(const Tensor& flat) {
  return flat.empty() ? flat : flat.reshape({flat.dim(0) / 2, 2});
}

Tensor borrow_frames(const EncoderFrames& frames) {
  if (frames.width == 0) return {};
  return Tensor::borrow(frames.values)
      .reshape({static_cast<int64_t>(frames.values.size()) / frames.width, frames.width});
}

}  // namespace

int32_t listed_keys(int32_t longest, int32_t limit) {
  int64_t keys = 1024;
  while (keys < longest) keys *= 2;
  if (limit > 0 && longest <= limit) keys = std::min<int64_t>(keys, limit);
  return static_cast<int32_t>(keys);
}

std::vector<int32_t> StepShape::values() const {
  return {tokens,           self.pieces,  self.keys,  self.queries,
          self.shared_keys, cross.pieces, cross.keys, cross.queries};
}

StepShape StepShape::of_decoding(int32_t sequences, int32_t self_keys, int32_t cross_keys) {
  const int32_t n = padded_size(sequences);
  return {n, {n, self_keys, 1}, {n, cross_keys, 1}};
}

int32_t doubled_size(int32_t n) {
  int32_t size = 64;
  while (size < n) size *= 2;
  return n == 0 ? 0 : size;
}

StepPlan::StepPlan(const Context& ctx, const ModelInput& input, const StepLayout& heads,
                   StepHalf which)
    : in(input), layout(heads), half(which) {
  const DeviceBackend* backend = ctx.backend_or_null();
  if (backend == nullptr) return;
  const auto tiles = [&](int head_dim) {
    return backend->attention_tiles(ctx.activations(), head_dim);
  };
  if (half == StepHalf::kEncoder) {
    encoder = plan_attention(encoder_sequences(in.attention), tiles(heads.encoder_head_dim));
    global = plan_attention(global_sequences(in.attention), tiles(heads.encoder_head_dim));
    return;
  }
  tokens = static_cast<int32_t>(in.input_ids.size());
  self_pages = static_cast<int32_t>(in.attention.self_pages.page_indices.size());
  cross_pages = static_cast<int32_t>(in.attention.cross_pages.page_indices.size());
  // (The queries of a sequence in a step depend on what else is in it; all of an encoder's are.)
  const bool decoder_tiles =
      !heads.pages_in_8_bits && !backend->batch_invariant() && tiles(heads.decoder_head_dim);
  self = plan_attention(self_sequences(in.attention), decoder_tiles);
  self.shared_keys = in.attention.shared_keys;
  cross = plan_attention(cross_sequences(in.attention), decoder_tiles);
}

bool StepPlan::can_pad() const { return tokens > 0 && self.tiles.empty() && cross.tiles.empty(); }

StepShape StepPlan::shape(const StepRoom& room) const {
  TANDEM_CHECK(can_pad());
  return {padded_size(tokens), shape_of(self, room.self_keys), shape_of(cross, room.cross_keys)};
}

void StepPlan::fill_up(const StepShape& shape, const StepRoom& room) {
  TANDEM_CHECK(can_pad());
  TANDEM_CHECK_LE(tokens, shape.tokens);
  tokens = shape.tokens;
  fill_up_plan(self, self_pages, shape.self, tokens, room.block_size, layout.decoder_heads);
  fill_up_plan(cross, cross_pages, shape.cross, tokens, room.block_size, layout.decoder_heads);
}

Tensor step_list(Context& ctx, const std::vector<int32_t>& list) {
  return there(ctx, Tensor::borrow(list));
}
Tensor step_values(Context& ctx, const std::vector<float>& list) {
  return there(ctx, Tensor::borrow(list));
}

Tensor step_ranges(Context& ctx, const std::vector<int32_t>& list) {
  return as_ranges(step_list(ctx, list));
}

std::optional<ops::DeviceAttentionPlan> plan_own(Context& ctx,
                                                 std::span<const AttentionSequence> sequences,
                                                 int heads, int head_dim) {
  const DeviceBackend* backend = ctx.backend_or_null();
  if (backend == nullptr) return std::nullopt;
  Upload upload;
  const PlanParts parts(
      upload, plan_attention(sequences, backend->attention_tiles(ctx.activations(), head_dim)),
      heads);
  upload.send(ctx);
  return parts.of(upload);
}

StepTensors::StepTensors(const ModelInput& in)
    : input_ids(Tensor::borrow(in.input_ids)),
      positions(Tensor::borrow(in.positions)),
      encoder_input_ids(Tensor::borrow(in.encoder_input_ids)),
      encoder_positions(Tensor::borrow(in.encoder_positions)),
      encoder_frames(borrow_frames(in.encoder_frames)),
      frame_start_loc(Tensor::borrow(in.encoder_frames.start_loc)),
      encoder_start_loc(Tensor::borrow(in.attention.encoder_start_loc)),
      encoder_ranges(as_ranges(borrow_any(in.attention.encoder_ranges))),
      query_start_loc(Tensor::borrow(in.attention.query_start_loc)),
      cross_query_start_loc(Tensor::borrow(in.attention.cross_query_start_loc)),
      global_rows(borrow_any(in.attention.global_rows)),
      global_start_loc(borrow_any(in.attention.global_start_loc)),
      host(&in.attention),
      slot_mapping(Tensor::borrow(in.attention.slot_mapping)),
      cross_slot_mapping(Tensor::borrow(in.attention.cross_slot_mapping)),
      self_pages(borrow_pages(in.attention.self_pages)),
      cross_pages(borrow_pages(in.attention.cross_pages)) {}

StepTensors::StepTensors(Context& ctx, const StepPlan& plan,
                         std::span<const std::vector<int32_t>> along, std::span<Tensor> there) {
  TANDEM_CHECK_EQ(along.size(), there.size());
  if (ctx.on_cpu()) {
    TANDEM_CHECK(along.empty(), "nothing goes to the CPU");
    *this = StepTensors(plan.in);
  } else {
    upload(ctx, plan, along, there);
  }
}

StepTensors StepTensors::of_sequences(Context& ctx, std::span<const int32_t> lengths, int heads,
                                      int head_dim) const {
  StepTensors out = *this;
  std::vector<int32_t> starts{0};
  std::vector<AttentionSequence> sequences;
  for (const int32_t length : lengths) {
    sequences.push_back({starts.back(), length, length, starts.back(), false});
    starts.push_back(starts.back() + length);
  }
  out.encoder_start_loc = step_list(ctx, starts);
  if (const auto plan = plan_own(ctx, sequences, heads, head_dim)) out.encoder_ = *plan;
  return out;
}

void StepTensors::upload_frames(Context& ctx, const EncoderFrames& frames) {
  if (frames.width == 0) return;
  const auto send = [&](const Tensor& host) {
    Tensor there = ctx.make(host.shape(), host.dtype());
    ctx.backend().copy_in(host, there);
    return there;
  };
  encoder_frames = send(borrow_frames(frames));
  frame_start_loc = send(Tensor::borrow(frames.start_loc));
}

void StepTensors::upload(Context& ctx, const StepPlan& plan,
                         std::span<const std::vector<int32_t>> along, std::span<Tensor> there) {
  const ModelInput& in = plan.in;
  const AttentionMetadata& m = in.attention;
  host = &m;
  Upload upload;
  std::vector<std::pair<Tensor*, size_t>> vectors;
  if (plan.half == StepHalf::kEncoder) {
    upload_frames(ctx, in.encoder_frames);
    vectors = {{&encoder_input_ids, upload.add(in.encoder_input_ids, 0)},
               {&encoder_positions, upload.add(in.encoder_positions, 0)},
               {&encoder_start_loc, upload.add(m.encoder_start_loc, 0)},
               {&encoder_ranges, upload.add(m.encoder_ranges, 0)},
               {&global_rows, upload.add(m.global_rows, 0)},
               // Zeros where no token is global: the same kernel, the same bits.
               {&global_start_loc,
                upload.add(m.global_start_loc, static_cast<int32_t>(m.encoder_start_loc.size()))},
               {&cross_slot_mapping, upload.add(m.cross_slot_mapping, 0)}};
  } else {
    vectors = {
        {&input_ids, upload.add(in.input_ids, plan.tokens)},
        {&positions, upload.add(in.positions, plan.tokens)},
        {&slot_mapping, upload.add(m.slot_mapping, plan.tokens, -1)},
        {&self_pages.page_indices, upload.add(m.self_pages.page_indices, plan.self_pages)},
        {&cross_pages.page_indices, upload.add(m.cross_pages.page_indices, plan.cross_pages)}};
  }
  const PlanParts encoder(upload, plan.encoder, plan.layout.encoder_heads),
      global(upload, plan.global, plan.layout.encoder_heads),
      self(upload, plan.self, plan.layout.decoder_heads),
      cross(upload, plan.cross, plan.layout.decoder_heads);
  std::vector<size_t> lists;
  for (const std::vector<int32_t>& list : along) lists.push_back(upload.add(list, 0));
  upload.send(ctx);
  for (size_t i = 0; i < lists.size(); ++i) there[i] = upload.vector(lists[i]);
  for (const auto& [tensor, part] : vectors) *tensor = upload.vector(part);
  encoder_ranges = as_ranges(encoder_ranges);
  encoder_ = encoder.of(upload);
  global_ = global.of(upload);
  self_ = self.of(upload);
  cross_ = cross.of(upload);
  planned_ = true;
}

}  // namespace tandem
