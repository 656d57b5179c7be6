// GPT-2 (Radford et al. 2019) with cross-attention: pre-norm layers, learned positions, a tied
// output embedding. Files have weights as [in, out], and queries, keys and values in one tensor.
#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "models/sides/sides.h"

namespace tandem {
namespace {

struct Gpt2 : SideSizes {
  int vocab_size = 0, positions = 0;
  float eps = 0;
  bool scaled_scores = true, scaled_by_layer = false, tied = true;
};

Gpt2 read_gpt2(const ConfigReader& in) {
  constexpr int kRows = ConfigReader::kMaxRows, kWidth = ConfigReader::kMaxWidth,
                kCount = ConfigReader::kMaxCount;
  Gpt2 out;
  out.vocab_size = size_or(in, "vocab_size", kRows, 50257);
  out.d_model = in.size("n_embd", kWidth, "hidden_size").value_or(768);
  out.layers = in.size("n_layer", kCount, "num_hidden_layers").value_or(12);
  out.heads = in.size("n_head", kCount, "num_attention_heads").value_or(12);
  out.ffn_dim = size_or(in, "n_inner", kWidth, 4 * out.d_model);
  out.positions = in.size("n_positions", kRows, "max_position_embeddings").value_or(1024);
  out.activation = in.activation("activation_function", "gelu_new");
  out.eps = in.positive("layer_norm_epsilon", 1e-5f);
  out.scaled_scores = in.flag("scale_attn_weights", true);
  out.scaled_by_layer = in.flag("scale_attn_by_inverse_layer_idx", false);
  out.tied = in.flag("tie_word_embeddings", true);
  check_heads(in, "n_head", out);
  return out;
}

// Finds linear layers by the names below in a file that has several of them side by side in one
// tensor [in, all out].
class TransposedSource final : public WeightSource {
 public:
  explicit TransposedSource(WeightSource& file) : file_(file) {}

  // Valid until the next call: who keeps a tensor copies it.
  const HostTensor* find(const std::string& name) override {
    for (const Part& part : kParts) {
      for (const std::string_view kind : {".weight", ".bias"}) {
        const std::string ending = std::string(part.name) + std::string(kind);
        if (!name.ends_with(ending)) continue;
        const std::string there =
            name.substr(0, name.size() - ending.size()) + part.stored + std::string(kind);
        const HostTensor* whole = file_.find(there);
        if (whole == nullptr) return nullptr;
        found_ = kind == ".bias" ? part_of_bias(*whole, part) : part_of_weight(*whole, part);
        found_.name = name;
        return &found_;
      }
    }
    return file_.find(name);
  }
  void skip(const std::string& beginning) override { file_.skip(beginning); }
  std::string location() const override { return file_.location(); }

 private:
  struct Part {
    const char* name;    // as layers call it
    const char* stored;  // as the file does
    int index, count;    // which part of that tensor it is
  };
  static constexpr std::array kParts = {Part{".attn.q", ".attn.c_attn", 0, 3},
                                        Part{".attn.k", ".attn.c_attn", 1, 3},
                                        Part{".attn.v", ".attn.c_attn", 2, 3},
                                        Part{".crossattention.q", ".crossattention.q_attn", 0, 1},
                                        Part{".crossattention.k", ".crossattention.c_attn", 0, 2},
                                        Part{".crossattention.v", ".crossattention.c_attn", 1, 2},
                                        Part{".attn.out", ".attn.c_proj", 0, 1},
                                        Part{".crossattention.out", ".crossattention.c_proj", 0, 1},
                                        Part{".mlp.fc1", ".mlp.c_fc", 0, 1},
                                        Part{".mlp.fc2", ".mlp.c_proj", 0, 1}};

  [[noreturn]] static void refuse(const HostTensor& t, const char* expected) {
    throw invalid_model(
        t.file, "tensor " + t.name + " has shape " + to_string(t.shape) + ", expected " + expected);
  }

  HostTensor part_of_bias(const HostTensor& stored, const Part& part) {
    if (stored.shape.size() != 1 || stored.shape[0] % part.count != 0)
      refuse(stored, "one of equal parts");
    HostTensor out = in_layer_type(stored);
    const int64_t width = out.shape[0] / part.count;
    out.bytes /= static_cast<size_t>(part.count);
    out.data += static_cast<size_t>(part.index) * out.bytes;
    out.shape = {width};
    return out;
  }

  HostTensor part_of_weight(const HostTensor& stored, const Part& part) {
    if (stored.shape.size() != 2 || stored.shape[1] % part.count != 0)
      refuse(stored, "[in, out] of equal parts");
    HostTensor out = in_layer_type(stored);
    const int64_t in = out.shape[0], all = out.shape[1], width = all / part.count;
    const size_t element = size_of(out.dtype);
    const auto turned = std::make_shared<Tensor>(Shape{width, in}, out.dtype);
    auto* to = reinterpret_cast<std::byte*>(turned->raw());
    constexpr int64_t kTile = 32;  // rows and columns that caches hold
    for (int64_t o0 = 0; o0 < width; o0 += kTile)
      for (int64_t i0 = 0; i0 < in; i0 += kTile)
        for (int64_t o = o0; o < std::min(width, o0 + kTile); ++o)
          for (int64_t i = i0; i < std::min(in, i0 + kTile); ++i)
            std::memcpy(to + static_cast<size_t>(o * in + i) * element,
                        out.data + static_cast<size_t>(i * all + part.index * width + o) * element,
                        element);
    out.data = to;
    out.bytes = turned->bytes();
    out.shape = {width, in};
    out.keep_alive = turned;
    return out;
  }

  WeightSource& file_;
  HostTensor found_;
};

SideOptions layers_of(const Gpt2& c) {
  SideOptions out = options_of(c, NormPlace::kPre, c.eps);
  out.layers = "h";
  out.final_norm = "ln_f";
  LayerOptions::Names& names = out.layer.names;
  names.self_attention = "attn";
  names.self_norm = "ln_1";
  names.cross_attention = "crossattention";
  names.cross_norm = "ln_cross_attn";
  names.fc1 = "mlp.fc1";
  names.fc2 = "mlp.fc2";
  names.final_norm = "ln_2";
  for (AttentionOptions* attention : {&out.layer.self_attention, &out.layer.cross_attention}) {
    attention->names = {"q", "k", "v", "out"};
    if (!c.scaled_scores) attention->scale = 1.0f;
  }
  if (c.scaled_by_layer)
    out.of_layer = [](int layer, LayerOptions& o) {
      for (AttentionOptions* attention : {&o.self_attention, &o.cross_attention})
        attention->scale /= static_cast<float>(layer + 1);
    };
  return out;
}

DecoderSide gpt2_decoder(const ConfigReader& in) {
  need_flag(in, "add_cross_attention", true, "the decoder does not read the encoder's states");
  const Gpt2 c = read_gpt2(in);
  DecoderSide out{c, c.vocab_size, c.positions};
  out.tied = c.tied;
  out.states_width = read_states_width(in, c, /*takes_any=*/false);
  out.options = layers_of(c);
  out.ends = [c](const Weights& w, const Build& b) {
    auto source = std::make_shared<TransposedSource>(w.source());
    const Weights layers = w / "transformer";
    for (int i = 0; i < c.layers; ++i)  // masks of old files
      for (const char* attention : {"attn", "crossattention"})
        for (const char* mask : {"bias", "masked_bias"})
          (layers / "h" / i / attention).find_any(mask);
    const TiedTables tables(layers / "wte", w / "lm_head", {c.vocab_size, c.d_model}, c.tied);
    const auto embeddings = [=, &b] {
      const Shape shape{c.positions, c.d_model};
      const Tensor rows = to_float((layers / "wpe").get("weight", shape)).reshape(shape);
      return Embeddings(VocabParallelEmbedding(tables.tokens, b, 1.0f),
                        Positions::of_rows(b, rows, 0));
    };
    return DecoderSide::Ends{Weights(*source, layers.scope()),
                             embeddings,
                             [=, &b] { return ParallelLMHead(tables.head, {}, b); },
                             {},
                             std::move(source)};
  };
  return out;
}

}  // namespace

SideClass gpt2_side() { return {"gpt2", nullptr, gpt2_decoder}; }

}  // namespace tandem
