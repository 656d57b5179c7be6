#include "models/blocks/embeddings.h"

#include <cmath>

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

TokenTables::TokenTables(const Weights& root, const Weights& model, const ModelConfig& c) {
  const Shape shape{c.vocab_size, c.d_model};
  const auto shared = (model / "shared").find("weight", shape);
  const auto own_encoder = (model / "encoder" / "embed_tokens").find("weight", shape);
  const auto own_decoder = (model / "decoder" / "embed_tokens").find("weight", shape);
  const auto own_head = (root / "lm_head").find("weight", shape);
  std::optional<HostTensor> any = shared;
  for (const auto& t : {own_decoder, own_encoder}) any = any ? any : t;
  if (!any && c.tie_word_embeddings) any = own_head;
  if (!any) any = (model / "shared").get("weight", shape);  // throws, naming it
  encoder = own_encoder.value_or(*any);
  decoder = own_decoder.value_or(*any);
  head = own_head                ? *own_head
         : c.tie_word_embeddings ? *any
                                 : (root / "lm_head").get("weight", shape);
}

}  // namespace tandem
