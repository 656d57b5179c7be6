// Token ids among the parameters (params_tokens.h).
#include "runtime/request/params_tokens.h"

#include <algorithm>

namespace tandem {

namespace {

using Options = GenerationOptions;

template <class Repeated>
void assign(const Ids& ids, Repeated* out) {
  out->Assign(ids.begin(), ids.end());
}

bool subset(const auto& inner, const auto& outer) {
  Ids sorted(outer.begin(), outer.end());
  std::sort(sorted.begin(), sorted.end());
  return std::all_of(inner.begin(), inner.end(), [&](int32_t id) {
    return std::binary_search(sorted.begin(), sorted.end(), id);
  });
}

// HuggingFace refuses to force a token that is suppressed too: nothing would be left to choose.
void check_forced(const proto::SamplingParams& out) {
  const auto refuse = [](const char* name) {
    throw conflict(name, "is in suppress_tokens too: nothing would be left to choose");
  };
  const Ids bos(out.has_forced_bos_token_id() ? 1 : 0, out.forced_bos_token_id());
  if (!bos.empty() && subset(bos, out.suppress_tokens())) refuse("forced_bos_token_id");
  if (!out.forced_eos_token_id().empty() &&
      subset(out.forced_eos_token_id(), out.suppress_tokens()))
    refuse("forced_eos_token_id");
  if (!out.allowed_token_ids().empty() && subset(out.allowed_token_ids(), out.suppress_tokens()))
    refuse("allowed_token_ids");
}

}  // namespace

void set_tokens(const Sources& s, const ModelConfig& config, proto::SamplingParams& out) {
  if (const auto& words = s(&Options::bad_words_ids))
    for (const Ids& ids : *words) assign(ids, out.add_bad_words_ids()->mutable_ids());
  if (const auto& ids = s(&Options::allowed_token_ids))
    assign(*ids, out.mutable_allowed_token_ids());
  if (const auto& ids = s(&Options::suppress_tokens)) assign(*ids, out.mutable_suppress_tokens());
  if (const auto& ids = s(&Options::begin_suppress_tokens))
    assign(*ids, out.mutable_begin_suppress_tokens());
  if (const auto& id = s(&Options::forced_bos_token_id))
    out.set_forced_bos_token_id(static_cast<int32_t>(*id));
  if (const auto& ids = s(&Options::forced_eos_token_id))
    assign(*ids, out.mutable_forced_eos_token_id());
  const auto& eos = s(&Options::eos_token_id);
  if (eos) {
    assign(*eos, out.mutable_eos_token_id());
  } else if (!s.request.eos_token_id.given) {
    for (const int id : config.eos_token_id)
      if (id >= 0) out.add_eos_token_id(id);
  }
  // A forced BOS, if the sequence starts with one token, comes before the first free choice.
  const bool bos_follows = s.prompt_len() == 1 && out.has_forced_bos_token_id();
  out.set_begin_index(static_cast<int32_t>(s.prompt_len()) + (bos_follows ? 1 : 0));
  if (const auto& bias = s(&Options::logit_bias))
    for (const auto& [id, value] : *bias) (*out.mutable_logit_bias())[id] = value;
  if (const auto& biases = s(&Options::sequence_bias))
    for (const auto& [ids, value] : *biases) {
      auto* message = out.add_sequence_bias();
      assign(ids, message->mutable_ids());
      message->set_bias(value);
    }
  check_forced(out);
}

}  // namespace tandem
