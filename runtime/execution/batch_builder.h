// Scheduled groups → the flat arrays of a step (models/step/attention_metadata.h).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "models/config/limits.h"
#include "models/step/attention_metadata.h"
#include "parallel/layers/adapters.h"
#include "runtime/execution/groups/worker_group.h"
#include "runtime/sampling/logits_processors.h"

namespace tandem {

// Rows of the batch whose logits are needed.
struct SampleRow {
  const WorkerGroup* group;
  int seq_index;           // into group->seqs; its place in the request, for seeds, is seq().index
  int32_t first_token;     // row of the sequence's first scheduled token in ModelInput::input_ids
  int32_t num_tokens;      // its chunk, and its drafts
  bool samples;            // the chunk ends at the last known token: the last row is sampled
  int32_t num_drafts = 0;  // of num_tokens, the last ones: their rows are sampled as well

  const WorkerSequence& seq() const { return group->seqs[static_cast<size_t>(seq_index)]; }
};
// What the processors and the sampler see of a row.
SamplerSequence sampler_view(const SampleRow& row);

// Rows of the encoder's output that are pooled.
struct PooledRows {
  const WorkerGroup* group;
  int32_t first, end;
};

struct Batch {
  ModelInput input;
  std::vector<SampleRow> rows;  // one per scheduled sequence, in the order of input's requests
  // Encoder inputs that are pooled lie behind the others, and have no slots.
  std::vector<PooledRows> pooled;
  // Which adapter each row of the encoder and of the decoder is for; no rows if no group has one.
  AdapterRows encoder_adapters, decoder_adapters;
};

// The slot of the KV cache, block * block_size + offset, where a token's keys and values lie.
// position < block_size * |blocks|.
int32_t slot_of(std::span<const int32_t> blocks, int position, int block_size);

// What a batch is made of; for those who compute something else of the groups (drafts). Each
// appends one entry, unless it says otherwise.
// The group's encoder, with the slots of its cross table unless it is pooled.
void append_encoder(const WorkerGroup& group, int block_size, ModelInput& in,
                    std::optional<int32_t> padding = {});
// Tokens of one sequence at positions first, first + 1, …, with the table that covers them.
// num_prompt: of the sequence.
void append_decoder(std::span<const int32_t> blocks, int first, std::span<const int32_t> ids,
                    int block_size, int num_prompt, ModelInput& in);
// The last tokens of a prompt, from position `first` on, each of which sees all of the prompt: one
// entry each, whose query stands behind all keys. (Positions count in embeddings alone: a model
// with such prompts has no bias by distance.)
void append_whole_prompt(std::span<const int32_t> blocks, int first, std::span<const int32_t> ids,
                         int block_size, ModelInput& in);
// Sets the positions of the tokens `ids`, which were appended last, in a model that does not count
// `padding` (ModelLimits::position_padding). `first`: tokens of the sequence before them.
void skip_padding(const WorkerSequence& seq, int first, std::span<const int32_t> ids,
                  int32_t padding, ModelInput& in);
// Cross-attention of the tokens that were appended last, all of them the group's.
void append_cross(const WorkerGroup& group, int block_size, ModelInput& in);

// block_size > 0; the groups as SequenceTable::apply() returned them. The worked example (three
// requests, block size 2, budget 10) is tests/runtime/execution/batch_builder_test.cc.
// padding: ModelLimits::position_padding.
Batch build_batch(const std::vector<WorkerGroup*>& scheduled, int block_size,
                  const PositionPadding& padding = {});

}  // namespace tandem
