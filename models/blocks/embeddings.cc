#include "models/blocks/embeddings.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>

namespace tandem {

Positions Positions::learned(const Weights& w, const Build& b, int count, int d_model, int offset) {
  Positions out;
  out.keep_alive_ = (w / "embed_positions").get("weight", {count + offset, d_model});
  out.table_ = b.ctx.resident(table_of(*out.keep_alive_));
  out.offset_ = offset;
  return out;
}

Positions Positions::sinusoidal(const Weights& w, const Build& b, int count, int d_model) {
  Positions out;
  out.keep_alive_ = (w / "embed_positions").find("weight", {count, d_model});
  if (out.keep_alive_) {
    out.table_ = b.ctx.resident(table_of(*out.keep_alive_));
    return out;
  }
  const Tensor table({count, d_model}, DType::kF32);
  const int sines = (d_model + 1) / 2;
  for (int position = 0; position < count; ++position) {
    float* row = table.row<float>(position);
    for (int i = 0; i < d_model; ++i) {
      const int pair = i < sines ? i : i - sines;
      const double angle = position / std::pow(10000.0, 2.0 * pair / d_model);
      row[i] = static_cast<float>(i < sines ? std::sin(angle) : std::cos(angle));
    }
  }
  out.table_ = b.ctx.resident(table);
  return out;
}

Positions Positions::fairseq_sinusoidal(const Build& b, int count, int d_model, int pad) {
  Positions out;
  out.offset_ = pad + 1;
  const int half = d_model / 2;
  const Tensor table({int64_t{count} + out.offset_, d_model}, DType::kF32);
  // In floats, as there: far positions show it.
  const auto step = static_cast<float>(-std::log(10000.0) / std::max(half - 1, 1));
  for (int64_t position = 0; position < table.dim(0); ++position) {
    float* row = table.row<float>(position);
    row[d_model - 1] = 0.0f;  // of an odd size
    for (int i = 0; i < half; ++i) {
      const float angle = static_cast<float>(position) * std::exp(static_cast<float>(i) * step);
      row[i] = std::sin(angle);
      row[half + i] = std::cos(angle);
    }
  }
  if (pad >= 0) std::fill_n(table.row<float>(pad), d_model, 0.0f);
  out.table_ = b.ctx.resident(table);
  return out;
}

Positions Positions::of_rows(const Build& b, const Tensor& rows, int offset) {
  Positions out;
  out.table_ = b.ctx.resident(rows);
  out.offset_ = offset;
  return out;
}

HostTensor one_of_tied(const Weights& own, const Weights& other, const Shape& shape, bool tied) {
  if (auto table = own.find("weight", shape)) return *table;
  if (tied)
    if (auto table = other.find("weight", shape)) return *table;
  return own.get("weight", shape);  // throws
}

HostTensor normed_rows(const HostTensor& rows, const Weights& norm, float eps) {
  const int64_t count = rows.shape[0], width = rows.shape[1];
  const Tensor weight = to_float(norm.get("weight", {width}));
  const Tensor bias = to_float(norm.get("bias", {width}));
  const auto table = std::make_shared<Tensor>(Shape{count, width}, DType::kF32);
  for (int64_t r = 0; r < count; ++r) {
    const Tensor in = to_float(rows, r * width, width);
    const float* x = in.data<float>();
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < width; ++i) mean += x[i];
    mean /= static_cast<double>(width);
    for (int64_t i = 0; i < width; ++i) variance += (x[i] - mean) * (x[i] - mean);
    const double scale = 1.0 / std::sqrt(variance / static_cast<double>(width) + double{eps});
    for (int64_t i = 0; i < width; ++i)
      table->row<float>(r)[i] =
          static_cast<float>((x[i] - mean) * scale) * weight.data<float>()[i] +
          bias.data<float>()[i];
  }
  HostTensor out = rows;
  out.data = reinterpret_cast<const std::byte*>(table->raw());
  out.dtype = DType::kF32;
  out.bytes = table->bytes();
  out.keep_alive = table;
  return out;
}

OwnRow::OwnRow(const HostTensor& row, int id, const HostTensor& tokens, float scale, const Build& b)
    : build_(b), id_(id) {
  const int64_t width = tokens.shape[1];
  const Tensor own = to_float(row), there = to_float(tokens, id * width, width);
  for (int64_t i = 0; i < width; ++i) own.data<float>()[i] -= scale * there.data<float>()[i];
  difference_ = b.ctx.resident(own.reshape({1, width}));
}

Tensor OwnRow::forward(const Tensor& ids, const Tensor& position_ids) const {
  const Tensor out = build_.ctx.make({ids.dim(0), difference_.dim(1)});
  ops::embedding(build_.ctx, {ids, position_ids, difference_, {}, 1.0f, 0, id_, out});
  return out;
}

TokenTables::TokenTables(const Weights& root, const Weights& model, const ModelConfig& c,
                         Order order, const SideScopes& sides) {
  const Shape shape{c.vocab_size, c.d_model};
  const bool apart = c.encoder_vocab_size > 0;
  const Shape source_shape{apart ? c.encoder_vocab_size : c.vocab_size, c.d_model};
  const auto shared = (model / "shared").find("weight", shape);
  const Weights source = model / sides.encoder / "embed_tokens";
  const auto own_encoder =
      apart ? source.get("weight", source_shape) : source.find("weight", source_shape);
  const auto own_decoder = (model / sides.decoder / "embed_tokens").find("weight", shape);
  const auto own_head = (root / "lm_head").find("weight", shape);
  const auto of_sides = apart || (own_decoder && order == Order::kHeadDecoderEncoder)
                            ? own_decoder
                            : (own_encoder ? own_encoder : own_decoder);
  const auto of_head = c.tie_word_embeddings ? own_head : std::nullopt;
  const bool head_first = order != Order::kEncoderDecoderHead && !apart;
  std::optional<HostTensor> any = shared;
  if (!any) any = head_first && of_head ? of_head : of_sides;
  if (!any) any = of_head;
  if (!any)  // throws, naming it
    any = (apart ? model / sides.decoder / "embed_tokens" : model / "shared").get("weight", shape);
  encoder = own_encoder.value_or(*any);
  decoder = own_decoder.value_or(*any);
  head = own_head                ? *own_head
         : c.tie_word_embeddings ? *any
                                 : (root / "lm_head").get("weight", shape);
}

}  // namespace tandem
