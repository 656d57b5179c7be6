// HuggingFace's interfaces of text: text-generation-inference's (POST /, /generate,
// /generate_stream, /info), and the tasks of its inference endpoints (/pipeline/TASK), as
// huggingface_hub's InferenceClient uses them: fields, answers, errors.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/api/application.h"
#include "server/api/generation/answer_format.h"
#include "server/api/generation/generation_request.h"
#include "server/http/http.h"

namespace tandem::server {

// Whether a request is one of these interfaces'.
bool is_huggingface_request(const HttpRequest& request);
// An error of such a request is {"error": a text, "error_type"}, with text-generation-inference's
// statuses: 422 for a wrong field, 424 for a fault of the engine.
void as_huggingface_error(const HttpRequest& request, HttpResponse& response);
// The same of an error inside of a stream: the JSON alone.
std::string huggingface_error_body(const proto::Error& error);

// What an answer needs to know of its request.
struct HuggingFaceAnswer {
  std::vector<std::string> keys = {"generated_text"};  // that the text stands under
  bool listed = false;  // [{…}, …]: an object for each input and sequence; otherwise there is one
  bool several = false;  // inputs is a list: with several sequences there is a list for each
  int sequences = 1;     // of each input
  bool details = false, prefill = false;
  int best_of = 1;               // sequences, of which the likeliest is the answer
  std::optional<uint64_t> seed;  // nothing: none was needed, or the model says that it samples
};

struct HuggingFaceRequest {
  GenerationRequest generation;
  HuggingFaceAnswer answer;
};

enum class HuggingFaceKind : uint8_t {
  kGenerate,  // one text, one object
  kStream,    // one text, events
  kRoot,      // POST /: either, as `stream` says, or a list
  kPipeline,  // a text or a list of them
};
// Throws InputError naming the field as the client calls it ("parameters.top_p"). task: of a
// pipeline, "summarization"; else empty.
HuggingFaceRequest parse_huggingface(nlohmann::json body, HuggingFaceKind kind,
                                     const std::string& task, const AppContext& app);
// The key of a pipeline's text ("summary_text"); empty: no such pipeline of texts.
std::string_view text_key_of(std::string_view task);

// The objects that requests may have beside their inputs: taken out of the body, without members
// that are null. Each name in them is `prefix` and itself for `names`.
nlohmann::json take_parameters(nlohmann::json& body, const char* field, const std::string& prefix,
                               FieldNames& names);
// Members of the object `field` of parameters become parameters. Throws InputError for one that is
// there already.
void unfold(nlohmann::json& parameters, const char* field, FieldNames& names);

// tokenizer: outlives it.
std::unique_ptr<AnswerFormat> huggingface_format(HuggingFaceAnswer answer,
                                                 const Tokenizer& tokenizer);

}  // namespace tandem::server
