// The bodies of /v1/completions, /v1/chat/completions and /v2/translate: requests to the engine,
// and the format of the answer. Throws InputError naming the field.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "runtime/media/image/document_pages.h"
#include "runtime/protocol/tandem.pb.h"
#include "server/api/deepl/deepl.h"
#include "server/api/deepl/glossary_store.h"
#include "server/api/fields/field_names.h"
#include "server/api/fixed_languages.h"
#include "server/api/libretranslate/libretranslate.h"
#include "server/http/config.h"
#include "text/documents/translatable_document.h"
#include "text/languages.h"

namespace tandem::server {

enum class Endpoint { kCompletions, kChat, kTranslate, kLibreTranslate };

struct GenerationRequest {
  Endpoint endpoint = Endpoint::kCompletions;
  std::string model;
  std::string lora;  // the adapter that `model` names; empty: none
  std::vector<proto::Prompt> prompts;
  std::vector<std::string> echoes;  // of each prompt, if the text is to begin with it
  proto::GenerationOptions options;
  int sequences = 1;  // of each prompt
  bool stream = false;
  bool include_usage = false;     // a last chunk with the usage
  bool continuous_usage = false;  // in every chunk; with include_usage only
  bool return_token_ids = false;
  bool tokens_as_ids = false;  // in logprobs, "token_id:5" for a token's text
  bool logprobs = false, prompt_logprobs = false;
  int32_t priority = 0;
  double timeout = 0;                 // seconds; 0: none
  std::vector<PageRange> pages;       // of documents; none: all
  int dpi = kDefaultDpi;              // of their images
  std::string request_id;             // empty: the connection's
  FieldNames names;                   // that the client used
  std::string list_field = "prompt";  // that has the prompts
  // Of a translation:
  std::string source_language;     // empty: texts have none
  std::vector<size_t> characters;  // of each text
  DeeplOptions deepl;
  // Where markup stays or a glossary is used, each text: its own texts are the prompts.
  std::vector<TranslatableDocument> documents;
  LibreTranslateOptions libretranslate;
};

GenerationRequest parse_completion(nlohmann::json body, const ServerConfig& config);
GenerationRequest parse_chat(nlohmann::json body, const ServerConfig& config);
// What a translation's texts are, and what they need besides the body.
struct TranslationContext {
  const ServerConfig& config;
  const LanguageSet& languages;  // candidates for names in another spelling
  const GlossaryStore& glossaries;
  FixedLanguages fixed = {};
  // Of a file, whatever the body says; nothing: tag_handling's, else plain text.
  std::optional<DocumentFormat> format = {};
};
// A text has one translation, except in LibreTranslate's interface.
GenerationRequest parse_translation(nlohmann::json body, const TranslationContext& context);
// The request's documents, each of `sequences`, of the texts for each prompt.
std::vector<std::string> translated_documents(const GenerationRequest& request,
                                              const std::vector<std::string>& texts);

// What all endpoints have in common; the rest of the body becomes parameters, once there are
// prompts.
void take_common(nlohmann::json& body, const ServerConfig& config, GenerationRequest& r);
void set_options(nlohmann::json body, const ServerConfig& config, GenerationRequest& r);

// Takes "priority" and "timeout" (0: none) out of the body.
struct Urgency {
  int32_t priority = 0;
  double timeout = 0;
};
Urgency take_urgency(nlohmann::json& body, const ServerConfig& config);

// Takes the parameters of these names out of the body. names: gets the client's spellings.
proto::GenerationOptions take_options(nlohmann::json& body, FieldNames& names,
                                      std::initializer_list<const char*> options);
// The options of encode-only requests.
proto::GenerationOptions take_encoding_options(nlohmann::json& body, FieldNames& names);

InputError unknown_model(const ServerConfig& config, const std::string& name);
// Takes "model" out of the body: the name for the answer. It may be an adapter's, which `lora` gets
// then. Throws unknown_model().
std::string check_model(const ServerConfig& config, nlohmann::json& body, std::string& lora);
// The same, into the options of a request.
void set_lora(const std::string& lora, proto::GenerationOptions& options);

// The engine gets a field of the body once for each prompt. Throws InputError (field) if the copies
// would be many times the largest body.
void check_copies(size_t bytes, size_t copies, const ServerConfig& config, const char* field);

}  // namespace tandem::server
