// Whether a request's text is computed in parts, and in which (docs/documents.md).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/protocol/tandem.pb.h"
#include "runtime/request/document.h"
#include "runtime/request/params/params_resolver.h"
#include "text/tokenizer.h"

namespace tandem {

struct PreparedDocument {
  proto::Prompt prompt;              // the request's; its text is the document
  proto::GenerationOptions options;  // of each part
  Merge merge = Merge::kJoin;
  SplitDocument document;
  // Of kSummary: the chunks of the next round's text. Any thread.
  std::function<std::vector<std::string>(const std::string& text)> chunks = {};
};

// Absent: the request is computed as it is. That is so without `split` and with "none". With "auto"
// it is so if the text fits the model, is blank, or comes with a decoder prompt, a target, pooling
// or a truncation. With "sentences" or "paragraphs" these four are an InputError that names the
// field. tokenizer and resolver outlive the plan.
std::optional<PreparedDocument> plan_document(const proto::Prompt& prompt,
                                              const proto::GenerationOptions& options,
                                              const Tokenizer& tokenizer,
                                              const ParamsResolver& resolver);

}  // namespace tandem
