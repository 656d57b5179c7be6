// The JSONL contracts of `tandem classify`, `tandem answer` and `tandem embed`
// (docs/classifying.md).
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "runtime/protocol/tandem.pb.h"
#include "runtime/request/request_json.h"

namespace tandem {

// {"id", "text", "text_pair"?} or {"id", "prompt_token_ids"}, with "params" and "priority" as in
// request_from_json(); `defaults` are params under those of the line. The prompt pools as `pooling`
// says; the params "pooling" and "normalize" change that of an encoder's. Throws InputError naming
// the field.
JsonRequest head_request_from_json(const nlohmann::json& line, const proto::Pooling& pooling,
                                   const nlohmann::json& defaults = nlohmann::json::object());
// The same of texts that are there. second: null: there is none.
proto::Prompt head_prompt(const std::string& text, const std::string* second,
                          const proto::Pooling& pooling);

// Throw InputError (kInternal): the output is that of another task.
// {"id", "logits", "probs", "label"}
nlohmann::json classification_to_json(const proto::RequestOutput& output, const nlohmann::json& id);
// {"id", "start_logits", "end_logits", "best_span"}: the span's first token and its last, whose
// logits have the largest sum.
nlohmann::json answer_to_json(const proto::RequestOutput& output, const nlohmann::json& id);
// {"id", "embedding"}
nlohmann::json embedding_to_json(const proto::RequestOutput& output, const nlohmann::json& id);

}  // namespace tandem
