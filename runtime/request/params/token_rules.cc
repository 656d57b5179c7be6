// Token ids among the parameters (token_rules.h).
#include "runtime/request/params/token_rules.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace tandem {

namespace {

using Ids = std::vector<int32_t>;

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

// Throws InputError where the model has no such tokens.
void set_timestamps(const ModelConfig& config, proto::SamplingParams& out) {
  const auto integer = [&](const char* key) -> std::optional<int32_t> {
    const auto it = config.generation.find(key);
    if (it == config.generation.end() || !it->is_number_integer() || *it < 0 ||
        *it >= config.vocab_size)
      return std::nullopt;
    return it->get<int32_t>();
  };
  const auto none = integer("no_timestamps_token_id");
  if (!none || out.eos_token_id().empty())
    throw not_supported("return_timestamps",
                        "generation_config.json has no no_timestamps_token_id: the model's tokens "
                        "say no times");
  proto::TimestampRules& rules = *out.mutable_timestamps();
  rules.set_no_timestamps(*none);
  rules.set_first(*none + 1);
  rules.set_end(out.eos_token_id(0));
  if (const auto most = integer("max_initial_timestamp_index")) rules.set_max_initial(*most);
}

}  // namespace

// HuggingFace makes a dictionary of the list: the last entry of a sequence counts, in the place of
// the first one; then it adds those of one token before the others.
void set_sequence_bias(const proto::SequenceBiases& biases, proto::SamplingParams& out) {
  std::map<Ids, proto::SequenceBias*> seen;
  google::protobuf::RepeatedPtrField<proto::SequenceBias> kept;
  for (const proto::SequenceBias& bias : biases.biases()) {
    proto::SequenceBias*& entry = seen[Ids(bias.ids().begin(), bias.ids().end())];
    if (entry == nullptr) entry = kept.Add();
    *entry = bias;
  }
  for (const bool single : {true, false})
    for (const proto::SequenceBias& bias : kept)
      if ((bias.ids_size() == 1) == single) *out.add_sequence_bias() = bias;
}

void set_tokens(const OptionSources& s, const ModelConfig& config, proto::SamplingParams& out) {
  const proto::GenerationOptions& both = s.both;
  *out.mutable_bad_words_ids() = both.bad_words_ids().lists();
  Ids allowed(both.allowed_token_ids().ids().begin(), both.allowed_token_ids().ids().end());
  std::sort(allowed.begin(), allowed.end());
  allowed.erase(std::unique(allowed.begin(), allowed.end()), allowed.end());
  out.mutable_allowed_token_ids()->Assign(allowed.begin(), allowed.end());
  *out.mutable_suppress_tokens() = both.suppress_tokens().ids();
  *out.mutable_begin_suppress_tokens() = both.begin_suppress_tokens().ids();
  if (both.has_forced_bos_token_id())
    out.set_forced_bos_token_id(static_cast<int32_t>(both.forced_bos_token_id()));
  *out.mutable_forced_eos_token_id() = both.forced_eos_token_id().ids();
  *out.mutable_eos_token_id() = both.eos_token_id().ids();
  if (!both.has_eos_token_id() && !is_off(s.request, "eos_token_id"))
    for (const int id : config.eos_token_id)
      if (id >= 0) out.add_eos_token_id(id);
  // A forced BOS, if the sequence starts with one token, comes before the first free choice.
  const bool bos_follows = s.prompt_len() == 1 && out.has_forced_bos_token_id();
  out.set_begin_index(static_cast<int32_t>(s.prompt_len()) + (bos_follows ? 1 : 0));
  *out.mutable_logit_bias() = both.logit_bias().of();
  set_sequence_bias(both.sequence_bias(), out);
  if (both.return_timestamps()) set_timestamps(config, out);
  check_forced(out);
}

}  // namespace tandem
