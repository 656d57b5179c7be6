// The program's view of a model family. A family is one file of
// models/families that fills in a ModelFamily, and one line in families.cc. Its name occurs nowhere
// else. See docs/models.md.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "models/answer_form.h"
#include "models/config/config_reader.h"
#include "models/config/decoder_prompt.h"
#include "models/config/encoder_decoder.h"
#include "models/config/limits.h"
#include "models/model.h"
#include "models/task.h"
#include "text/tokenizer.h"
#include "text/tokenizer_rule.h"

namespace tandem {

// The input of an encoder. `limits` has the frames' width and the resulting length, also of those
// beside ids.
enum class EncoderInput : uint8_t { kTokenIds, kFrames };

// A text beside an image, on its way to the tokenizer.
struct ImageText {
  std::string text;
  bool add_special = true;  // what the tokenizer puts around texts
};
struct ImageTextContext {
  const ModelConfig& config;
  bool has_image = true;  // false: the text is alone
  int64_t image_positions = 0;
  std::function<std::string(int32_t id)> token_of;  // the content of a special token
};

struct ModelFamily {
  // For checkpoints whose files do not name them. -1: none.
  struct SpecialTokens {
    int bos = -1, pad = -1, eos = -1, decoder_start = -1;
  };

  std::string model_type;  // of config.json
  // Classes of HuggingFace that `make` builds. If config.json names none of them the first one
  // counts: HuggingFace goes by model_type.
  std::vector<std::string> architectures;
  // The prefix of tensor names in checkpoints with a head (base_model_prefix of HuggingFace's
  // class). Checkpoints without a head lack it. Both forms are found.
  std::string base = "model";
  EncoderInput encoder_input = EncoderInput::kTokenIds;
  SpecialTokens special_tokens = {};
  // Fills in the sizes of the configuration. Throws InputError naming the key. By default the
  // common keys, none of which is needed.
  void (*read_config)(const ConfigReader& in, ModelConfig& out) =
      [](const ConfigReader& in, ModelConfig& out) { read_encoder_decoder(in, {}, out); };
  // Changes the generation settings of a class that does not go by its files' alone.
  void (*change_generation)(const ConfigReader& in, nlohmann::json& settings) = nullptr;
  ModelLimits (*limits)(const ModelConfig& config) = encoder_decoder_limits;
  TaskSet (*tasks)(const ModelConfig& config) = tasks_of_class;
  // Of encoders that read ids and images: the text with the tokens that stand for the image, as
  // HuggingFace's processor makes it of what a user writes. Throws InputError. nullptr: texts stay
  // as they are.
  ImageText (*image_text)(const std::string& text, const ImageTextContext& context) = nullptr;
  // What the answers are besides texts. `text`: what a user writes beside an image. Throws
  // InputError naming the file. nullptr: nothing.
  AnswerForm (*answer_form)(const ModelConfig& config, const std::string& text) = nullptr;
  int default_labels = 2;  // of a class that classifies, if config.json does not say
  DecoderPromptRule decoder_prompt = plain_decoder_prompt;
  std::vector<std::string> speech_prompt = {};  // models/config/decoder_prompt.h
  ShiftRule shift = start_before_source;
  std::vector<TokenizerRule> tokenizers = {};
  // nullptr: the family has only a tokenizer.
  std::unique_ptr<Model> (*make)(const ModelConfig& config, const Weights& weights,
                                 const Build& build) = nullptr;
};

// For families outside this repository; takes the place of one of the same model_type. Call it
// before anything is loaded; not thread-safe.
void register_family(ModelFamily family);

// nullptr if there is none.
const ModelFamily* family_of_type(std::string_view model_type);
const ModelFamily* family_of_architecture(std::string_view architecture);
// Whether there is a family that builds the model.
bool is_supported(const ModelConfig& config);
// The family that builds the model. Throws InputError naming the architecture and the existing
// ones, or the unsupported part of config.json (quantization_config).
const ModelFamily& find_family(const ModelConfig& config);
std::vector<std::string> architectures();

// The rules of all families, and a tokenizer with them.
std::vector<TokenizerRule> tokenizer_rules();
std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& directory);

}  // namespace tandem
