// Scores of targets, from the outputs of their requests.
#include <cmath>

#include "client/tandem_client.h"

namespace tandem::client {

Score score_of(const proto::RequestOutput& output) {
  const proto::EncoderDecoderInputs& inputs = output.inputs();
  const int fed = inputs.prompt_token_ids_size(), start = inputs.target_start();
  if (!inputs.has_target_start() || !output.finished() || start < 1 || start > fed ||
      output.outputs_size() != 1 || output.outputs(0).token_ids_size() != 1 ||
      output.outputs(0).logprobs_size() != 1 || output.prompt_logprobs_size() != fed - 1)
    throw ClientError("invalid_request_error", "target: the output is not that of one", "target");
  Score score;
  const auto add = [&](int32_t token, const proto::TokenLogprobs& logprobs) {
    if (logprobs.top_size() < 1 || logprobs.top(0).token_id() != token)
      throw ClientError("protocol_error", "target: log-probabilities of other tokens");
    score.token_ids.push_back(token);
    score.logprobs.push_back(logprobs.top(0).logprob());
    score.top.push_back(logprobs);
    score.sum += logprobs.top(0).logprob();
  };
  for (int i = start; i < fed; ++i) add(inputs.prompt_token_ids(i), output.prompt_logprobs(i - 1));
  add(output.outputs(0).token_ids(0), output.outputs(0).logprobs(0));
  score.mean = score.sum / static_cast<double>(score.logprobs.size());
  score.perplexity = std::exp(-score.mean);
  return score;
}

Score Client::score(const Prompt& source, const Prompt& target, bool append_eos) {
  return score_of(submit({.prompt = Prompt::with_target(source, target, append_eos)}).get());
}

}  // namespace tandem::client
