// Whisper (Radford et al. 2022): its tokenizer. The model reads frames, which is not built yet.
#include "models/family.h"

namespace tandem {

ModelFamily whisper_family() {
  TokenizerRule rule{"WhisperTokenizer", "whisper"};
  rule.special_tokens = class_tokens({{"bos_token", "<|endoftext|>"},
                                      {"eos_token", "<|endoftext|>"},
                                      {"unk_token", "<|endoftext|>"}});
  rule.single = {"<|startoftranscript|>", "<|notimestamps|>", "$A", "eos_token"};
  rule.pair = {"<|startoftranscript|>", "<|notimestamps|>", "$A", "$B", "eos_token"};
  rule.template_keys = {"language", "task", "predict_timestamps"};  // of the prefix
  return {.model_type = "whisper",
          .architectures = {"WhisperForConditionalGeneration"},
          .encoder_input = EncoderInput::kFrames,
          .tokenizers = {std::move(rule)}};
}

}  // namespace tandem
