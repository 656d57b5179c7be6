// Flat arrays without padding. A token at position p of its sequence goes to slot
// block_table[p / block_size] * block_size + p % block_size, in the self cache for decoder tokens
// and in the cross cache, by the group's cross table, for encoder tokens. Encoder tokens whose
// output is pooled have no slot, and come last.

#include "runtime/execution/batch_builder.h"

#include <algorithm>

#include "base/check.h"

namespace tandem {
namespace {

using Blocks = std::span<const int32_t>;

// Appends one sequence of `length` keys to the table: the first pages of `blocks`, as many as it
// fills.
void append_pages(Blocks blocks, int length, int block_size, PageTable& table) {
  const int pages = (length + block_size - 1) / block_size;
  TANDEM_CHECK_LE(pages, static_cast<int>(blocks.size()));
  table.page_indices.insert(table.page_indices.end(), blocks.begin(), blocks.begin() + pages);
  table.indptr.push_back(static_cast<int32_t>(table.page_indices.size()));
  table.last_page_len.push_back(length - (pages - 1) * block_size);
}

// Of the encoder with that number: those before it, and perhaps this one, have ids alone.
void append_frames(const WorkerFrames& frames, size_t number, EncoderFrames& out) {
  if (frames.width > 0) {
    TANDEM_CHECK(out.width == 0 || out.width == frames.width);
    out.width = frames.width;
  }
  if (out.width == 0) return;
  out.start_loc.resize(number + 1, out.start_loc.back());
  out.values.insert(out.values.end(), frames.values.begin(), frames.values.end());
  out.start_loc.push_back(out.start_loc.back() + frames.count);
}

// The positions of a text's ids, which are the first ones of `positions`.
void number_others(std::span<const int32_t> ids, int32_t padding, std::span<int32_t> positions) {
  int32_t count = 0;
  for (size_t i = 0; i < positions.size(); ++i) positions[i] = ids[i] == padding ? -1 : count++;
}

}  // namespace

void append_encoder(const WorkerGroup& group, int block_size, ModelInput& in,
                    std::optional<int32_t> padding) {
  const std::vector<int32_t>& ids = group.encoder.tokens;
  const int length = group.encoder.length;
  AttentionMetadata& attention = in.attention;
  in.encoder_input_ids.insert(in.encoder_input_ids.end(), ids.begin(), ids.end());
  append_frames(group.encoder.frames, attention.encoder_seq_lens.size(), in.encoder_frames);
  for (int p = 0; p < length; ++p) {
    in.encoder_positions.push_back(p);
    if (!group.pools())
      attention.cross_slot_mapping.push_back(slot_of(group.encoder.blocks, p, block_size));
  }
  if (padding && !ids.empty())
    number_others(ids, *padding, std::span(in.encoder_positions).last(ids.size()));
  attention.add_encoder(length, group.encoder.global_positions);
}

void skip_padding(const WorkerSequence& seq, int first, std::span<const int32_t> ids,
                  int32_t padding, ModelInput& in) {
  const std::span<int32_t> positions = std::span(in.positions).last(ids.size());
  const int prompt = static_cast<int>(seq.prompt.size());
  int32_t count = 0;
  for (int p = 0; p < std::min(first, prompt); ++p)
    count += seq.prompt[static_cast<size_t>(p)] != padding;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] == padding)
      positions[i] = -1;
    else if (first + static_cast<int>(i) < prompt)
      positions[i] = count++;
  }
}

// The rows of all a group's sequences, which were appended last, are one entry of cross-attention.
void append_cross(const WorkerGroup& group, int block_size, ModelInput& in) {
  AttentionMetadata& attention = in.attention;
  const int encoder_len = group.encoder.length;
  attention.cross_query_start_loc.push_back(static_cast<int32_t>(in.input_ids.size()));
  attention.cross_seq_lens.push_back(encoder_len);
  append_pages(group.encoder.blocks, encoder_len, block_size, attention.cross_pages);
}

namespace {

// Tokens at positions first, first + 1, …
void append_tokens(Blocks blocks, int first, std::span<const int32_t> ids, int block_size,
                   ModelInput& in) {
  in.input_ids.insert(in.input_ids.end(), ids.begin(), ids.end());
  for (int p = first; p < first + static_cast<int>(ids.size()); ++p) {
    in.positions.push_back(p);
    in.attention.slot_mapping.push_back(slot_of(blocks, p, block_size));
  }
}

// The next `count` tokens are the last ones of `keys`.
void append_entry(Blocks blocks, int keys, int count, int block_size, int num_prompt,
                  ModelInput& in) {
  AttentionMetadata& attention = in.attention;
  in.request_indices.insert(in.request_indices.end(), static_cast<size_t>(count),
                            attention.num_requests);
  ++attention.num_requests;
  attention.query_start_loc.push_back(attention.query_start_loc.back() + count);
  attention.num_tokens.push_back(count);
  attention.num_computed_tokens.push_back(keys - count);
  attention.num_prompt_tokens.push_back(num_prompt);
  attention.seq_lens.push_back(keys);
  attention.max_query_len = std::max(attention.max_query_len, count);
  append_pages(blocks, keys, block_size, attention.self_pages);
}

}  // namespace

void append_decoder(Blocks blocks, int first, std::span<const int32_t> ids, int block_size,
                    int num_prompt, ModelInput& in) {
  const int count = static_cast<int>(ids.size());
  append_tokens(blocks, first, ids, block_size, in);
  append_entry(blocks, first + count, count, block_size, num_prompt, in);
}

void append_whole_prompt(Blocks blocks, int first, std::span<const int32_t> ids, int block_size,
                         ModelInput& in) {
  const int prompt = first + static_cast<int>(ids.size());
  append_tokens(blocks, first, ids, block_size, in);
  in.attention.shared_keys |= ids.size() > 1;
  for (size_t i = 0; i < ids.size(); ++i)
    append_entry(blocks, prompt, /*count=*/1, block_size, prompt, in);
}

namespace {

// `ids` is for the tokens of a sequence, one after the other.
void append_sequence(const WorkerGroup& group, int index, int block_size,
                     std::optional<int32_t> padding, std::vector<int32_t>& ids, Batch& batch) {
  const WorkerSequence& seq = group.seqs[static_cast<size_t>(index)];
  TANDEM_CHECK_LE(seq.num_computed + seq.chunk, seq.length());
  ids.clear();
  for (int i = 0; i < seq.chunk; ++i) ids.push_back(seq.token(seq.num_computed + i));
  ids.insert(ids.end(), seq.drafts.begin(), seq.drafts.end());
  batch.rows.push_back({.group = &group,
                        .seq_index = index,
                        .first_token = static_cast<int32_t>(batch.input.input_ids.size()),
                        .num_tokens = static_cast<int32_t>(ids.size()),
                        .samples = seq.samples() && !group.params.has_pooling(),
                        .num_drafts = static_cast<int32_t>(seq.drafts.size())});
  const int prompt = static_cast<int>(seq.prompt.size());
  const int whole = group.whole_prompt ? std::max(0, prompt - seq.num_computed) : 0;
  TANDEM_CHECK_LE(whole, seq.chunk);
  const std::span<const int32_t> all = ids;
  append_whole_prompt(seq.blocks, seq.num_computed, all.first(static_cast<size_t>(whole)),
                      block_size, batch.input);
  if (const auto behind = all.subspan(static_cast<size_t>(whole)); !behind.empty())
    append_decoder(seq.blocks, seq.num_computed + whole, behind, block_size, prompt, batch.input);
  if (padding) skip_padding(seq, seq.num_computed, ids, *padding, batch.input);
}

}  // namespace

int32_t slot_of(std::span<const int32_t> blocks, int position, int block_size) {
  const auto page = static_cast<size_t>(position / block_size);
  TANDEM_CHECK_LT(page, blocks.size());
  return blocks[page] * block_size + position % block_size;
}

SamplerSequence sampler_view(const SampleRow& row) {
  const WorkerSequence& seq = row.seq();
  return {&row.group->params, row.group->encoder.tokens,        seq.prompt,
          seq.output,         static_cast<uint32_t>(seq.index), row.group->constraint.get()};
}

namespace {

void append(uint64_t adapter, int32_t rows, std::vector<uint64_t>& out) {
  out.insert(out.end(), static_cast<size_t>(rows), adapter);
}

// Rows as build_batch() has put them.
void set_adapters(const std::vector<WorkerGroup*>& scheduled, Batch& batch) {
  std::vector<uint64_t> encoder, decoder;
  for (const bool pooled : {false, true})
    for (const WorkerGroup* group : scheduled)
      if (group->pools() == pooled && group->compute_encoder)
        append(group->params.adapter().id(), group->encoder.length, encoder);
  for (const SampleRow& row : batch.rows)
    append(row.group->params.adapter().id(), row.num_tokens, decoder);
  batch.encoder_adapters = AdapterRows(std::move(encoder));
  batch.decoder_adapters = AdapterRows(std::move(decoder));
}

}  // namespace

Batch build_batch(const std::vector<WorkerGroup*>& scheduled, int block_size,
                  const PositionPadding& padding) {
  TANDEM_CHECK_GT(block_size, 0);
  Batch batch;
  std::vector<int32_t> ids;
  for (const WorkerGroup* group : scheduled) {
    if (group->pools()) continue;
    if (group->compute_encoder) append_encoder(*group, block_size, batch.input, padding.encoder);
    const size_t rows = batch.rows.size();
    for (size_t i = 0; i < group->seqs.size(); ++i)
      if (group->seqs[i].chunk > 0)
        append_sequence(*group, static_cast<int>(i), block_size, padding.decoder, ids, batch);
    if (batch.rows.size() > rows) append_cross(*group, block_size, batch.input);
  }
  const auto& encoder_ends = batch.input.attention.encoder_start_loc;
  for (const WorkerGroup* group : scheduled) {
    if (!group->pools() || !group->compute_encoder) continue;
    const int32_t first = encoder_ends.back();
    append_encoder(*group, block_size, batch.input, padding.encoder);
    batch.pooled.push_back({group, first, encoder_ends.back()});
  }
  if (std::ranges::any_of(scheduled, [](const auto* g) { return g->params.has_adapter(); }))
    set_adapters(scheduled, batch);
  return batch;
}

}  // namespace tandem
