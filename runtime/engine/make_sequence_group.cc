#include "runtime/engine/make_sequence_group.h"

#include <utility>
#include <vector>

#include "base/error.h"
#include "runtime/protocol/encoder_input.h"
#include "runtime/protocol/pooling_kind.h"

namespace tandem {
namespace {

// Ascending positions of the encoder's sequence.
void check_global_attention(const proto::EncoderDecoderInputs& inputs) {
  int32_t before = -1;
  for (const int32_t at : inputs.global_attention()) {
    if (at <= before || at >= encoder_length(inputs))
      throw invalid_request("inputs.global_attention", "position " + std::to_string(at) + " of " +
                                                           std::to_string(encoder_length(inputs)) +
                                                           ", or not ascending");
    before = at;
  }
}

}  // namespace

std::unique_ptr<SequenceGroup> make_sequence_group(const proto::AddRequest& request) {
  std::vector<std::unique_ptr<Sequence>> seqs;
  const int n = num_sequences(request.sampling_params());
  const bool pools = request.sampling_params().has_pooling();
  const bool beams = !pools && uses_beams(request.sampling_params());
  const bool has_prompt = request.inputs().prompt_token_ids_size() > 0;
  if (pools && (request.seqs_size() != 1 || request.seqs(0).output_token_ids_size() > 0 ||
                has_prompt == pools_encoder(request.sampling_params())))
    throw invalid_request("seqs",
                          "a request that is pooled has one sequence, without tokens, or with a "
                          "prompt for the model's head");
  if (beams && request.seqs_size() != n)
    throw invalid_request(
        "seqs", std::to_string(request.seqs_size()) + " of " + std::to_string(n) + " beams");
  const proto::EncoderDecoderInputs& inputs = request.inputs();
  if (encoder_length(inputs) < 0)
    throw invalid_request("inputs.encoder_frames.length",
                          std::to_string(encoder_length(inputs)) + " is negative");
  check_global_attention(inputs);
  for (const proto::SequenceStart& start : request.seqs()) {
    if (start.index() < 0 || start.index() >= n)
      throw invalid_request(
          "seqs.index", std::to_string(start.index()) + " of " + std::to_string(n) + " sequences");
    auto seq = std::make_unique<Sequence>(request.first_seq_id() + start.index(), request.inputs(),
                                          /*from_decoder_prompt=*/true, start.index());
    if (beams && start.output_token_ids_size() > 0)
      throw invalid_request("seqs.output_token_ids", "a beam search starts without tokens");
    for (const int32_t token : start.output_token_ids()) seq->append_token(token);
    seqs.push_back(std::move(seq));
  }
  auto encoder = std::make_unique<Sequence>(request.first_seq_id() + n, request.inputs(),
                                            /*from_decoder_prompt=*/false);
  return std::make_unique<SequenceGroup>(request.request_id(), std::move(seqs), std::move(encoder),
                                         request.sampling_params(), request.arrival_time(),
                                         request.priority());
}

}  // namespace tandem
