// Text ↔ token ids.
#include "base/error.h"
#include "base/json.h"
#include "base/strings/utf8.h"
#include "server/api/fields/json_body.h"
#include "server/api/generation/chat_messages.h"
#include "server/api/generation/generation_request.h"
#include "server/api/routes.h"
#include "server/http/errors.h"

namespace tandem::server {

namespace {

struct TokenizeRequest {
  std::string text;
  std::string language;  // of the text; empty: the tokenizer's own
  bool special = true, strings = false;
  FieldNames names;
};

// vLLM's two kinds: a prompt, or a chat's messages, which become the text that the encoder reads.
std::string take_text(nlohmann::json& body, const ServerConfig& config) {
  const auto messages = take(body, "messages");
  const auto prompt = take_string(body, "prompt");
  if (messages && prompt) throw invalid_request("messages", "and prompt: give one of them");
  if (prompt) {
    check_utf8(*prompt, "prompt");
    return *prompt;
  }
  if (!messages) throw invalid_request("prompt", "is missing");
  for (const char* name : {"add_generation_prompt", "chat_template_kwargs", "mm_processor_kwargs"})
    take(body, name);
  for (const char* name : {"continue_final_message", "chat_template", "tools"})
    if (const auto value = take(body, name); value && *value != false && !value->empty())
      throw not_supported(name, "is no part of this server's chats (--prompt-template)");
  proto::PromptPart part = read_messages(*messages, config.prompt_template);
  if (!part.has_text()) throw not_supported("messages", "an image has no tokens");
  check_utf8(part.text(), "messages");
  return part.text();
}

HttpResponse tokenized(const AppContext& app, const TokenizeRequest& request) {
  const auto& [text, language, special, strings, names] = request;
  try {
    const std::vector<int32_t> ids = language.empty()
                                         ? app.tokenizer.encode(text, special)
                                         : app.tokenizer.encode_from(language, text, special);
    Json answer = {{"count", ids.size()}, {"max_model_len", app.max_model_len}, {"tokens", ids}};
    if (strings) {
      Json texts = Json::array();
      for (const int32_t id : ids)
        texts.push_back(app.tokenizer.id_to_token(id).value_or(app.tokenizer.token_bytes(id)));
      answer["token_strs"] = texts;
    } else {
      answer["token_strs"] = nullptr;
    }
    return {.body = dump_ordered_line(answer)};
  } catch (const InputError& e) {
    return error_response(names.in(e));
  } catch (const std::exception&) {
    return error_response(500, "an error of the server");
  }
}

}  // namespace

void post_tokenize(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  nlohmann::json body = parse_body(exchange->request());
  std::string adapter;  // has the model's tokenizer
  check_model(app.config, body, adapter);
  TokenizeRequest request;
  request.text = take_text(body, app.config);
  request.special = take_bool(body, "add_special_tokens").value_or(true);
  request.strings = take_bool(body, "return_token_strs").value_or(false);
  request.language = take_options(body, request.names, {"src_lang", "source_lang"}).src_lang();
  refuse_rest(body);
  // Megabytes take a while; other connections share this thread.
  app.run_apart([&app, exchange, request] {
    HttpResponse response = tokenized(app, request);
    exchange->post([exchange, response] { exchange->respond(response); });
  });
}

void post_detokenize(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  nlohmann::json body = parse_body(exchange->request());
  std::string adapter;  // has the model's tokenizer
  check_model(app.config, body, adapter);
  const auto tokens = take(body, "tokens");
  const bool skip = take_bool(body, "skip_special_tokens").value_or(false);
  refuse_rest(body);
  if (!tokens || !tokens->is_array())
    throw invalid_request("tokens", "expected a list of token ids");
  std::vector<int32_t> ids;
  for (const nlohmann::json& id : *tokens) {
    if (!id.is_number_integer() || id < 0 || id >= app.tokenizer.size())
      throw invalid_request("tokens", "expected ids from 0 to " +
                                          std::to_string(app.tokenizer.size() - 1) + ", found " +
                                          json_text(id).substr(0, 40));
    ids.push_back(id.get<int32_t>());
  }
  exchange->respond({.body = dump_ordered_line({{"prompt", app.tokenizer.decode(ids, skip)}})});
}

}  // namespace tandem::server
