// Text ↔ token ids.
#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "server/api/errors.h"
#include "server/api/generation/generation_request.h"
#include "server/api/json_body.h"
#include "server/api/routes.h"

namespace tandem::server {

namespace {

// language: of the text; empty: the tokenizer's own.
HttpResponse tokenized(const AppContext& app, const std::string& text, const std::string& language,
                       bool special, bool strings) {
  try {
    const std::vector<int32_t> ids = language.empty()
                                         ? app.tokenizer.encode(text, special)
                                         : app.tokenizer.encode_from(language, text, special);
    Json answer = {{"count", ids.size()}, {"max_model_len", app.max_model_len}, {"tokens", ids}};
    if (strings) {
      Json texts = Json::array();
      for (const int32_t id : ids) texts.push_back(app.tokenizer.token_bytes(id));
      answer["token_strs"] = texts;
    }
    return {.body = dump_ordered_line(answer)};
  } catch (const InputError& e) {
    return error_response(e);
  } catch (const std::exception&) {
    return error_response(500, "an error of the server");
  }
}

}  // namespace

void post_tokenize(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  nlohmann::json body = parse_body(exchange->request());
  check_model(app.config, body);
  const auto prompt = take_string(body, "prompt");
  if (!prompt) throw invalid_request("prompt", "is missing");
  const bool special = take_bool(body, "add_special_tokens").value_or(true);
  const bool strings = take_bool(body, "return_token_strs").value_or(false);
  const std::string language = take_options(body, {"src_lang", "source_lang"}).src_lang();
  refuse_rest(body);
  check_utf8(*prompt, "prompt");
  // Megabytes take a while; other connections share this thread.
  app.run_apart([&app, exchange, text = *prompt, language, special, strings] {
    HttpResponse response = tokenized(app, text, language, special, strings);
    exchange->post([exchange, response] { exchange->respond(response); });
  });
}

void post_detokenize(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  nlohmann::json body = parse_body(exchange->request());
  check_model(app.config, body);
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
                                          id.dump().substr(0, 40));
    ids.push_back(id.get<int32_t>());
  }
  exchange->respond({.body = dump_ordered_line({{"prompt", app.tokenizer.decode(ids, skip)}})});
}

}  // namespace tandem::server
