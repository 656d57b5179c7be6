// An engine without a model, for tests of the network and the client: it speaks the clients' part
// of the protocol as runtime/engine/core/stream_table.h does. What a request generates follows from
// its prompt: "count N": N tokens 0, 1, … with the text "0 1 …"; "hang": nothing; "fail": an error.
#pragma once

#include <algorithm>
#include <atomic>
#include <caf/all.hpp>
#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/network/credentials.h"
#include "actors/network/messages.h"
#include "actors/network/network.h"
#include "actors/network/system_config.h"
#include "runtime/protocol/version.h"

namespace tandem::test {

struct FakeEngineCounters {
  std::atomic<int> hellos{0}, submits{0}, resumes{0}, cancels{0}, clients_gone{0};
  std::atomic<int> unacknowledged{0};  // of the client that was flushed last
  std::atomic<uint64_t> messages{0};
  std::atomic<bool> paused{false};  // generates nothing
  std::atomic<uint32_t> version{kProtocolVersion};
};

class FakeEngine {
 public:
  explicit FakeEngine(std::shared_ptr<FakeEngineCounters> counters)
      : counters_(std::move(counters)) {}

  void on_message(caf::event_based_actor* self, const actors::ClientHandle& client,
                  const proto::ClientMessage& message) {
    Link& link = links_[client.address()];
    link.handle = client;
    if (message.has_hello()) {
      ++counters_->hellos;
      self->monitor(client);
    } else if (message.has_get_info()) {
      proto::ServerMessage answer;
      answer.mutable_info()->set_query(message.get_info().query());
      answer.mutable_info()->set_protocol_version(counters_->version);
      answer.mutable_info()->set_model("fake");
      caf::anon_send(client, actors::ServerMessage(std::move(answer)));
    } else if (message.has_submit()) {
      ++counters_->submits;
      submit(self, link, message.submit());
    } else if (message.has_resume()) {
      ++counters_->resumes;
      resume(self, link, message.resume());
    } else if (message.has_cancel()) {
      ++counters_->cancels;
      requests_.erase(message.cancel().request_id());
    } else if (message.has_acknowledge()) {
      link.acknowledged = std::max<uint64_t>(link.acknowledged, message.acknowledge().message());
    }
    flush(self, link);
  }
  void gone(const caf::actor_addr& client) {
    ++counters_->clients_gone;
    links_.erase(client);
  }
  void tick(caf::event_based_actor* self) {
    if (counters_->paused) return;
    for (auto& [id, request] : requests_)
      if (request.tokens < request.total) ++request.tokens;
    for (auto& [address, link] : links_) flush(self, link);
  }

 private:
  struct Link {
    actors::ClientHandle handle;
    uint64_t next = 1, acknowledged = 0;
  };
  struct Running {
    int total = 0, tokens = 0, sent = 0;
    bool hangs = false, last_sent = false;
    caf::actor_addr client;
  };

  static std::string text(int begin, int end) {
    std::string out;
    for (int i = begin; i < end; ++i) out += std::to_string(i) + " ";
    return out;
  }
  void refuse(caf::event_based_actor* self, Link& link, const std::string& id,
              const std::string& type, const std::string& param) {
    proto::ServerMessage answer;
    proto::RequestChunk& chunk = *answer.add_chunks();
    chunk.set_request_id(id);
    chunk.set_finished(true);
    chunk.mutable_error()->set_type(type);
    chunk.mutable_error()->set_message(param + ": refused");
    chunk.mutable_error()->set_param(param);
    caf::anon_send(link.handle, actors::ServerMessage(std::move(answer)));
  }
  void submit(caf::event_based_actor* self, Link& link, const proto::SubmitRequest& r) {
    const std::string& prompt = r.prompt().encoder().text();
    if (requests_.count(r.request_id()) > 0)
      return refuse(self, link, r.request_id(), "invalid_request_error", "request_id");
    if (prompt == "fail")
      return refuse(self, link, r.request_id(), "invalid_request_error", "prompt");
    Running& request = requests_[r.request_id()];
    request.hangs = prompt.compare(0, 6, "count ") != 0;
    request.total = request.hangs ? 1 : std::atoi(prompt.c_str() + 6);
    request.client = link.handle.address();
  }
  void resume(caf::event_based_actor* self, Link& link, const proto::ResumeRequest& r) {
    const auto it = requests_.find(r.request_id());
    if (it == requests_.end())
      return refuse(self, link, r.request_id(), "not_found_error", "request_id");
    it->second.client = link.handle.address();
    it->second.sent = r.received_size() > 0 ? r.received(0).num_tokens() : 0;
    it->second.last_sent = false;
  }
  void flush(caf::event_based_actor* self, Link& link) {
    if (link.next - 1 - link.acknowledged >= 16) return;
    proto::ServerMessage message;
    for (auto& [id, request] : requests_) {
      if (request.client != link.handle.address() || request.hangs || request.last_sent) continue;
      if (request.sent == request.tokens && request.tokens < request.total) continue;
      proto::RequestChunk& chunk = *message.add_chunks();
      chunk.set_request_id(id);
      proto::CompletionChunk& output = *chunk.add_outputs();
      output.set_token_offset(request.sent);
      for (int i = request.sent; i < request.tokens; ++i) output.add_token_ids(i);
      output.set_text_offset(static_cast<int64_t>(text(0, request.sent).size()));
      output.set_text(text(request.sent, request.tokens));
      request.sent = request.tokens;
      if (request.tokens == request.total) {
        output.set_finish_reason("stop");
        chunk.set_finished(true);
        request.last_sent = true;
      }
    }
    if (message.chunks_size() == 0) return;
    message.set_number(link.next++);
    ++counters_->messages;
    counters_->unacknowledged = static_cast<int>(link.next - 1 - link.acknowledged);
    caf::anon_send(link.handle, actors::ServerMessage(std::move(message)));
  }

  std::shared_ptr<FakeEngineCounters> counters_;
  std::map<std::string, Running> requests_;
  std::map<caf::actor_addr, Link> links_;
};

using fake_tick = caf::atom_constant<caf::atom("FakeTick")>;

inline caf::behavior fake_engine(caf::event_based_actor* self,
                                 const std::shared_ptr<FakeEngineCounters>& counters) {
  auto engine = std::make_shared<FakeEngine>(counters);
  self->set_down_handler([engine](caf::down_msg& down) { engine->gone(down.source); });
  constexpr std::chrono::milliseconds interval(2);
  self->delayed_send(self, interval, fake_tick::value);
  return {[self, engine](const actors::ClientHandle& client, const actors::ClientMessage& message) {
            engine->on_message(self, client, *message);
          },
          [self, engine, interval](fake_tick) {
            engine->tick(self);
            self->delayed_send(self, interval, fake_tick::value);
          }};
}

// A server of its own authority, at a port of this host, and its engine. Writes the clients' access
// file where XDG_RUNTIME_DIR says.
class FakeEngineServer {
 public:
  explicit FakeEngineServer(uint16_t port = 0) {
    const actors::Credentials mine = authority.issue("engine");
    actors::SystemOptions options;
    options.threads = 1;
    options.peer_timeout = 2;
    config_ = std::make_unique<actors::SystemConfig>(options, &mine);
    system_ = std::make_unique<caf::actor_system>(*config_);
    engine_ = caf::actor_cast<actors::EngineHandle>(system_->spawn(fake_engine, counters));
    this->port = actors::publish(*system_, engine_, "127.0.0.1", port);
    address = "127.0.0.1:" + std::to_string(this->port);
    access_.emplace(actors::ClientAccess{address, authority.issue("client")}, this->port);
  }
  ~FakeEngineServer() { kill_engine(); }
  void kill_engine() {
    if (engine_) caf::anon_send_exit(engine_, caf::exit_reason::kill);
    engine_ = nullptr;
  }
  caf::actor_system& system() { return *system_; }
  const actors::EngineHandle& engine() const { return engine_; }

  actors::CertificateAuthority authority;
  std::shared_ptr<FakeEngineCounters> counters = std::make_shared<FakeEngineCounters>();
  uint16_t port = 0;
  std::string address;

 private:
  std::optional<actors::AccessFile> access_;
  std::unique_ptr<actors::SystemConfig> config_;
  std::unique_ptr<caf::actor_system> system_;
  actors::EngineHandle engine_;
};

}  // namespace tandem::test
