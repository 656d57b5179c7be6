#include "runtime/request/params/language_rules.h"

#include <utility>

#include "base/error.h"
#include "base/strings/printable.h"
#include "models/config/model_uses.h"
#include "runtime/request/params/option_sources.h"

namespace tandem {
namespace {

using Options = proto::GenerationOptions;
using Target = LanguageSet::Rule::Target;

[[noreturn]] void contradict(const Options& options, int32_t id, const std::string& name,
                             const std::string& other) {
  throw conflict("tgt_lang", in_quotes(options.tgt_lang()) + " is token " + std::to_string(id) +
                                 ", but " + name + " is " + other + "; give one of them");
}

void check_own(const std::string& given, const std::string& own, const char* field,
               const char* direction) {
  const auto tag = language_tag(given);
  if (!tag || tag->language != own)
    throw invalid_request(field, in_quotes(given) + ": the model translates " + direction + own);
}

}  // namespace

OwnLanguages OwnLanguages::of(const ModelConfig& config, const LanguageSet& languages) {
  OwnLanguages out;
  const auto [source, target] = model_uses(config).language_pair;
  if (!languages.has_source()) {
    out.source = one_language(source);
    out.any_source = !source.empty() && out.source.empty();
  }
  if (languages.empty()) out.target = one_language(target);
  return out;
}

Options OwnLanguages::without(Options options) const {
  if (options.has_src_lang() && !source.empty())
    check_own(options.src_lang(), source, "src_lang", "from ");
  if (!source.empty() || any_source) options.clear_src_lang();
  if (options.has_tgt_lang() && !target.empty())
    check_own(options.tgt_lang(), target, "tgt_lang", "to ");
  if (!target.empty()) options.clear_tgt_lang();
  return options;
}

bool needs_target_language(const ModelConfig& config, const LanguageSet& languages) {
  const Target target = languages.target();
  if (target == Target::kNone || target == Target::kSourcePrefix || languages.names().size() < 2)
    return false;
  const ParamsResolver resolver(config, config.vocab_size);
  return !languages.is_language(resolver.model_forced_bos({})) &&
         !languages.is_language(resolver.decoder_start({}));
}

Options with_target_language(const proto::Prompt& prompt, Options options,
                             const LanguageSet& languages, const ParamsResolver& resolver) {
  if (!options.has_tgt_lang()) return options;
  const int32_t id = languages.id_of(options.tgt_lang(), "tgt_lang");
  if (languages.target() == Target::kSourcePrefix || prompt.has_pooling()) return options;
  if (options.has_forced_bos_token_id() && options.forced_bos_token_id() != id)
    contradict(options, id, "forced_bos_token_id", std::to_string(options.forced_bos_token_id()));
  if (languages.target() == Target::kDecoderPrompt) return options;
  bool forced = languages.target() == Target::kForcedBos;
  // Settings that force a language force the one that is asked for.
  if (!forced && !is_off(options, "forced_bos_token_id"))
    forced = options.has_forced_bos_token_id() ||
             languages.is_language(resolver.model_forced_bos(options));
  if (forced) {
    if (is_off(options, "forced_bos_token_id"))
      contradict(options, id, "forced_bos_token_id", "null");
    if (!prompt.has_target()) options.set_forced_bos_token_id(id);
    return options;
  }
  if (options.has_decoder_start_token_id() && options.decoder_start_token_id() != id)
    contradict(options, id, "decoder_start_token_id",
               std::to_string(options.decoder_start_token_id()));
  options.set_decoder_start_token_id(id);
  return options;
}

void add_source_prefix(const Options& options, const LanguageSet& languages,
                       std::vector<int32_t>& ids) {
  if (!options.has_tgt_lang() || languages.target() != Target::kSourcePrefix) return;
  const int32_t id = languages.id_of(options.tgt_lang(), "tgt_lang");
  const bool has_one = !ids.empty() && languages.is_language(ids.front());
  if (has_one && ids.front() != id)
    throw conflict("tgt_lang", in_quotes(options.tgt_lang()) +
                                   " is not the language that the prompt begins with; give one of "
                                   "them");
  if (!has_one) ids.insert(ids.begin(), id);
}

}  // namespace tandem
