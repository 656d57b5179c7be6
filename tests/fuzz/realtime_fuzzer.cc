// Live transcription without sockets. An input that begins with '{' is a client's events, one a
// line, to a session whose engine answers some time later; any other is the bytes of a WebSocket
// after its handshake.
#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/beast/_experimental/test/stream.hpp>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/json.h"
#include "base/strings/utf8.h"
#include "server/api/application.h"
#include "server/http/sockets/web_socket.h"
#include "tests/text/fake_tokenizer.h"

namespace tandem {
namespace {

using nlohmann::json;
using Pipe = boost::beast::test::stream;

server::HttpRequest socket_request() {
  server::HttpRequest request;
  request.method = "GET";
  request.path = "/v1/realtime";
  request.headers = {{"host", "a"},
                     {"connection", "upgrade"},
                     {"upgrade", "websocket"},
                     {"sec-websocket-version", "13"},
                     {"sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="}};
  return request;
}

void run_frames(std::string_view bytes) {
  constexpr size_t kMost = 1000;
  boost::asio::io_context io;
  Pipe pipe(io), client(io);
  pipe.connect(client);
  // (Without work it stops.)
  const auto poll = [&io] {
    io.restart();
    io.poll();
  };
  bool ended = false;
  std::shared_ptr<server::WebSocket<Pipe>> socket;
  socket = std::make_shared<server::WebSocket<Pipe>>(
      pipe, nullptr, server::WebSocketLimits{.message_bytes = kMost, .unsent_bytes = 4 * kMost},
      server::WebSocket<Pipe>::Hooks{[&](const std::string& text) {
                                       TANDEM_CHECK(!ended && text.size() <= kMost);
                                       TANDEM_CHECK(find_invalid_utf8(text) == text.npos);
                                       if (text == "end") socket->close(1000, "");
                                       socket->send(text);
                                     },
                                     [&] { ended = true; }});
  socket->accept(socket_request(), {});
  poll();
  pipe.append({bytes.data(), bytes.size() / 2});
  poll();
  pipe.append({bytes.data() + bytes.size() / 2, bytes.size() - bytes.size() / 2});
  poll();
  client.close();
  poll();
  if (!ended) socket->abort();
  poll();
  TANDEM_CHECK(ended);
}

// The client's side of a session.
class Client final : public server::Exchange {
 public:
  explicit Client(server::HttpRequest request) : request_(std::move(request)) {}
  const server::HttpRequest& request() const override { return request_; }
  std::string take_body() override { return {}; }
  void respond(server::HttpResponse) override { TANDEM_CHECK(false, "the session was refused"); }
  void start_stream(server::HttpResponse) override {}
  void start_socket(server::HttpResponse, OnMessage on_message) override {
    say_ = std::move(on_message);
  }
  void hold(bool) override {}
  void end_socket(uint16_t, std::string) override { TANDEM_CHECK(false, "an error of the server"); }
  void write(std::string data) override {
    const json event = json_from<json>(data);
    TANDEM_CHECK(event.at("type").is_string() && event.at("event_id").is_string());
  }
  void end() override {}
  void on_gone(std::function<void()> callback) override { gone_ = std::move(callback); }
  void on_ending(std::function<void()>) override {}
  void post(std::function<void()> f) override { posted_.push_back(std::move(f)); }

  void say(std::string_view text) { say_(std::string(text)); }
  void run() {
    for (; !posted_.empty(); posted_.pop_front()) posted_.front()();
  }
  void go() {
    const auto gone = std::exchange(gone_, nullptr);
    say_ = nullptr;
    gone();
  }

 private:
  server::HttpRequest request_;
  OnMessage say_;
  std::function<void()> gone_;
  std::deque<std::function<void()>> posted_;
};

// Hears something different in each window, or has no room.
class Engine final : public EngineApi {
 public:
  void submit(Request request, OnChunk on_chunk) override {
    TANDEM_CHECK(request.prompt.encoder().sound().file().size() > 44);
    open_.emplace_back(std::move(request.id), std::move(on_chunk));
  }
  void cancel(const std::string& id) override {
    const auto it =
        std::find_if(open_.begin(), open_.end(), [&](auto& r) { return r.first == id; });
    if (it == open_.end()) return;
    proto::RequestChunk chunk;
    chunk.mutable_error()->set_type("cancelled");
    it->second(chunk);
    open_.erase(it);
  }
  EngineStatus status() override { return {.ready = true, .reason = "", .info = {}}; }
  void answer() {
    if (open_.empty()) return;
    proto::RequestChunk chunk;
    ++count_;
    if (count_ % 11 == 0) chunk.mutable_error()->set_type("overloaded_error");
    proto::CompletionChunk& news = *chunk.add_outputs();
    for (int i = 0; i < count_ % 4; ++i) {
      proto::SpeechSegment& segment = *news.add_segments();
      segment.set_text(" a, b" + std::to_string(count_ / 3 % 5) + "\xf0 c");
      segment.set_start(i);
      segment.set_end(i * count_ % 29);
    }
    chunk.set_finished(true);
    open_.front().second(chunk);
    open_.pop_front();
  }
  size_t open() const { return open_.size(); }

 private:
  std::deque<std::pair<std::string, OnChunk>> open_;
  int count_ = 0;
};

void run_events(std::string_view lines) {
  static FakeTokenizer tokenizer;
  static const server::ServerConfig config = [] {
    server::ServerConfig c;
    c.model_names = {"m"};
    return c;
  }();
  Engine engine;
  server::AppContext context{config, engine, tokenizer, 64, 3, "1", server::Metrics("m")};
  context.speech_tasks = {"transcribe"};
  context.speech_languages = {"de"};
  context.speech_times = true;
  server::Application application(context);
  const auto client = std::make_shared<Client>(socket_request());
  application.handle(client);
  int count = 0;
  while (!lines.empty() && ++count < 200) {
    const size_t end = std::min(lines.find('\n'), lines.size());
    client->say(lines.substr(0, end));
    lines.remove_prefix(std::min(end + 1, lines.size()));
    if (count % 3 != 0) engine.answer();
    client->run();
  }
  client->go();
  client->run();
  TANDEM_CHECK_EQ(engine.open(), size_t{0});
  TANDEM_CHECK_EQ(context.prompts_under_way.load(), 0);
  TANDEM_CHECK_EQ(context.live_sessions.load(), 0);
}

}  // namespace
}  // namespace tandem

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  if (input.starts_with('{'))
    tandem::run_events(input);
  else
    tandem::run_frames(input);
  return 0;
}
