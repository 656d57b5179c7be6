#include "models/config/decoder_prompt.h"

#include <algorithm>

#include "base/error.h"

namespace tandem {

using Ids = std::vector<int32_t>;

namespace {

InputError no_start_token() {
  return invalid_model("config.json", "neither decoder_start_token_id nor bos_token_id is given");
}

Ids shifted(std::span<const int32_t> source, int32_t first) {
  Ids out(source.begin(), source.end());
  std::rotate(out.begin(), out.end() - 1, out.end());
  out.front() = first;
  return out;
}

}  // namespace

DecoderPrompt plain_decoder_prompt(const std::optional<Ids>& given,
                                   const DecoderPromptContext& context) {
  DecoderPrompt out;
  if (given) out.ids = *given;
  if (!out.ids.empty() && out.ids[0] == context.decoder_start) return out;
  if (context.decoder_start < 0) throw no_start_token();
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

Ids start_before_source(std::span<const int32_t> source, const ModelConfig&, int decoder_start) {
  if (decoder_start < 0) throw no_start_token();
  return shifted(source, decoder_start);
}

// HuggingFace counts the ids that are no padding, wherever they stand.
Ids language_before_source(std::span<const int32_t> source, const ModelConfig& config, int) {
  const auto padding = std::count(source.begin(), source.end(), config.pad_token_id);
  const auto others = static_cast<size_t>(std::ssize(source) - padding);
  return shifted(source, source[others > 0 ? others - 1 : source.size() - 1]);
}

}  // namespace tandem
