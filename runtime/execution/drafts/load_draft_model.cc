#include "runtime/execution/drafts/load_draft_model.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/log/log.h"
#include "models/family.h"

namespace tandem {
namespace {

constexpr const char* kDraftFlag = "--draft-model";

[[noreturn]] void refuse_draft(const std::string& what) { throw invalid_model(kDraftFlag, what); }

void check_equal(const char* what, int64_t model, int64_t draft) {
  if (model != draft)
    refuse_draft(std::string(what) + " is " + std::to_string(draft) + ", but the model's is " +
                 std::to_string(model));
}

void check_positions(const char* side, std::optional<int> model, std::optional<int> draft) {
  if (draft && (!model || *draft < *model))
    refuse_draft("its " + std::string(side) + " has " + std::to_string(*draft) +
                 " positions, but the model's " +
                 (model ? "has " + std::to_string(*model) : std::string("has no limit")));
}

// Lengths of one frame, of a few and of very many agree if the rules do.
void check_draft_frames(const std::optional<FrameLimits>& model,
                        const std::optional<FrameLimits>& draft) {
  if (model.has_value() != draft.has_value())
    refuse_draft(draft ? "its encoder reads frames, but the model's reads token ids"
                       : "its encoder reads token ids, but the model's reads frames");
  if (!model) return;
  if (model->beside_ids.has_value() != draft->beside_ids.has_value())
    refuse_draft("one of the two reads token ids beside frames, the other does not");
  check_equal("the width of its encoder's frames", model->width, draft->width);
  for (int64_t count = 1; count < 10'000; count = count * 3 / 2 + 1)
    check_equal("the number of positions that its encoder makes of frames", model->length_of(count),
                draft->length_of(count));
}

// Weights that encode() reads: all but the decoder's and the head's.
bool is_encoders(std::string_view name) {
  if (name == "lm_head.weight" || name == "proj_out.weight" || name == "final_logits_bias")
    return false;
  return !name.starts_with("decoder.") && name.find(".decoder.") == std::string_view::npos;
}

bool is_copy_of_embeddings(std::string_view name) { return name.ends_with("embed_tokens.weight"); }

}  // namespace

void check_draft_model(const ModelConfig& model, const ModelConfig& draft) {
  check_equal("its vocab_size", model.vocab_size, draft.vocab_size);
  check_equal("its decoder_start_token_id", model.decoder_start_token_id,
              draft.decoder_start_token_id);
  if (model.eos_token_id != draft.eos_token_id) refuse_draft("it has another eos_token_id");
  const ModelLimits of_model = limits_of(model), of_draft = limits_of(draft);
  check_draft_frames(of_model.frames, of_draft.frames);
  check_equal("its encoder's vocabulary", of_model.encoder_vocabulary, of_draft.encoder_vocabulary);
  if (of_model.default_global_tokens.has_value() != of_draft.default_global_tokens.has_value())
    refuse_draft("one of the two has global attention, the other has not");
  check_positions("encoder", of_model.encoder_positions, of_draft.encoder_positions);
  check_positions("decoder", of_model.decoder_positions, of_draft.decoder_positions);
}

void check_draft_tokenizer(const std::filesystem::path& model, const std::filesystem::path& draft) {
  const auto of_model = load_tokenizer(model), of_draft = load_tokenizer(draft);
  check_equal("its tokenizer's number of tokens", of_model->size(), of_draft->size());
  for (int32_t id = 0; id < of_model->size(); ++id)
    if (of_model->token_bytes(id) != of_draft->token_bytes(id) ||
        of_model->is_special(id) != of_draft->is_special(id))
      refuse_draft("token " + std::to_string(id) + " of its tokenizer is not the model's");
}

bool have_same_encoder(const ModelConfig& model, const Checkpoint& of_model,
                       const ModelConfig& draft, const Checkpoint& of_draft) {
  const bool same_shape =
      model.architecture == draft.architecture && model.d_model == draft.d_model &&
      model.encoder_layers == draft.encoder_layers &&
      model.encoder_attention_heads == draft.encoder_attention_heads &&
      model.encoder_ffn_dim == draft.encoder_ffn_dim && model.activation == draft.activation &&
      model.scale_embedding == draft.scale_embedding;
  if (!same_shape) return false;
  return std::all_of(of_draft.tensors().begin(), of_draft.tensors().end(), [&](const auto& named) {
    const auto& [name, tensor] = named;
    if (!is_encoders(name)) return true;
    const auto other = of_model.tensors().find(name);
    if (other == of_model.tensors().end()) return is_copy_of_embeddings(name);
    return tensor.dtype_name() == other->second.dtype_name() &&
           tensor.shape == other->second.shape && tensor.bytes == other->second.bytes &&
           std::memcmp(tensor.data, other->second.data, tensor.bytes) == 0;
  });
}

LoadedDraftModel load_draft_model(const ModelConfig& model, const Checkpoint& of_model,
                                  const std::filesystem::path& draft, Build build,
                                  bool tokenizers) {
  const ModelConfig config = ModelConfig::load(draft);
  check_draft_model(model, config);
  if (tokenizers) check_draft_tokenizer(model.directory, draft);
  Checkpoint checkpoint = Checkpoint::open(draft);
  const bool same_encoder = have_same_encoder(model, of_model, config, checkpoint);
  if (same_encoder) build.encoder_layers = LayerRange::none();
  of_model.drop_pages();
  if (build.comm.rank() == 0)
    log_info("drafts by {} in {}{}", draft.string(), name_of(build.dtype),
             same_encoder ? ", which shares the encoder" : "");
  auto loaded = load_model(config, checkpoint, build);
  if (build.comm.rank() == 0)
    for (const std::string& line : load_warnings(config, checkpoint)) log_warning("{}", line);
  return {std::move(loaded), same_encoder, rows_of_a_step(build.ctx, build.dtype)};
}

}  // namespace tandem
