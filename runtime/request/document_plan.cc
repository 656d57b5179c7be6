#include "runtime/request/document_plan.h"

#include <utility>

#include "base/error.h"
#include "runtime/request/longest_input.h"
#include "runtime/request/params/option_sources.h"
#include "runtime/request/prompt.h"

namespace tandem {
namespace {

Split split_of(const proto::GenerationOptions& options) {
  if (options.split() == "auto") return Split::kAuto;
  if (options.split() == "sentences") return Split::kSentences;
  if (options.split() == "paragraphs") return Split::kParagraphs;
  return Split::kNone;
}

// What in the request belongs to one text; "": nothing.
std::string bound_to_text(const proto::Prompt& prompt, const proto::GenerationOptions& options) {
  if (prompt.has_decoder()) return "a decoder prompt";
  if (prompt.has_target()) return "a target";
  if (prompt.has_pooling()) return "pooling";
  if (prompt.encoder().has_second()) return "text_pair";
  if (prompt.encoder().has_global_attention() || options.has_global_attention())
    return "global_attention";
  if (options.has_truncate_prompt_tokens()) return "truncate_prompt_tokens";
  if (options.has_prompt_logprobs()) return "prompt_logprobs";
  return "";
}

}  // namespace

std::optional<PreparedDocument> plan_document(const proto::Prompt& prompt,
                                              const proto::GenerationOptions& options,
                                              const Tokenizer& tokenizer,
                                              const ParamsResolver& resolver) {
  Split split = split_of(options);
  if (split == Split::kNone || !prompt.encoder().has_text()) return std::nullopt;
  if (const std::string other = bound_to_text(prompt, options); !other.empty()) {
    if (split == Split::kAuto) return std::nullopt;
    throw conflict("split", "\"" + options.split() + "\" makes parts of the text, and " + other +
                                " is of the whole; give one of them");
  }
  const size_t most = longest_input(tokenizer, resolver);
  const FitsModel fits = [=, &tokenizer, &resolver](std::string_view text) {
    proto::PromptPart part;
    part.set_text(std::string(text));
    return num_encoder_tokens(part, options, tokenizer, resolver) <= most;
  };
  const std::string& text = prompt.encoder().text();
  check_utf8(text, prompt.encoder().field());
  if (split == Split::kAuto) {
    if (fits(text)) return std::nullopt;
    split = Split::kSentences;
  }

  PreparedDocument out;
  out.prompt = prompt;
  out.options = options;
  out.options.clear_split();
  out.options.clear_merge();
  const std::string language = options.src_lang();
  if (options.merge() == "summary") {
    out.merge = Merge::kSummary;
    out.chunks = [=](const std::string& of) { return chunks_of(of, language, fits); };
    for (std::string& chunk : out.chunks(text))
      out.document.parts.push_back({"", std::move(chunk)});
  } else {
    out.document = split_document(text, split, language, fits);
  }
  if (out.document.parts.empty()) return std::nullopt;
  return out;
}

}  // namespace tandem
