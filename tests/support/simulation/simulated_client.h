// Clients of a simulated cluster: they assemble streams by offsets, acknowledge late, lose their
// connections and come back as someone else, cancel, and vanish.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/engine/core/stream_table.h"
#include "tests/support/simulation/simulated_rank.h"
#include "tests/support/simulation/simulated_traits.h"
#include "tests/support/simulation/simulated_world.h"

namespace tandem::testing_support {

// How a client's messages reach the engine. Of a connection that is lost, nothing does any more.
struct Connection {
  ClientId id = 0;
  bool alive = true;
  Link to_engine{0.02}, to_client{0.02};
  uint64_t last_number = 0, last_acknowledged = 0;
};

class SimulatedClient;

class ClientPort {
 public:
  virtual ~ClientPort() = default;
  virtual std::shared_ptr<Connection> connect(SimulatedClient& client) = 0;
  virtual void lose(const std::shared_ptr<Connection>& connection) = 0;
  virtual void send(const std::shared_ptr<Connection>& connection,
                    const proto::ClientMessage& message) = 0;
};

class SimulatedClient {
 public:
  struct Stream {
    Plan* plan = nullptr;
    std::vector<proto::CompletionOutput> outputs;
    std::vector<int32_t> prompt_logprobs;
    std::optional<proto::Embedding> embedding;
    double submitted_at = -1;
    bool inputs = false, finished = false, cancelled = false, heard = false;
    int resumed = 0;
    std::optional<proto::Error> error;
    bool open() const { return submitted_at >= 0 && !finished && !cancelled; }
  };

  SimulatedClient(World& world, ClientPort& port) : world_(world), port_(port) {
    connection_ = port_.connect(*this);
  }

  void add(Plan& plan) {
    world_.after(plan.submit_at, [this, &plan] { submit(plan); });
    if (plan.cancel_at > 0) world_.after(plan.cancel_at, [this, &plan] { cancel(plan); });
  }

  // The connection breaks; after a while, the client goes on with a new one.
  void reconnect(double away) {
    if (vanished_ || !connection_->alive) return;
    SIM_LOG(world_, "client " + std::to_string(connection_->id) + " loses its connection");
    port_.lose(connection_);
    world_.after(away, [this] {
      if (vanished_) return;
      connection_ = port_.connect(*this);
      for (auto& [id, stream] : streams_)
        if (stream.open()) resume(id, stream);
    });
  }
  void vanish() {
    vanished_ = true;
    if (!connection_->alive) return;
    SIM_LOG(world_, "client " + std::to_string(connection_->id) + " vanishes");
    port_.lose(connection_);
  }
  bool vanished() const { return vanished_; }
  std::map<std::string, Stream>& streams() { return streams_; }

  void receive(const std::shared_ptr<Connection>& connection, const proto::ServerMessage& message) {
    if (message.number() != 0) {  // 0: an answer that needs no acknowledgement
      SIM_CHECK(message.number() == connection->last_number + 1, "numbers are consecutive");
      connection->last_number = message.number();
      SIM_CHECK(
          message.number() - connection->last_acknowledged <= ClientWindow::kMaxUnacknowledged,
          "within the window");
      const bool late = world_.one_in(3);
      acknowledge_later(connection, message.number(), late ? 0.2 : 0.01);
    }
    for (const proto::RequestChunk& chunk : message.chunks()) take(chunk);
  }

 private:
  void submit(Plan& plan) {
    if (vanished_) return;
    if (!connection_->alive) {  // later
      world_.after(0.05, [this, &plan] { submit(plan); });
      return;
    }
    SIM_LOG(world_, "client " + std::to_string(connection_->id) + " submits " + plan.id);
    Stream& stream = streams_[plan.id];
    stream = {};
    stream.plan = &plan;
    stream.outputs.resize(plan.undisturbed.size());
    stream.submitted_at = world_.now();
    proto::ClientMessage message;
    message.mutable_submit()->set_request_id(plan.id);
    message.mutable_submit()->set_timeout(plan.timeout);
    // Which of the plans of that id: stands for the prompt.
    message.mutable_submit()->mutable_prompt()->mutable_encoder()->set_text(
        std::to_string(plan.request.params.seed()));
    port_.send(connection_, message);
  }

  void cancel(Plan& plan) {
    const auto it = streams_.find(plan.id);
    if (vanished_ || it == streams_.end() || !it->second.open() || !connection_->alive) return;
    if (it->second.plan != &plan) return;
    SIM_LOG(world_, "cancel " + plan.id);
    it->second.cancelled = true;
    proto::ClientMessage message;
    message.mutable_cancel()->set_request_id(plan.id);
    port_.send(connection_, message);
  }

  void resume(const std::string& id, Stream& stream) {
    SIM_LOG(world_, "client " + std::to_string(connection_->id) + " resumes " + id);
    ++stream.resumed;
    proto::ClientMessage message;
    proto::ResumeRequest& request = *message.mutable_resume();
    request.set_request_id(id);
    for (size_t i = 0; i < stream.outputs.size(); ++i) {
      proto::StreamPosition& p = *request.add_received();
      p.set_index(static_cast<int32_t>(i));
      p.set_num_tokens(stream.outputs[i].token_ids_size());
      p.set_text_bytes(static_cast<int64_t>(stream.outputs[i].text().size()));
    }
    if (!stream.heard) request.clear_received();  // the server may not know it yet
    request.set_num_prompt_logprobs(static_cast<int32_t>(stream.prompt_logprobs.size()));
    port_.send(connection_, message);
  }

  void acknowledge_later(const std::shared_ptr<Connection>& connection, uint64_t number,
                         double longest) {
    world_.after(world_.between(0, longest), [this, connection, number] {
      if (!connection->alive || number <= connection->last_acknowledged) return;
      connection->last_acknowledged = number;
      proto::ClientMessage message;
      message.mutable_acknowledge()->set_message(number);
      port_.send(connection, message);
    });
  }

  void take(const proto::RequestChunk& chunk) {
    const auto it = streams_.find(chunk.request_id());
    SIM_CHECK(it != streams_.end(), "a chunk of " + chunk.request_id());
    Stream& stream = it->second;
    if (stream.cancelled) return;  // on its way when the cancellation was sent
    SIM_CHECK(!stream.finished, chunk.request_id() + ": a chunk behind the last one");
    // A submission that was lost with its connection.
    if (chunk.has_error() && chunk.error().type() == "not_found_error" && !stream.heard) {
      submit(*stream.plan);
      return;
    }
    stream.heard = stream.heard || chunk.has_inputs();
    for (const proto::CompletionChunk& news : chunk.outputs()) take(news, stream);
    SIM_CHECK(
        chunk.prompt_logprobs().empty() ||
            static_cast<size_t>(chunk.prompt_logprobs_offset()) == stream.prompt_logprobs.size(),
        chunk.request_id() + ": prompt logprobs repeated or missing");
    for (const auto& logprobs : chunk.prompt_logprobs())
      stream.prompt_logprobs.push_back(logprobs.top(0).token_id());
    if (chunk.has_embedding()) {
      SIM_CHECK(chunk.finished(), chunk.request_id() + ": a vector before the end");
      stream.embedding = chunk.embedding();
    }
    if (chunk.has_error()) stream.error = chunk.error();
    stream.finished = chunk.finished();
    if (stream.finished)
      SIM_LOG(world_, chunk.request_id() + " ends" +
                          (stream.error ? ": " + stream.error->message() : std::string()));
  }

  static void take(const proto::CompletionChunk& news, Stream& stream) {
    const std::string& id = stream.plan->id;
    SIM_CHECK(static_cast<size_t>(news.index()) < stream.outputs.size(), id);
    proto::CompletionOutput& output = stream.outputs[static_cast<size_t>(news.index())];
    SIM_CHECK(news.token_offset() == output.token_ids_size(),
              id + ": tokens repeated or missing, offset " + std::to_string(news.token_offset()) +
                  ", but there are " + std::to_string(output.token_ids_size()));
    SIM_CHECK(static_cast<size_t>(news.text_offset()) == output.text().size(),
              id + ": text repeated or missing");
    SIM_CHECK(output.finish_reason().empty() || news.token_ids().empty(), id);
    output.mutable_token_ids()->MergeFrom(news.token_ids());
    output.mutable_text()->append(news.text());
    for (const auto& logprobs : news.logprobs()) {
      *output.add_logprobs() = logprobs;
      for (auto& t : *output.mutable_logprobs()->rbegin()->mutable_top()) t.clear_decoded_token();
    }
    output.set_cumulative_logprob(news.cumulative_logprob());
    output.set_finish_reason(news.finish_reason());
    output.set_stop_reason(news.stop_reason());
  }

  World& world_;
  ClientPort& port_;
  std::shared_ptr<Connection> connection_;
  std::map<std::string, Stream> streams_;
  bool vanished_ = false;
};

}  // namespace tandem::testing_support
