// Decoder self-attention in streams (ProphetNet, Qi et al. 2020). Beside its own row a token has
// one for each of the next n tokens. Such a row begins as its stream's and its position's
// embedding; it sees the tokens' own rows, and itself. Scores have biases by bucket of distance,
// which are a linear layer of the query's own row. What follows a token is read off the first
// stream's row; no other row depends on it.
//
// HuggingFace mixes up the biases of a prompt's rows: a row takes those of another row, stream and
// head (heads, streams and tokens are laid out in two orders; for a single token both are one). To
// say what it says, all streams of the whole prompt are computed once more in the step that ends
// it: they need of the prompt only the keys of its tokens' own rows.
#pragma once

#include <cstdint>

#include "models/blocks/attention/attention.h"
#include "models/blocks/embeddings.h"

namespace tandem {

struct StreamOptions {
  int ngram = 0;  // streams
  int num_buckets = 32, max_distance = 128;
  const char* biases = "relative_pos_embeddings";  // the layer of the biases
};

// HuggingFace's buckets of the distances 0, 1, …, max_distance, in its own arithmetic (float32);
// farther keys have the last one's. Throws InputError naming the field for sizes that leave none.
std::vector<int32_t> stream_buckets(const StreamOptions& options);

// Whether a prompt of several tokens ends in this step.
bool has_whole_prompts(const AttentionMetadata& step);
// What the layers share. block_size: of the pages; heads: this rank's, of all_heads.
StepTensors::Streams streams_of(Context& ctx, const StepTensors& in, int block_size,
                                const StreamOptions& options, const Heads& heads, int all_heads);
// [rows, d] of all rows → [T, d] of the tokens.
Tensor stream_results(Context& ctx, const Tensor& rows, const StepTensors::Streams& streams);

// The rows before the first layer.
class StreamEmbeddings {
 public:
  // norm(row + stream's row + positions): the streams' rows are `tables` [positions, d] f32, on the
  // host.
  StreamEmbeddings(const Build& b, const std::vector<Tensor>& tables, Norm norm);
  // [T, d] of the tokens, not normed → [all rows, d], normed.
  Tensor with_streams(const Tensor& tokens, const StepTensors& in) const;

 private:
  Build build_;
  std::vector<Tensor> tables_;
  Norm norm_;
};

class StreamAttention : AttentionLayer {
 public:
  StreamAttention(const Weights& w, const Build& b, int64_t d_model,
                  const AttentionOptions& options, const StreamOptions& streams);
  // [all rows, d_model]
  Tensor forward(NormedRows& x, const StepTensors& in, const KvPages& self_pages) const;

 private:
  // [rows, buckets of this rank's heads]: as the rows have them.
  Tensor own_biases(const Tensor& biases) const;
  // [streams of whole prompts, likewise]: as HuggingFace mixes them up.
  Tensor mixed_biases(const Tensor& biases, const StepTensors::Streams& streams) const;

  QKVParallelLinear qkv_;
  StreamOptions streams_;
  ColumnParallelLinear biases_;  // of all heads, on every rank
  Tensor bucket_of_;
};

}  // namespace tandem
