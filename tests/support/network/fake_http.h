// The server without sockets and without an engine: an Exchange that keeps the answer, and an
// engine whose news the test writes. One thread.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "runtime/protocol/json/options_reader.h"
#include "runtime/protocol/json/prompt_reader.h"
#include "server/api/application.h"
#include "server/http/body/form.h"
#include "server/http/errors.h"
#include "tests/text/fake_tokenizer.h"

namespace tandem::test {

// What the engine is asked, as text: prompts without the names of their fields.
inline std::string shown(const proto::GenerationOptions& options) {
  return options.ShortDebugString();
}
inline std::string shown(proto::Prompt prompt) {
  prompt.mutable_encoder()->clear_field();
  if (prompt.has_decoder()) prompt.mutable_decoder()->clear_field();
  if (prompt.has_target()) prompt.mutable_target()->clear_field();
  return prompt.ShortDebugString();
}
// The same of JSON.
inline std::string options(const nlohmann::json& params) { return shown(read_options(params)); }
inline std::string prompt(const nlohmann::json& json) { return shown(read_prompt(json)); }

class FakeExchange final : public server::Exchange {
 public:
  FakeExchange(std::string method, std::string path, std::string body = {},
               server::Headers headers = {}) {
    request_.method = std::move(method);
    const size_t query = path.find('?');
    if (query != path.npos) request_.query = path.substr(query + 1);
    request_.path = path.substr(0, query);
    request_.body = std::move(body);
    request_.headers = std::move(headers);
    request_.trace = server::trace_of(request_.header("traceparent"));
    request_.id = "rid";
    request_.remote = "192.0.2.1";
  }

  // As a connection does: a form is taken apart. Throws InputError.
  void read_form() {
    const std::string* type = request_.header("content-type");
    if (type == nullptr || type->rfind("multipart/", 0) != 0) return;
    request_.form = server::read_form(std::exchange(request_.body, {}), server::boundary_of(*type));
  }

  const server::HttpRequest& request() const override { return request_; }
  std::string take_body() override { return std::exchange(request_.body, {}); }
  void respond(server::HttpResponse response) override {
    EXPECT_FALSE(head) << "a second answer";
    head = std::move(response);
    ended = true;
  }
  void start_stream(server::HttpResponse response) override {
    EXPECT_FALSE(head);
    head = std::move(response);
  }
  void start_socket(server::HttpResponse response, OnMessage on_message) override {
    EXPECT_FALSE(head);
    head = std::move(response);
    say = std::move(on_message);
  }
  void hold(bool value) override { held = value; }
  void end_socket(uint16_t code, std::string) override {
    close_code = code;
    ended = true;
  }
  void write(std::string data) override {
    EXPECT_TRUE(head && !ended);
    if (say) return messages.push_back(std::move(data));
    stream += data;
  }
  void end() override {
    EXPECT_FALSE(ended);
    ended = true;
  }
  void on_gone(std::function<void()> callback) override { gone = std::move(callback); }
  void on_ending(std::function<void()> callback) override { ending = std::move(callback); }
  void post(std::function<void()> f) override { posted.push_back(std::move(f)); }

  void run_posted() {
    while (!posted.empty()) {
      const auto f = std::move(posted.front());
      posted.pop_front();
      f();
    }
  }
  int status() const { return head ? head->status : 0; }
  nlohmann::json json() const { return json_from<nlohmann::json>(head ? head->body : ""); }
  std::string error_param() const {
    const auto param = json().at("error").at("param");
    return param.is_null() ? "" : param.get<std::string>();
  }
  const std::string* header(const std::string& name) const {
    for (const auto& [key, value] : head->headers)
      if (key == name) return &value;
    return nullptr;
  }
  // What stands behind "data: " in each event, which may have a name.
  std::vector<std::string> events() const {
    std::vector<std::string> out;
    for (size_t at = 0; at < stream.size();) {
      const size_t end = stream.find("\n\n", at);
      EXPECT_NE(end, std::string::npos) << "an event is not framed";
      if (end == std::string::npos) break;
      if (stream.compare(at, 7, "event: ") == 0) at = stream.find('\n', at) + 1;
      EXPECT_EQ(stream.compare(at, 6, "data: "), 0);
      out.push_back(stream.substr(at + 6, end - at - 6));
      at = end + 2;
    }
    return out;
  }

  std::optional<server::HttpResponse> head;
  std::string stream;
  OnMessage say;  // of a socket: what the client says
  std::vector<std::string> messages;
  bool held = false;
  uint16_t close_code = 0;
  bool ended = false;
  std::function<void()> gone, ending;
  std::deque<std::function<void()>> posted;

 private:
  server::HttpRequest request_;
};

class FakeEngineApi final : public EngineApi {
 public:
  void submit(Request request, OnChunk on_chunk) override {
    callbacks[request.id] = std::move(on_chunk);
    requests.push_back(std::move(request));
  }
  void cancel(const std::string& id) override {
    cancelled.push_back(id);
    proto::RequestChunk chunk;
    chunk.mutable_error()->set_type("cancelled");
    chunk.set_finished(true);
    callbacks.at(id)(chunk);
  }
  EngineStatus status() override { return state; }
  std::optional<proto::Error> refuse_unread() override { return full; }
  std::optional<proto::Error> full;
  bool enter_unread(const std::string& id, std::function<void()> on_turn) override {
    if (crowded) unread[id] = std::move(on_turn);
    return crowded;
  }
  void leave_unread(const std::string& id) override {
    left.push_back(id);
    unread.erase(id);
  }
  // The turn of one that waits.
  std::string call() {
    const auto node = unread.extract(unread.begin());
    node.mapped()();
    return node.key();
  }
  bool crowded = false;
  std::map<std::string, std::function<void()>> unread;  // by id
  std::vector<std::string> left;

  std::map<int32_t, std::string> token_texts;  // of tokens that are not "t5"
  std::vector<int32_t> decoder_prompt;         // that inputs have
  // News of request i: text and tokens of a sequence.
  void say(size_t i, const std::string& text, std::vector<int32_t> tokens,
           const std::string& finish = {}, int index = 0, bool last = true) {
    proto::RequestChunk chunk;
    if (!told_[i]) {
      told_[i] = true;
      for (int id = 0; id < 7; ++id) chunk.mutable_inputs()->add_encoder_prompt_token_ids(id);
      for (const int32_t id : decoder_prompt) chunk.mutable_inputs()->add_prompt_token_ids(id);
    }
    proto::CompletionChunk* news = chunk.add_outputs();
    news->set_index(index);
    news->set_text(text);
    for (const int32_t id : tokens) {
      news->add_token_ids(id);
      proto::TokenLogprob* token = news->add_logprobs()->add_top();
      token->set_token_id(id);
      token->set_logprob(-0.5f);
      const auto text_of_token = token_texts.find(id);
      token->set_decoded_token(text_of_token == token_texts.end() ? "t" + std::to_string(id)
                                                                  : text_of_token->second);
    }
    news->set_finish_reason(finish);
    chunk.set_finished(last && !finish.empty());
    callbacks.at(requests.at(i).id)(chunk);
  }
  void fail(size_t i, const std::string& type, const std::string& param = {}) {
    proto::RequestChunk chunk;
    chunk.mutable_error()->set_type(type);
    chunk.mutable_error()->set_message(param.empty() ? "because" : param + ": because");
    chunk.mutable_error()->set_param(param);
    chunk.set_finished(true);
    callbacks.at(requests.at(i).id)(chunk);
  }

  std::vector<Request> requests;
  std::map<std::string, OnChunk> callbacks;
  std::vector<std::string> cancelled;
  EngineStatus state;

 private:
  std::map<size_t, bool> told_;
};

// A server's application around them.
struct FakeServer {
  FakeServer() {
    config.model_names = {"model", "alias"};
    config.access_log = false;
    engine.state.ready = true;
  }
  std::shared_ptr<FakeExchange> ask(const std::string& method, const std::string& path,
                                    const std::string& body = {},
                                    const server::Headers& headers = {}) {
    auto exchange = std::make_shared<FakeExchange>(method, path, body, headers);
    exchanges.push_back(exchange);
    try {
      exchange->read_form();
      application.handle(exchange);
    } catch (const InputError& e) {  // the connection's answer
      exchange->respond(server::error_response(e));
    }
    exchange->run_posted();
    return exchange;
  }
  // As a connection does at its end: the callback refers to who refers to the exchange.
  ~FakeServer() {
    for (const auto& exchange : exchanges) {
      exchange->gone = exchange->ending = nullptr;
      exchange->say = nullptr;
      exchange->posted.clear();
    }
  }

  std::vector<std::shared_ptr<FakeExchange>> exchanges;
  server::ServerConfig config;
  FakeEngineApi engine;
  FakeTokenizer tokenizer;
  server::AppContext context{config, engine, tokenizer, 512, 3, "1.2.3", server::Metrics("model")};
  server::Application application{context};
};

}  // namespace tandem::test
