// The HTTP server without sockets: bytes through the parser and its bounds, then routes and bodies,
// up to the engine's own look at each request. The engine answers with a token for each sequence.
//
// An input that begins with '/' is a path, a line feed and the body of a POST (of forms: between
// boundaries "b"), so that mutations of bodies need no right Content-Length; any other is what a
// client sends. Those go through the
// parser whole and in small pieces, which must give the same requests.
#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log/log_text.h"
#include "runtime/protocol/json/options_reader.h"
#include "runtime/protocol/json/prompt_reader.h"
#include "runtime/request/params/params_resolver.h"
#include "runtime/request/prompt.h"
#include "runtime/request/request_json.h"
#include "server/api/application.h"
#include "server/http/body/form.h"
#include "server/http/body/request_body.h"
#include "server/http/body_budget.h"
#include "server/http/request_reader.h"
#include "tests/text/fake_tokenizer.h"

namespace tandem {
namespace {

using boost::system::error_code;
using nlohmann::json;
constexpr int kVocab = 259;  // of FakeTokenizer

// "event: name" may stand before the data.
void check_event(std::string_view event) {
  if (event.starts_with("event: ")) event.remove_prefix(event.find('\n') + 1);
  TANDEM_CHECK(event.starts_with("data: "));
  event.remove_prefix(6);
  TANDEM_CHECK(event == "[DONE]" || json_from<json>(event).is_object());
}

ModelConfig make_model(const char* model_type) {
  ModelConfig config;
  config.model_type = model_type;
  config.raw = json::object();
  config.max_position_embeddings = 64;
  config.bos_token_id = 0;
  config.decoder_start_token_id = 2;
  config.eos_token_id = {2};
  config.generation = {{"max_length", 20}, {"forced_eos_token_id", 2}};
  return config;
}

// Keeps the answer, and checks that it is one.
class Answer final : public server::Exchange {
 public:
  explicit Answer(server::HttpRequest request) : request_(std::move(request)) {}
  const server::HttpRequest& request() const override { return request_; }
  std::string take_body() override { return std::exchange(request_.body, {}); }
  void respond(server::HttpResponse response) override {
    TANDEM_CHECK(!begun_);
    TANDEM_CHECK(response.status >= 200 && response.status < 600);
    if (response.content_type == "application/json" && !response.body.empty()) {
      const json body = json_from<json>(response.body);
      if (response.status >= 400) {
        const json& error = body.at("error");
        TANDEM_CHECK(error.is_string() || error.at("message").is_string());
      }
    }
    begun_ = ended_ = true;
  }
  void start_stream(server::HttpResponse) override {
    TANDEM_CHECK(!begun_);
    begun_ = true;
  }
  void start_socket(server::HttpResponse, OnMessage on_message) override {
    TANDEM_CHECK(!begun_);
    begun_ = ended_ = true;
    on_message("{\"type\": \"input_audio_buffer.commit\"}");
  }
  void hold(bool) override {}
  void end_socket(uint16_t, std::string) override {}
  void write(std::string data) override {
    if (ended_) return;  // a socket's
    TANDEM_CHECK(begun_);
    TANDEM_CHECK(data.ends_with("\n\n"));
    for (size_t at = 0; at < data.size();) {
      const size_t end = data.find("\n\n", at);
      check_event(std::string_view(data).substr(at, end - at));
      at = end + 2;
    }
  }
  void end() override {
    TANDEM_CHECK(begun_ && !ended_);
    ended_ = true;
  }
  void on_gone(std::function<void()> callback) override { gone_ = std::move(callback); }
  void on_ending(std::function<void()>) override {}
  void post(std::function<void()> f) override { posted_.push_back(std::move(f)); }

  void run() {
    while (!posted_.empty()) {
      const auto f = std::move(posted_.front());
      posted_.pop_front();
      f();
    }
    TANDEM_CHECK(ended_);
    gone_ = nullptr;
  }

 private:
  server::HttpRequest request_;
  bool begun_ = false, ended_ = false;
  std::function<void()> gone_;
  std::deque<std::function<void()>> posted_;
};

// Looks at requests as the engine does, and answers at once.
class Engine final : public EngineApi {
 public:
  void submit(Request request, OnChunk on_chunk) override {
    proto::RequestChunk chunk;
    try {
      check_prompt(request.prompt);
      check_options(request.options);
      if (request.prompt.encoder().has_sound()) {
        say_sound(chunk);
        return on_chunk(std::move(chunk));
      }
      const bool global =
          request.prompt.encoder().has_global_attention() || request.options.has_global_attention();
      const PreparedPrompt prepared =
          preprocess(request.prompt, request.options, &tokenizer_, global ? led_ : model_,
                     global ? led_resolver_ : resolver_);
      const auto last = prepared.last_target_token;
      const proto::SamplingParams resolved =
          last ? resolver_.resolve_scoring(request.options, prepared.lengths, *last)
               : resolver_.resolve(request.options, prepared.lengths);
      *chunk.mutable_inputs() = prepared.inputs;
      for (int i = 0; i < 3; ++i) say(i, resolved, chunk);
    } catch (const InputError& e) {
      chunk.mutable_error()->set_type(api_name(e.kind()));
      chunk.mutable_error()->set_message(e.what());
      chunk.mutable_error()->set_param(e.param());
    }
    chunk.set_finished(true);
    on_chunk(std::move(chunk));
  }
  void cancel(const std::string&) override {}  // its last chunk is on its way
  EngineStatus status() override { return {.ready = true, .reason = "", .info = {}}; }

 private:
  static void say(int index, const proto::SamplingParams& params, proto::RequestChunk& chunk) {
    proto::CompletionChunk& news = *chunk.add_outputs();
    news.set_index(index);
    news.set_text("a\xf0");  // half a character
    news.add_token_ids(5);
    news.set_finish_reason("length");
    if (!params.has_logprobs()) return;
    proto::TokenLogprobs& logprobs = *news.add_logprobs();
    for (int i = 0; i < 2; ++i) {
      logprobs.add_top()->set_decoded_token("\xf0");
      logprobs.mutable_top(i)->set_logprob(-1.0f);
    }
  }

  static void say_sound(proto::RequestChunk& chunk) {
    chunk.set_language("<|de|>");
    chunk.mutable_progress()->set_seconds(1.5);
    proto::CompletionChunk& news = *chunk.add_outputs();
    news.set_text(" a\xf0 ");
    proto::SpeechSegment& segment = *news.add_segments();
    segment.set_text(" a\xf0 ");
    segment.set_end(1.5);
    segment.add_words()->set_word("\xf0");
    chunk.set_finished(true);
  }

  const ModelConfig model_ = make_model("bart"), led_ = make_model("led");
  const ParamsResolver resolver_{model_, kVocab}, led_resolver_{led_, kVocab};
  FakeTokenizer tokenizer_;
};

// The server, as long as the process.
struct Server {
  Server() {
    config.model_names = {"m"};
    config.prompt_template = "{system}: {user}";
    config.access_log = false;
    config.max_header_bytes = 2048;
    config.max_body_bytes = 64 * 1024;
    config.max_prompts = 16;
    config.allowed_origins = {"https://a"};
    context.speech_languages = {"de"};
  }
  void ask(server::HttpRequest request) {
    // POST / is a text's or a sound's, as the model is.
    const bool hears =
        request.path.find("/audio/") != std::string::npos || request.path.ends_with("-recognition");
    context.speech_tasks =
        hears ? std::vector<std::string>{"transcribe", "translate"} : std::vector<std::string>{};
    for (const char c : escape_field(request.path)) TANDEM_CHECK(c < 0 || (c >= ' ' && c != 0x7f));
    const server::Admission admission = application.admit(request);
    if (admission.refusal) TANDEM_CHECK(admission.refusal->status >= 200);
    request.memory = std::make_shared<server::BodyShare>(budget);
    answer(std::move(request));
    TANDEM_CHECK_EQ(context.prompts_under_way.load(), 0);
    TANDEM_CHECK_EQ(budget->used(), 0u);
  }

  // Null: it is refused.
  std::unique_ptr<server::RequestBody> body_of(const server::HttpRequest& head,
                                               server::RequestReader& reader) {
    try {
      auto body = std::make_unique<server::RequestBody>(
          head, head.path.starts_with("/v1/audio/"),
          server::BodyBound{config.max_body_bytes, "--max-body-size"},
          server::BodyPlaces{budget, budget}, reader.content_length());
      reader.read_into(body.get());
      return body;
    } catch (server::BodyRefused& refused) {
      TANDEM_CHECK(refused.take_answer().status >= 400);
      return nullptr;
    }
  }
  bool finish(server::RequestBody& body, server::HttpRequest& request) {
    try {
      while (body.work()) {
      }
      body.finish();
      body.write();
      body.give_to(request);
      request.memory = nullptr;  // it is counted anew
      if (request.form) request.form->disk = nullptr;
      return true;
    } catch (server::BodyRefused& refused) {
      TANDEM_CHECK(refused.take_answer().status >= 400);
      return false;
    }
  }

  void answer(server::HttpRequest request) {
    const auto answer = std::make_shared<Answer>(std::move(request));
    application.handle(answer);
    answer->run();
  }

  // Enough for most bodies, not for what some of them would be when they are parsed.
  const std::shared_ptr<server::BodyBudget> budget =
      std::make_shared<server::BodyBudget>(size_t{256} * 1024);
  server::ServerConfig config;
  Engine engine;
  FakeTokenizer tokenizer;
  server::AppContext context{config, engine, tokenizer, 64, 16, "1", server::Metrics("m")};
  server::Application application{context};
};

// Feeds the parser with more and more of the bytes, as a socket does; what it has read is taken
// away from them. Nothing: there is no whole request.
std::optional<server::HttpRequest> read_request(std::string_view& bytes, size_t piece,
                                                Server& server, bool& more) {
  server::RequestReader reader(server.config);
  std::optional<server::HttpRequest> request;
  std::unique_ptr<server::RequestBody> body;
  error_code ec;
  size_t there = 0;
  while (!ec && !reader.done() && (there < bytes.size() || there > 0)) {
    const size_t before = there;
    there = std::min(bytes.size(), there + piece);
    size_t used = 0;
    do {
      used = reader.feed(boost::asio::const_buffer(bytes.data(), there), ec);
      bytes.remove_prefix(used);
      there -= used;
      if (ec || !reader.has_header() || request) continue;
      const server::Refusal fault = reader.header_fault();
      TANDEM_CHECK(fault.status == 0 || (fault.status >= 400 && fault.status < 600));
      if (fault.status != 0) return std::nullopt;
      request = reader.head();
      reader.bound_body(server.config.max_body_bytes, "--max-body-size");
      if (reader.done()) continue;
      body = server.body_of(*request, reader);
      if (!body) return std::nullopt;
    } while (!ec && !reader.done() && used > 0 && there > 0);
    if (there == before && there == bytes.size()) break;  // no more comes
  }
  if (ec) {
    const server::Refusal refusal = reader.refusal_of(ec, false);
    TANDEM_CHECK(refusal.status == 0 || (refusal.status >= 400 && refusal.status < 600));
  }
  if (ec || !request || !reader.done()) return std::nullopt;
  more = reader.keep_alive();
  if (body && !server.finish(*body, *request)) request->body = "refused";
  return request;
}

std::vector<server::HttpRequest> requests_of(std::string_view bytes, size_t piece, Server& server) {
  std::vector<server::HttpRequest> requests;
  for (bool more = true; more;) {
    auto request = read_request(bytes, piece, server, more);
    if (!request) break;
    TANDEM_CHECK_LE(request->body.size(), server.config.max_body_bytes);
    requests.push_back(std::move(*request));
  }
  return requests;
}

}  // namespace
}  // namespace tandem

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tandem;
  static Server& server = *new Server;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (!bytes.empty() && bytes.front() == '/') {
    const size_t line = bytes.find('\n');
    server::HttpRequest request;
    request.method = "POST";
    request.path = std::string(bytes.substr(0, line));
    if (line != bytes.npos) request.body = std::string(bytes.substr(line + 1));
    request.id = "id";
    if (request.path.starts_with("/v1/audio/")) {
      request.headers = {{"content-type", "multipart/form-data; boundary=b"}};
      try {
        request.form = server::read_form(std::exchange(request.body, {}), "b");
      } catch (const InputError&) {
        return 0;
      }
    }
    server.ask(std::move(request));
    return 0;
  }
  const auto whole = requests_of(bytes, bytes.size() + 1, server);
  const auto pieces = requests_of(bytes, 7, server);
  // The parser looks for too large a header when it waits for more of it.
  if (size <= server.config.max_header_bytes) TANDEM_CHECK_EQ(whole.size(), pieces.size());
  for (size_t i = 0; i < std::min(whole.size(), pieces.size()); ++i) {
    TANDEM_CHECK(whole[i].method == pieces[i].method && whole[i].path == pieces[i].path &&
                 whole[i].headers == pieces[i].headers && whole[i].body == pieces[i].body);
    server.ask(whole[i]);
  }
  return 0;
}
