// Encoders and decoders that are models by themselves. config.json of a composite model has an
// object for each side, whose model_type names the side's class.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/blocks/embeddings.h"
#include "models/blocks/head_transform.h"
#include "models/blocks/seq2seq.h"
#include "models/config/config_reader.h"

namespace tandem {

struct SideSizes {
  int d_model = 0, layers = 0, heads = 0, ffn_dim = 0;
  Activation activation = Activation::kGelu;
};

// An encoder of ids.
struct EncoderSide : SideSizes {
  int vocab_size = 0, positions = 0;
  std::optional<int32_t> position_padding = {};  // ModelLimits::position_padding
  SideOptions options = {};
  std::function<Embeddings(const Weights& w, const Build& b)> embeddings = {};
};

struct DecoderSide : SideSizes {
  // What stands before and behind the layers, as Seq2Seq::Parts, and the scope of these. The
  // functions are called while `w` and `b` of ends() exist.
  struct Ends {
    Weights layers;
    std::function<Embeddings()> embeddings;
    std::function<ParallelLMHead()> head;
    std::function<HeadTransform()> transform = {};  // empty: none
    std::shared_ptr<WeightSource> source = {};      // of `layers`, if it is not the checkpoint's
  };

  int vocab_size = 0, positions = 0;
  std::optional<int32_t> position_padding = {};  // ModelLimits::position_padding
  bool scaled = false, tied = true;
  // Features of the encoder's states that keys and values are made of, where config.json says so;
  // 0: d_model.
  int states_width = 0;
  SideOptions options = {};
  std::function<Ends(const Weights& w, const Build& b)> ends = {};
};

// A class of sides. nullptr: it is no such side.
struct SideClass {
  const char* model_type;
  EncoderSide (*encoder)(const ConfigReader& in);
  DecoderSide (*decoder)(const ConfigReader& in);
};

// The sides of an object of config.json. `types`: what the family takes, in the order of its error
// message; the first one stands for a missing model_type. Throw InputError naming the key.
EncoderSide read_encoder_side(const ConfigReader& in, const std::vector<std::string>& types);
DecoderSide read_decoder_side(const ConfigReader& in, const std::vector<std::string>& types);
// The model_type of the object: one of these.
std::string side_type(const ConfigReader& in, const std::vector<std::string>& types);

// --- For the classes of sides --------------------------------------------------------------------

// d_model is a multiple of the heads; `key` names them.
void check_heads(const ConfigReader& in, const char* key, const SideSizes& s);
// Throws unless the flag is `wanted`.
void need_flag(const ConfigReader& in, const char* key, bool wanted, const char* why);
SideOptions options_of(const SideSizes& s, NormPlace norms, float eps);
// cross_attention_hidden_size; 0: absent. takes_any: whether keys and values of the class can be
// made of another width than d_model.
int read_states_width(const ConfigReader& in, const SideSizes& s, bool takes_any);

}  // namespace tandem
