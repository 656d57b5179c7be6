#include "runtime/media/sound/windows/window_answer.h"

#include <zlib.h>

#include <cmath>

#include "base/check.h"

namespace tandem {

double WindowAnswer::compression_of(std::span<const int32_t> tokens, int vocab_size) {
  TANDEM_CHECK_GT(vocab_size, 0);
  if (tokens.empty()) return 0;
  const int length = static_cast<int>(std::log2(vocab_size) / 8) + 1;
  std::vector<Bytef> bytes;
  bytes.reserve(tokens.size() * static_cast<size_t>(length));
  for (const int32_t token : tokens)
    for (int i = 0; i < length; ++i)
      bytes.push_back(static_cast<Bytef>(static_cast<uint32_t>(token) >> (8 * i)));
  uLongf size = compressBound(static_cast<uLong>(bytes.size()));
  std::vector<Bytef> out(size);
  TANDEM_CHECK_EQ(compress(out.data(), &size, bytes.data(), static_cast<uLong>(bytes.size())),
                  Z_OK);
  return static_cast<double>(bytes.size()) / static_cast<double>(size);
}

Verdict judge(const WindowAnswer& answer, const TranscriptionParams& params) {
  const bool repeats = params.compression_ratio_threshold &&
                       answer.compression_ratio > *params.compression_ratio_threshold;
  const bool unsure = params.logprob_threshold && answer.avg_logprob &&
                      *answer.avg_logprob < *params.logprob_threshold;
  if (unsure && params.no_speech_threshold && answer.no_speech_prob &&
      *answer.no_speech_prob > *params.no_speech_threshold)
    return Verdict::kSilence;
  return repeats || unsure ? Verdict::kAgain : Verdict::kTake;
}

}  // namespace tandem
