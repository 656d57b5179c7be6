// ClientCore and a model of the server (cursors, windows and resumption as in
// runtime/engine/core/stream_table.h), with connections that break at any moment: messages are
// lost, arrive late by an old connection, or twice. In the end every stream must be exactly what
// the server generated.
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "client/client_core.h"
#include "client/stream.h"
#include "runtime/protocol/output_cursor.h"

namespace tandem::client {
namespace {

using Random = std::mt19937;

// A request on the server: all that it will ever generate, and how much of it there is by now.
struct Truth {
  proto::RequestOutput whole;
  std::vector<int> tokens;  // generated, by sequence
  // The stream to its client.
  uint64_t client = 0;
  bool inputs_sent = false, last_sent = false;
  int prompt_logprobs_sent = 0;
  std::vector<int> tokens_sent;
  std::vector<size_t> text_sent;

  // One byte of text for each token, one byte late.
  size_t text(size_t i) const {
    const int n = tokens[i];
    return static_cast<size_t>(ended(i) ? n : std::max(0, n - 1));
  }
  bool ended(size_t i) const {
    return tokens[i] == whole.outputs(static_cast<int>(i)).token_ids_size();
  }
  bool finished() const {
    for (size_t i = 0; i < tokens.size(); ++i)
      if (!ended(i)) return false;
    return true;
  }
  void restart() {
    inputs_sent = last_sent = false;
    prompt_logprobs_sent = 0;
    tokens_sent.assign(tokens.size(), 0);
    text_sent.assign(tokens.size(), 0);
  }
  proto::RequestChunk next_chunk() {
    proto::RequestChunk chunk;
    chunk.set_request_id(whole.request_id());
    if (!inputs_sent) *chunk.mutable_inputs() = whole.inputs();
    inputs_sent = true;
    for (size_t i = 0; i < tokens.size(); ++i) {
      const proto::CompletionOutput& from = whole.outputs(static_cast<int>(i));
      proto::CompletionChunk& to = *chunk.add_outputs();
      to.set_index(static_cast<int>(i));
      to.set_token_offset(tokens_sent[i]);
      for (int k = tokens_sent[i]; k < tokens[i]; ++k) {
        to.add_token_ids(from.token_ids(k));
        *to.add_logprobs() = from.logprobs(k);
      }
      to.set_text_offset(static_cast<int64_t>(text_sent[i]));
      to.set_text(from.text().substr(text_sent[i], text(i) - text_sent[i]));
      if (ended(i)) to.set_finish_reason(from.finish_reason());
      tokens_sent[i] = tokens[i];
      text_sent[i] = text(i);
    }
    chunk.set_prompt_logprobs_offset(prompt_logprobs_sent);
    for (; prompt_logprobs_sent < whole.prompt_logprobs_size(); ++prompt_logprobs_sent)
      *chunk.add_prompt_logprobs() = whole.prompt_logprobs(prompt_logprobs_sent);
    if (finished()) {
      chunk.set_finished(true);
      last_sent = true;
    }
    return chunk;
  }
};

struct Server {
  struct Link {  // to a client's connection
    uint64_t next = 1, acknowledged = 0;
    std::deque<proto::ServerMessage> out;
  };
  std::map<uint64_t, Link> links;
  std::map<std::string, Truth> requests;
  std::map<std::string, proto::RequestOutput> planned;  // what a submission will generate
  int submissions = 0;

  void refuse(uint64_t client, const std::string& id, const std::string& type) {
    proto::ServerMessage message;
    proto::RequestChunk& chunk = *message.add_chunks();
    chunk.set_request_id(id);
    chunk.mutable_error()->set_type(type);
    chunk.mutable_error()->set_param("request_id");
    chunk.set_finished(true);
    links[client].out.push_back(message);
  }
  void on_message(uint64_t client, const proto::ClientMessage& message) {
    if (message.has_submit()) {
      const std::string& id = message.submit().request_id();
      if (requests.count(id) > 0) return refuse(client, id, "invalid_request_error");
      Truth& truth = requests[id];
      truth.whole = planned.at(id);
      truth.tokens.assign(static_cast<size_t>(truth.whole.outputs_size()), 0);
      truth.restart();
      truth.client = client;
      ++submissions;
    } else if (message.has_resume()) {
      const auto it = requests.find(message.resume().request_id());
      if (it == requests.end())
        return refuse(client, message.resume().request_id(), "not_found_error");
      it->second.restart();
      it->second.client = client;
      for (const auto& p : message.resume().received()) {
        const auto i = static_cast<size_t>(p.index());
        ASSERT_LE(p.num_tokens(), it->second.tokens[i]);
        ASSERT_LE(p.text_bytes(), static_cast<int64_t>(it->second.text(i)));
        it->second.tokens_sent[i] = p.num_tokens();
        it->second.text_sent[i] = static_cast<size_t>(p.text_bytes());
      }
      it->second.prompt_logprobs_sent = message.resume().num_prompt_logprobs();
    } else if (message.has_acknowledge()) {
      Link& link = links[client];
      ASSERT_LT(message.acknowledge().message(), link.next);
      link.acknowledged = std::max<uint64_t>(link.acknowledged, message.acknowledge().message());
    }
  }
  void generate(Random& random) {
    for (auto& [id, truth] : requests)
      for (size_t i = 0; i < truth.tokens.size(); ++i)
        if (!truth.ended(i) && random() % 2) ++truth.tokens[i];
  }
  void flush(uint64_t client) {
    Link& link = links[client];
    if (link.next - 1 - link.acknowledged >= 16) return;
    proto::ServerMessage message;
    for (auto& [id, truth] : requests)
      if (truth.client == client && !truth.last_sent) *message.add_chunks() = truth.next_chunk();
    if (message.chunks_size() == 0) return;
    message.set_number(link.next++);
    link.out.push_back(std::move(message));
  }
};

proto::RequestOutput random_output(const std::string& id, Random& random) {
  proto::RequestOutput out;
  out.set_request_id(id);
  out.set_finished(true);
  out.mutable_inputs()->set_encoder_prompt("prompt of " + id);
  for (unsigned k = random() % 3; k > 0; --k)
    out.add_prompt_logprobs()->add_top()->set_token_id(static_cast<int>(k));
  const int n = 1 + static_cast<int>(random() % 3);
  for (int i = 0; i < n; ++i) {
    proto::CompletionOutput& seq = *out.add_outputs();
    seq.set_index(i);
    for (unsigned k = random() % 40; k > 0; --k) {
      const int token = static_cast<int>(random() % 1000);
      seq.add_token_ids(token);
      seq.add_logprobs()->add_top()->set_token_id(token);
      seq.mutable_text()->push_back(static_cast<char>('a' + random() % 26));
    }
    seq.set_finish_reason("stop");
  }
  return out;
}

// Both ends, and the wire between them.
class World : public ClientOutbox {
 public:
  explicit World(unsigned seed) : random_(seed), core_({"test", 1e9}, *this) {}

  void send(proto::ClientMessage message) override { wire_[connection_].push_back(message); }
  void deliver(Delivery delivery) override { delivered_.push_back(std::move(delivery)); }
  void drop_connection(const std::string& reason) override { connection_down_ = true; }

  void run() {
    const int num_requests = 1 + static_cast<int>(random_() % 6);
    for (int step = 0; step < 400; ++step) {
      if (next_key_ < num_requests && random_() % 10 == 0) submit();
      act(/*with_faults=*/true);
    }
    while (next_key_ < num_requests) submit();
    for (int step = 0; step < 3000 && core_.num_open() > 0; ++step) act(/*with_faults=*/false);
    while (!delivered_.empty()) consume();
    check();
  }

 private:
  void submit() {
    const std::string id = "r" + std::to_string(next_key_);
    server_.planned[id] = random_output(id, random_);
    outputs_[static_cast<StreamKey>(next_key_)].set_request_id(id);
    proto::SubmitRequest request;
    request.set_request_id(id);
    core_.submit(static_cast<StreamKey>(next_key_++), request, 0);
  }
  void act(bool with_faults) {
    if (connection_ == 0 || connection_down_) {
      connection_down_ = false;
      core_.disconnected("gone", 0);
      ++num_connections_;
      connection_ = num_connections_;
      core_.connected(connection_, 0);
    }
    switch (random_() % (with_faults ? 24 : 20)) {
      case 20: connection_down_ = true; break;  // what is under way may arrive late, or not at all
      case 21: late(); break;
      case 22: twice(); break;
      case 23: wire_[1 + random_() % num_connections_].clear(), connection_down_ = true; break;
      default: step(); break;
    }
  }
  void step() {
    switch (random_() % 5) {
      case 0: server_.generate(random_); break;
      case 1: server_.flush(connection_); break;
      case 2: to_server(connection_); break;
      case 3: to_client(); break;
      default:
        if (!delivered_.empty()) consume();
    }
  }
  void to_server(uint64_t connection) {
    auto& wire = wire_[connection];
    if (wire.empty()) return;
    const proto::ClientMessage message = wire.front();
    wire.pop_front();
    server_.on_message(connection, message);
  }
  // A submission that comes by an old connection after the new one has been made. (Resumptions do
  // not: the server drops what comes from clients that are gone.)
  void late() {
    const uint64_t old = 1 + random_() % num_connections_;
    while (!wire_[old].empty()) {
      if (old == connection_ || wire_[old].front().has_submit()) return to_server(old);
      wire_[old].pop_front();
    }
  }
  void to_client() {
    auto& out = server_.links[connection_].out;
    if (out.empty()) return;
    last_ = out.front();
    out.pop_front();
    last_connection_ = connection_;
    core_.on_message(connection_, last_, 0);
  }
  void twice() {
    if (last_.number() > 0) core_.on_message(last_connection_, last_, 0);
  }
  void consume() {
    const Delivery delivery = std::move(delivered_.front());
    delivered_.pop_front();
    for (const StreamNews& news : delivery.streams) {
      ASSERT_FALSE(news.error) << news.error->ShortDebugString();
      ASSERT_FALSE(outputs_[news.stream].finished());
      append_chunk(outputs_[news.stream], news.chunk);
    }
    core_.consumed(delivery.connection, delivery.number);
  }
  void check() {
    EXPECT_EQ(core_.num_open(), 0u);
    EXPECT_EQ(server_.submissions, next_key_);
    for (const auto& [key, output] : outputs_)
      EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(
          output, server_.planned.at(output.request_id())))
          << output.ShortDebugString() << "\n"
          << server_.planned.at(output.request_id()).ShortDebugString();
  }

  Random random_;
  ClientCore core_;
  Server server_;
  uint64_t connection_ = 0, num_connections_ = 0, last_connection_ = 0;
  bool connection_down_ = false;
  int next_key_ = 0;
  std::map<uint64_t, std::deque<proto::ClientMessage>> wire_;
  std::deque<Delivery> delivered_;
  std::map<StreamKey, proto::RequestOutput> outputs_;
  proto::ServerMessage last_;
};

TEST(ClientCoreRandomTest, StreamsAreWholeWhateverConnectionsDo) {
  const unsigned seed = std::random_device{}();
  for (unsigned i = 0; i < 300; ++i) {
    SCOPED_TRACE("seed " + std::to_string(seed + i));
    World(seed + i).run();
    if (HasFailure()) break;
  }
}

}  // namespace
}  // namespace tandem::client
