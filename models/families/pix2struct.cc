// Pix2Struct (Lee et al. 2022; HuggingFace Pix2StructForConditionalGeneration): an encoder of the
// patches of an image of any shape, whose rows and columns have learned embeddings, and T5's
// decoder.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/blocks/attention/relative_position.h"
#include "models/blocks/pictures/patch_embeddings.h"
#include "models/config/side_config.h"
#include "models/family.h"
#include "models/sides/composite_model.h"

namespace tandem {
namespace pix2struct {

constexpr int kRows = ConfigReader::kMaxRows, kWidth = ConfigReader::kMaxWidth,
              kCount = ConfigReader::kMaxCount;

struct Encoder : SideSizes {
  int head_dim = 0, patch_values = 0;
  int places = 0;  // rows and columns that have an embedding, with 0
  float eps = 0;
};

struct Decoder : SideSizes {
  int vocab_size = 0;
  bool tied = false;
  float eps = 0;
  RelativeBuckets buckets;
};

Encoder read_encoder(const ConfigReader& in) {
  Encoder out;
  out.d_model = size_or(in, "hidden_size", kWidth, 768);
  out.patch_values = size_or(in, "patch_embed_hidden_size", kWidth, 768);
  out.ffn_dim = size_or(in, "d_ff", kWidth, 2048);
  out.head_dim = size_or(in, "d_kv", kWidth, 64);
  out.layers = size_or(in, "num_hidden_layers", kCount, 12);
  out.heads = size_or(in, "num_attention_heads", kCount, 12);
  out.activation = in.activation("dense_act_fn", "gelu_new");
  out.eps = in.positive("layer_norm_eps", 1e-6f);
  out.places = size_or(in, "seq_len", kRows, 4096);
  return out;
}

Decoder read_decoder(const ConfigReader& in, bool tied) {
  Decoder out;
  out.vocab_size = size_or(in, "vocab_size", kRows, 50244);
  out.d_model = size_or(in, "hidden_size", kWidth, 768);
  out.ffn_dim = size_or(in, "d_ff", kWidth, 2048);
  out.layers = in.size("num_layers", kCount, "num_hidden_layers").value_or(12);
  out.heads = in.size("num_heads", kCount, "num_attention_heads").value_or(12);
  if (out.heads * size_or(in, "d_kv", kWidth, 64) != out.d_model)
    in.fail("d_kv", "times num_heads is not hidden_size");
  out.activation = in.activation("dense_act_fn", "gelu_new");
  out.eps = in.positive("layer_norm_epsilon", 1e-6f);
  out.tied = tied;
  out.buckets = {false, size_or(in, "relative_attention_num_buckets", kCount, 32),
                 size_or(in, "relative_attention_max_distance", kWidth, 128)};
  relative_position_buckets(out.buckets);  // what is wrong is said now
  return out;
}

struct Sides {
  explicit Sides(const ConfigReader& in)
      : encoder(read_encoder(part_or_empty(in, "vision_config"))),
        decoder(
            read_decoder(part_or_empty(in, "text_config"), in.flag("tie_word_embeddings", false))) {
    if (encoder.d_model != decoder.d_model)
      in.fail("text_config", "hidden_size is " + std::to_string(decoder.d_model) +
                                 ", that of vision_config " + std::to_string(encoder.d_model));
  }
  Encoder encoder;
  Decoder decoder;
};

DecoderSide side_of(const Decoder& d) {
  DecoderSide out{d, d.vocab_size};
  out.tied = d.tied;
  return out;
}

void read_config(const ConfigReader& in, ModelConfig& c) {
  const Sides sides(in);
  read_sizes(sides.encoder, side_of(sides.decoder), c);
}

ModelLimits limits(const ModelConfig& c) {
  const auto [encoder, decoder] = Sides(c.reader());
  ModelLimits out = limits_of_sides(encoder, side_of(decoder));
  out.decoder_positions.reset();
  const PatchGrid grid{encoder.patch_values};
  FrameLimits frames{grid.frame_width()};
  frames.grid = grid;
  out.frames = std::move(frames);
  out.encoder_positions = encoder.places - 1;  // place 0 is of no patch
  const int64_t ffn = std::max(encoder.ffn_dim, decoder.ffn_dim);
  out.scratch_values_per_token +=
      ffn + grid.frame_width() + 4 * int64_t{encoder.heads} * encoder.head_dim;
  out.widest_linear =
      std::max({out.widest_linear, 2 * ffn, 3 * int64_t{encoder.heads} * encoder.head_dim});
  return out;
}

// T5's layers, whose scores have no scale.
SideOptions options_of_side(const SideSizes& s, int head_dim, float eps) {
  SideOptions out = options_of(s, NormPlace::kPre, eps);
  out.layers = "layer";
  out.layer.norm_kind = NormKind::kRms;
  for (AttentionOptions* o : {&out.layer.self_attention, &out.layer.cross_attention}) {
    o->head_dim = head_dim;
    o->scale = 1.0f;
    o->bias = Bias::kNone;
    o->names = {"query", "key", "value", "output"};
  }
  out.layer.feed_forward.gated = true;
  out.layer.feed_forward.bias = Bias::kNone;
  return out;
}

SideOptions encoder_options(const Encoder& e) {
  SideOptions out = options_of_side(e, e.head_dim, e.eps);
  out.layers = "encoder.layer";
  out.final_norm = "layernorm";
  out.layer.names = {.self_attention = "attention",
                     .self_norm = "pre_attention_layer_norm",
                     .fc1 = "mlp.wi_0",
                     .gate = "mlp.wi_1",
                     .fc2 = "mlp.wo",
                     .final_norm = "pre_mlp_layer_norm"};
  return out;
}

SideOptions decoder_options(const Decoder& d, const Weights& w, const Build& b) {
  SideOptions out = options_of_side(d, d.d_model / d.heads, d.eps);
  out.final_norm = "final_layer_norm";
  out.layer.names = {.self_attention = "self_attention.attention",
                     .self_norm = "self_attention.layer_norm",
                     .cross_attention = "encoder_decoder_attention.attention",
                     .cross_norm = "encoder_decoder_attention.layer_norm",
                     .fc1 = "mlp.DenseReluDense.wi_0",
                     .gate = "mlp.DenseReluDense.wi_1",
                     .fc2 = "mlp.DenseReluDense.wo",
                     .final_norm = "mlp.layer_norm"};
  out.of_layer = [biases = relative_position_biases(
                      w / "layer", "self_attention.attention.relative_attention_bias", b, d.layers,
                      /*of_each=*/false, d.heads, d.buckets)](int i, LayerOptions& layer) {
    layer.self_attention.position_bias = biases.at(static_cast<size_t>(i));
  };
  return out;
}

DecoderSide decoder_side_of(const Decoder& d, const Weights& w, const Build& b) {
  DecoderSide out = side_of(d);
  out.options = decoder_options(d, w, b);
  out.ends = [d](const Weights& at, const Build& build) {
    const TiedTables tables(at / "embed_tokens", at / "lm_head", {d.vocab_size, d.d_model}, d.tied);
    return DecoderSide::Ends{at,
                             [=, &build] {
                               return Embeddings(VocabParallelEmbedding(tables.tokens, build, 1.0f),
                                                 Positions::none());
                             },
                             [=, &build] { return ParallelLMHead(tables.head, {}, build); }};
  };
  return out;
}

// A product of a patch's values, and the embeddings of its row and column.
class GridEmbeddings {
 public:
  GridEmbeddings(const Weights& w, const Build& b, const Encoder& e)
      : build_(b),
        projection_(w / "patch_projection", b, e.d_model, e.patch_values),
        rows_(table(w / "row_embedder", b, e)),
        columns_(table(w / "column_embedder", b, e)) {}

  Tensor forward(const Tensor& frames) const {
    const Tensor out = projection_.forward(frames.columns(PatchGrid::kPlace, frames.dim(1)));
    for (const int64_t place : {0, 1}) {
      const Tensor ids = frames.columns(place, place + 1),
                   more = build_.ctx.make({out.dim(0), out.dim(1)});
      ops::embedding(build_.ctx, {ids, {}, place == 0 ? rows_ : columns_, {}, 1.0f, 0, 0, more});
      ops::add_rows(build_.ctx, {out, more, out});
    }
    return out;
  }

 private:
  static Tensor table(const Weights& w, const Build& b, const Encoder& e) {
    const Shape shape{e.places, e.d_model};
    return b.ctx.resident(to_float(w.get("weight", shape)).reshape(shape));
  }

  Build build_;
  PatchProjection projection_;
  Tensor rows_, columns_;  // [places, d_model] f32
};

class GridModel final : public CompositeModel {
 public:
  GridModel(const ModelConfig& c, const Build& b, const Weights& root, const Sides& sides)
      : CompositeModel(c, b, root, sides.encoder, encoder_options(sides.encoder), {},
                       decoder_side_of(sides.decoder, root / "decoder", b)) {
    if (b.encoder_layers.has_first())
      embeddings_.emplace(root / "encoder" / "embeddings", b, sides.encoder);
  }

 protected:
  Tensor embed_source(const StepTensors& in) override {
    return embeddings_->forward(in.encoder_frames);
  }

 private:
  std::optional<GridEmbeddings> embeddings_;
};

std::unique_ptr<Model> make(const ModelConfig& c, const Weights& root, const Build& b) {
  return std::make_unique<GridModel>(c, b, root, Sides(c.reader()));
}

}  // namespace pix2struct

ModelFamily pix2struct_family() {
  using namespace pix2struct;
  return {.model_type = "pix2struct",
          .architectures = {"Pix2StructForConditionalGeneration"},
          .base = "pix2struct",
          .encoder_input = EncoderInput::kFrames,
          .special_tokens = {.pad = 0, .eos = 1, .decoder_start = 0},
          .read_config = read_config,
          .limits = limits,
          .make = make};
}

}  // namespace tandem
