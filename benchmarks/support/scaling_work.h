// What a rank does in a step, counted beforehand. The shapes of the step, of the model (a BART in
// float32) and of the layout say it. tests/cluster_scaling compares it with what ranks did.
#pragma once

#include <cstdint>

#include "benchmarks/support/scaling_layout.h"
#include "benchmarks/support/scaling_plan.h"
#include "parallel/shard.h"

namespace tandem::bench {

struct Traffic {
  int64_t calls = 0, bytes = 0;

  void add(int64_t bytes_of_call, int64_t count = 1) {
    calls += count;
    bytes += count * bytes_of_call;
  }
  bool operator==(const Traffic&) const = default;
};

struct StepWork {
  int64_t products = 0;      // multiplications of linear layers, each with its addition
  int64_t weight_bytes = 0;  // of the weights that they read
  int64_t queries = 0;       // elements of queries that attend
  int64_t pairs = 0;         // elements that attention multiplies: queries times keys, twice
  int64_t kv_bytes = 0;      // of keys and values in pages
  int64_t norm_rows = 0;     // rows of norms and residuals, which all ranks of a stage have
  int64_t norms = 0;         // as many sublayers: what one costs whatever its rows are
  Traffic sums;              // of the stage's ranks: collectives
  Traffic messages;          // sent and received between ranks
  bool operator==(const StepWork&) const = default;
};

class WorkModel {
 public:
  // stage: of `rank`. piece: Communicator's largest message (RoundCommunicator::piece_bytes()).
  WorkModel(const ModelConfig& config, const ScalingLayout& layout, Stage stage, int rank,
            int64_t piece)
      : c_(config), l_(layout), stage_(std::move(stage)), piece_(piece) {
    index_ = layout.stage_of(rank);
    const int r = rank % layout.tp;
    const auto share = [&](int64_t n) { return shard_range(n, r, layout.tp).size(); };
    encoder_width_ = share(c_.encoder_attention_heads) * c_.encoder_head_dim();
    decoder_width_ = share(c_.decoder_attention_heads) * c_.decoder_head_dim();
    encoder_inner_ = share(c_.encoder_ffn_dim);
    decoder_inner_ = share(c_.decoder_ffn_dim);
    vocabulary_ = share(c_.vocab_size);
  }

  StepWork of(const StepShape& s) const {
    StepWork work;
    if (s.encoder_rows > 0) add_encoder(s, work);
    if (s.decoder_rows > 0) add_decoder(s, work);
    if (l_.pp > 1) add_stages(s, work);
    return work;
  }

 private:
  bool is_last() const { return index_ + 1 == l_.pp; }
  static int64_t count(const LayerRange& layers, int of_model) {
    return std::max(0, std::min(layers.end, of_model) - layers.begin);
  }
  int64_t row_bytes() const { return int64_t{c_.d_model} * 4; }

  static void add_linear(int64_t rows, int64_t in, int64_t out, int64_t times, StepWork& work) {
    work.products += times * rows * in * out;
    work.weight_bytes += times * in * out * 4;
  }

  void add_encoder(const StepShape& s, StepWork& work) const {
    const int64_t d = c_.d_model, w = encoder_width_, rows = s.encoder_rows;
    const int64_t n = count(stage_.encoder, c_.encoder_layers);
    add_linear(rows, d, 3 * w, n, work);
    add_linear(rows, w, d, n, work);
    add_linear(rows, d, encoder_inner_, 2 * n, work);
    work.queries += n * rows * w;
    work.pairs += n * 2 * s.encoder_pairs * w;
    work.norm_rows += 2 * n * rows;
    work.norms += 2 * n;
    if (stage_.encodes())
      add_sum(rows * row_bytes(), (stage_.encoder.has_first() ? 1 : 0) + 2 * n, work);
    // Keys and values of cross-attention, of this stage's layers.
    add_linear(rows, d, 2 * decoder_width_, count(stage_.decoder, c_.decoder_layers), work);
  }

  void add_decoder(const StepShape& s, StepWork& work) const {
    const int64_t d = c_.d_model, w = decoder_width_, rows = s.decoder_rows;
    const int64_t n = count(stage_.decoder, c_.decoder_layers);
    add_linear(rows, d, 3 * w, n, work);
    add_linear(rows, d, w, 3 * n, work);  // two outputs, and the queries of cross-attention
    add_linear(rows, d, decoder_inner_, 2 * n, work);
    work.queries += n * 2 * rows * w;
    work.pairs += n * 2 * (s.self_pairs + s.cross_pairs) * w;
    work.kv_bytes += n * 2 * (s.self_pairs + s.cross_pairs) * w * 4;
    work.norm_rows += 3 * n * rows;
    work.norms += 3 * n;
    if (stage_.decodes())
      add_sum(rows * row_bytes(), (stage_.decoder.has_first() ? 1 : 0) + 3 * n, work);
    if (!is_last()) return;
    add_linear(s.sampled_rows, d, vocabulary_, 1, work);
    add_sum(16 * s.sampled_rows, 1, work);
  }

  // With stages, collectives of a stage are messages: of each rank to each other one.
  void add_sum(int64_t bytes, int64_t times, StepWork& work) const {
    if (l_.tp == 1 || times == 0) return;
    work.sums.add(bytes, times);
    if (l_.pp == 1) return;
    for (int64_t at = 0; at < bytes; at += piece_)
      work.messages.add(std::min(piece_, bytes - at), times * 2 * (l_.tp - 1));
  }

  // States go from stage to stage, ids of tokens from the last one to the others.
  void add_stages(const StepShape& s, StepWork& work) const {
    const auto state = [&](int sender, int64_t rows) {
      work.messages.add(8 * (sender + 2));
      work.messages.add(4 * 8);
      work.messages.add(rows * row_bytes());
    };
    if (s.encoder_rows > 0) {
      if (index_ > 0) state(index_ - 1, s.encoder_rows);
      if (!is_last()) state(index_, s.encoder_rows);
    }
    if (s.decoder_rows > 0 && stage_.decodes()) {
      if (!stage_.decoder.has_first()) state(index_ - 1, s.decoder_rows);
      if (!is_last()) state(index_, s.decoder_rows);
    }
    if (is_last()) {
      if (s.sampled_rows > 0) work.messages.add(4 * s.sampled_rows, l_.pp - 1);
    } else {
      work.messages.calls += s.heard;
      work.messages.bytes += 4 * s.heard_rows;
    }
  }

  const ModelConfig& c_;
  ScalingLayout l_;
  Stage stage_;
  int64_t piece_;
  int index_ = 0;
  int64_t encoder_width_, decoder_width_, encoder_inner_, decoder_inner_, vocabulary_;
};

}  // namespace tandem::bench
