// UDOP (Tang et al. 2022; HuggingFace UdopForConditionalGeneration): T5, whose encoder reads the
// words of a page with their boxes, and the page. The patch under the middle of a word's box is
// added to the word and stands for itself no more; the other patches follow the words.
#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/blocks/attention/relative_position.h"
#include "models/blocks/pictures/image_rows.h"
#include "models/blocks/pictures/patch_embeddings.h"
#include "models/blocks/seq2seq.h"
#include "models/config/side_config.h"
#include "models/config/vision_config.h"
#include "models/family.h"
#include "models/sides/page_rows.h"

namespace tandem {
namespace udop {

constexpr const char* kTable = "relative_attention_bias";

// The biases of encoder attention, by what their distances are of.
enum Axis : size_t { kText, kAcross, kDown, kAxes };
constexpr const char* kAxisNames[kAxes] = {"1d", "horizontal", "vertical"};

struct AxisBias {
  int place = -1;  // in the file's list; -1: there is none
  RelativeBuckets buckets;
};

// Keys of config.json that ModelConfig does not have.
struct Extras {
  bool gated = false;
  float eps = 0;
  RelativeBuckets decoder;
  std::array<AxisBias, kAxes> axes;
  ImagePatches patches;
  int places = 0;  // of edges of boxes that have an embedding
};

void read_axis(const ConfigReader& in, const nlohmann::json& entry, int place, Extras& out) {
  const char* const key = "relative_bias_args";
  if (!entry.is_object()) in.fail(key, "is " + in.show(entry) + ", expected objects");
  const ConfigReader bias(in.file() + ": " + key, entry);
  const std::string type = bias.string("type");
  const auto* const axis = std::find(std::begin(kAxisNames), std::end(kAxisNames), type);
  if (axis == std::end(kAxisNames))
    bias.fail("type", "is \"" + type + "\", expected 1d, horizontal or vertical");
  AxisBias& to = out.axes[static_cast<size_t>(axis - std::begin(kAxisNames))];
  if (to.place >= 0) bias.fail("type", "is \"" + type + "\" twice");
  const bool of_text = type == kAxisNames[kText];
  to.place = place;
  to.buckets = {true, size_or(bias, "relative_attention_num_buckets", in.kMaxCount, 32),
                size_or(bias, "max_distance", in.kMaxWidth, of_text ? 128 : 100)};
  if (size_or(bias, "scaling_factor", in.kMaxWidth, of_text ? 1 : 100) != (of_text ? 1 : 100))
    bias.fail("scaling_factor", "is not HuggingFace's default, which is all that is supported");
  if (!bias.flag("bidirectional", true)) bias.fail("bidirectional", "false is not supported");
  if (bias.flag("prefix_bucket", false)) bias.fail("prefix_bucket", "is not supported");
  relative_position_buckets(to.buckets);  // what is wrong is said now
}

Extras read_extras(const ConfigReader& in) {
  Extras out;
  out.gated = in.find("feed_forward_proj") && in.string("feed_forward_proj").starts_with("gated-");
  out.eps = in.positive("layer_norm_epsilon", 1e-6f);
  out.decoder = {false, size_or(in, "relative_attention_num_buckets", in.kMaxCount, 32),
                 size_or(in, "relative_attention_max_distance", in.kMaxWidth, 128)};
  relative_position_buckets(out.decoder);
  const nlohmann::json* biases = in.find("relative_bias_args");
  static const nlohmann::json all = {
      {{"type", "1d"}}, {{"type", "horizontal"}}, {{"type", "vertical"}}};
  const nlohmann::json& list = biases != nullptr ? *biases : all;
  if (!list.is_array()) in.fail("relative_bias_args", "is no list");
  for (size_t i = 0; i < list.size(); ++i) read_axis(in, list[i], static_cast<int>(i), out);
  out.patches = read_patches(in, 224, 16);
  if (out.patches.rows() != out.patches.columns()) in.fail("image_size", "is not that of a square");
  out.places = size_or(in, "max_2d_position_embeddings", in.kMaxRows, 1024);
  return out;
}

void read_config(const ConfigReader& in, ModelConfig& c) {
  c.vocab_size = size_or(in, "vocab_size", in.kMaxRows, 33201);
  c.d_model = in.size("d_model", in.kMaxWidth, "hidden_size").value_or(1024);
  c.head_dim = size_or(in, "d_kv", in.kMaxWidth, 64);
  c.encoder_ffn_dim = c.decoder_ffn_dim = size_or(in, "d_ff", in.kMaxWidth, 4096);
  c.encoder_layers = in.size("num_layers", in.kMaxCount, "num_hidden_layers").value_or(24);
  c.decoder_layers = size_or(in, "num_decoder_layers", in.kMaxCount, c.encoder_layers);
  c.encoder_attention_heads = c.decoder_attention_heads =
      in.size("num_heads", in.kMaxCount, "num_attention_heads").value_or(16);
  c.tie_word_embeddings = true;  // whatever the file says
  // Unlike T5's, gated-gelu is the exact gelu here.
  std::string act = in.find("feed_forward_proj") ? in.string("feed_forward_proj") : "relu";
  if (act.starts_with("gated-")) act.erase(0, std::string("gated-").size());
  c.activation = in.activation_named("feed_forward_proj", act);
  read_extras(in);
}

ModelLimits limits(const ModelConfig& c) {
  const Extras extras = read_extras(c.reader());
  ModelLimits out = encoder_decoder_limits(c);
  const int64_t width = c.encoder_ffn_dim;
  out.scratch_values_per_token += width + extras.patches.frame_width() + 4 * int64_t{c.d_model};
  out.widest_linear = std::max(out.widest_linear, 2 * width);
  FrameLimits frames{extras.patches.frame_width()};
  frames.image = extras.patches;
  FramesBesideIds beside;
  beside.has_boxes = true;
  beside.length_of = [patches = extras.patches](std::span<const int32_t> ids,
                                                std::span<const float> values) {
    const int64_t count = std::ssize(ids), frame = patches.frame_width();
    const bool page = std::ssize(values) > count * frame;
    const std::vector<bool> left =
        left_patches({values.data(), count, frame, page ? patches.count() : 0}, patches.rows());
    return count + std::count(left.begin(), left.end(), true);
  };
  frames.beside_ids = std::move(beside);
  out.frames = std::move(frames);
  return out;
}

class PageModel final : public Seq2Seq {
 public:
  // What stands before the first layer.
  struct Source {
    VocabParallelEmbedding tokens;
    PatchProjection patches;
    Tensor across, down;  // [places, d_model] f32: of edges
  };
  PageModel(const ModelConfig& c, const Build& b, Parts parts, const Weights& encoder,
            const SideOptions& encoder_side, const Weights& decoder,
            const SideOptions& decoder_side, const Extras& extras, std::optional<Source> source)
      : Seq2Seq(c, b, std::move(parts), encoder, encoder_side, decoder, decoder_side),
        ctx_(b.ctx),
        d_model_(c.d_model),
        extras_(extras),
        source_(std::move(source)) {}

  StageState encode_stage(const StepTensors& in, StageState state) override {
    StepTensors step = in;
    const PageRows rows = rows_of(in);
    constexpr auto kEdges = static_cast<int64_t>(PageRows::kEdges);
    step.boxes = step_values(ctx_, rows.boxes).reshape({std::ssize(rows.boxes) / kEdges, kEdges});
    return Seq2Seq::encode_stage(step, std::move(state));
  }

 protected:
  Tensor embed_source(const StepTensors& in) override {
    const PageRows rows = rows_of(in);
    const Tensor tokens =
                     source_->tokens.forward(in.encoder_input_ids, in.encoder_input_ids, {}, 0),
                 x = make(in.encoder_positions.dim(0));
    if (!rows.frames.empty()) {
      const Tensor frames =
          ctx_.make({std::ssize(rows.frames), in.encoder_frames.dim(1)}, DType::kF32);
      ops::gather_rows(ctx_, {in.encoder_frames, step_list(ctx_, rows.frames), frames});
      const Tensor patches = source_->patches.forward(frames), under = make(tokens.dim(0));
      const Tensor list = step_list(ctx_, rows.under_tokens);
      ops::embedding(ctx_, {list, list, patches, {}, 1.0f, 0, 0, under});
      ops::add_rows(ctx_, {tokens, under, tokens});
      if (!rows.left.empty()) {
        const Tensor left = make(std::ssize(rows.left));
        ops::gather_rows(ctx_, {patches, step_list(ctx_, rows.left), left});
        ops::scatter_rows(ctx_, {left, step_list(ctx_, rows.of_patches), x});
      }
    }
    ops::scatter_rows(ctx_, {tokens, step_list(ctx_, rows.of_tokens), x});
    const Tensor begin = corner(rows.places[0], rows.places[1]),
                 end = corner(rows.places[2], rows.places[3]);
    ops::add_rows(ctx_, {begin, end, begin});
    ops::add_rows(ctx_, {x, begin, x});
    return x;
  }

 private:
  Tensor make(int64_t rows) { return ctx_.make({rows, d_model_}); }

  PageRows rows_of(const StepTensors& in) {
    const std::vector<int32_t> starts = frame_starts(ctx_, in);
    const Tensor frames = ctx_.on_host(in.encoder_frames);
    const int64_t patches = extras_.patches.count();
    PageRows out;
    for (size_t i = 0; i + 1 < starts.size(); ++i) {
      const int64_t count = starts[i + 1] - starts[i];
      // Without a page there is a row for each box.
      const bool page = count > in.host->encoder_seq_lens[i];
      add_page({frames.row<float>(starts[i]), page ? count - patches : count, frames.dim(1),
                page ? patches : 0},
               starts[i], extras_.patches.rows(), extras_.places, out);
    }
    return out;
  }

  // The embeddings of two edges.
  Tensor corner(const std::vector<int32_t>& across, const std::vector<int32_t>& down) {
    const Tensor out = make(std::ssize(across));
    ops::embedding(ctx_, {step_list(ctx_, across), step_list(ctx_, down), source_->across,
                          source_->down, 1.0f, 0, 0, out});
    return out;
  }

  Context& ctx_;
  int64_t d_model_;
  Extras extras_;
  std::optional<Source> source_;  // of the rank with the first layer
};

// --- Weights -------------------------------------------------------------------------------------

SideOptions side_options(SideOptions side, const Extras& extras, bool decoder) {
  LayerOptions& layer = side.layer;
  layer.names = {.self_attention = "layer.0.SelfAttention",
                 .self_norm = "layer.0.layer_norm",
                 .cross_attention = "layer.1.EncDecAttention",
                 .cross_norm = "layer.1.layer_norm",
                 .fc1 = decoder ? "layer.2.DenseReluDense.wi" : "layer.1.DenseReluDense.wi",
                 .gate = decoder ? "layer.2.DenseReluDense.wi_1" : "layer.1.DenseReluDense.wi_1",
                 .fc2 = decoder ? "layer.2.DenseReluDense.wo" : "layer.1.DenseReluDense.wo",
                 .final_norm = decoder ? "layer.2.layer_norm" : "layer.1.layer_norm"};
  if (extras.gated)
    layer.names.fc1 = decoder ? "layer.2.DenseReluDense.wi_0" : "layer.1.DenseReluDense.wi_0";
  layer.norm_kind = NormKind::kRms;
  layer.eps = extras.eps;
  for (AttentionOptions* o : {&layer.self_attention, &layer.cross_attention}) {
    o->scale = 1.0f;
    o->bias = Bias::kNone;
    o->names = {"q", "k", "v", "o"};
  }
  layer.feed_forward.gated = extras.gated;
  layer.feed_forward.bias = Bias::kNone;
  side.layers = "block";
  side.final_norm = "final_layer_norm";
  return side;
}

// Of an axis without biases all are 0. The first layer has the text's too, under another name.
ops::PositionBias bias_of(const Weights& encoder, const Build& b, const AxisBias& axis, bool text,
                          int heads) {
  const Range local = shard_range(heads, b.comm.rank(), b.comm.size());
  if (axis.place < 0) {
    const Tensor none({local.size(), 1}, DType::kF32);
    std::fill_n(none.data<float>(), none.size(), 0.0f);
    return {b.ctx.resident(none), 0};
  }
  const Weights own = encoder / "relative_bias" / "biases" / axis.place / kTable,
                of_layer = encoder / "block.0.layer.0.SelfAttention" / kTable;
  const Shape shape{axis.buckets.num_buckets, heads};
  const HostTensor table = one_of_tied(own, of_layer, shape, text);
  ops::PositionBias out =
      relative_position_bias(axis.buckets, to_float(table).reshape(shape), local);
  out.values = b.ctx.resident(out.values);
  return out;
}

std::optional<PageModel::Source> source_of(const Weights& root, const Build& b,
                                           const ModelConfig& c, const Extras& extras,
                                           const VocabParallelEmbedding& tokens) {
  if (!b.encoder_layers.has_first()) return std::nullopt;
  const Weights cells = root / "encoder" / "cell_2d_embedding";
  const auto table = [&](const char* name) {
    const Shape shape{extras.places, c.d_model};
    return b.ctx.resident(to_float((cells / name).get("weight", shape)).reshape(shape));
  };
  const Weights own = root / "patch_embed" / "proj",
                of_encoder = root / "encoder" / "embed_patches" / "proj";
  const Shape kernel{c.d_model, ImagePatches::kChannels, extras.patches.patch_height,
                     extras.patches.patch_width};
  const Weights& patches = own.find("weight", kernel) ? own : of_encoder;
  return PageModel::Source{tokens, PatchProjection(patches, b, c.d_model, extras.patches),
                           table("x_position_embeddings"), table("y_position_embeddings")};
}

std::unique_ptr<Model> make(const ModelConfig& c, const Weights& root, const Build& b) {
  const Extras extras = read_extras(c.reader());
  const Weights encoder = root / "encoder", decoder = root / "decoder";
  const TokenTables tables(root, root, c, TokenTables::Order::kEncoderDecoderHead);
  TokenEmbeddings tokens(tables, b, c);
  const float scale =
      c.tie_word_embeddings ? 1.0f / std::sqrt(static_cast<float>(c.d_model)) : 1.0f;
  Seq2Seq::Parts parts{{},
                       [&] { return Embeddings(tokens.decoder(), Positions::none()); },
                       [&] { return ParallelLMHead(tables.head, Tensor(), b, scale); }};
  SideOptions of_encoder = side_options(encoder_side(c, NormPlace::kPre), extras, false),
              of_decoder = side_options(decoder_side(c, NormPlace::kPre), extras, true);
  const auto bias = [&](Axis axis) {
    return bias_of(encoder, b, extras.axes[axis], axis == kText, c.encoder_attention_heads);
  };
  of_encoder.layer.self_attention.position_bias = bias(kText);
  of_encoder.layer.box_attention = BoxBiases{bias(kAcross), bias(kDown)};
  of_decoder.of_layer = [biases = relative_position_biases(
                             decoder / "block", std::string("layer.0.SelfAttention.") + kTable, b,
                             c.decoder_layers, /*of_each=*/false, c.decoder_attention_heads,
                             extras.decoder)](int i, LayerOptions& layer) {
    layer.self_attention.position_bias = biases.at(static_cast<size_t>(i));
  };
  // What HuggingFace's file has besides is not used, or has two names.
  (encoder / "block.0.layer.0.SelfAttention" / kTable).find_any("weight");
  for (const char* unused : {"relative_bias", "embed_patches", "cell_2d_embedding"})
    (decoder / unused).skip();
  (encoder / "embed_patches").skip();
  return std::make_unique<PageModel>(c, b, std::move(parts), encoder, of_encoder, decoder,
                                     of_decoder, extras,
                                     source_of(root, b, c, extras, tokens.encoder()));
}

}  // namespace udop

ModelFamily udop_family() {
  using namespace udop;
  return {.model_type = "udop",
          .architectures = {"UdopForConditionalGeneration"},
          .base = "udop",
          .special_tokens = {.pad = 0, .eos = 1, .decoder_start = 0},
          .read_config = read_config,
          .limits = limits,
          .make = make};
}

}  // namespace tandem
