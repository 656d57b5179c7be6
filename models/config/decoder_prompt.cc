#include "models/config/decoder_prompt.h"

#include "base/error.h"

namespace tandem {

using Ids = std::vector<int32_t>;

DecoderPrompt plain_decoder_prompt(const std::optional<Ids>& given,
                                   const DecoderPromptContext& context) {
  DecoderPrompt out;
  if (given) out.ids = *given;
  if (!out.ids.empty() && out.ids[0] == context.decoder_start) return out;
  if (context.decoder_start < 0)
    throw invalid_model("config.json", "neither decoder_start_token_id nor bos_token_id is given");
  out.ids.insert(out.ids.begin(), context.decoder_start);
  return out;
}

DecoderPrompt start_and_bos_prompt(const std::optional<Ids>& given,
                                   const DecoderPromptContext& context) {
  DecoderPrompt out = plain_decoder_prompt(given, context);
  if (!given && context.default_bos >= 0) {
    out.ids.push_back(context.default_bos);
    out.default_bos = true;
  }
  return out;
}

}  // namespace tandem
